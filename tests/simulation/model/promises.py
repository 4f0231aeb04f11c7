"""The words in which all parts of the model speak of what is certain, and of what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = 1 << 62


class Wrong(AssertionError):
    """The broker has not done what it promised."""


def check(holds: bool, text: str) -> None:
    if not holds:
        raise Wrong(text)


@dataclass(eq=False)
class Settlement:
    """Something was settled, and must not come back once `mark` is durable: NEVER until the turn has ended."""

    mark: int = NEVER
