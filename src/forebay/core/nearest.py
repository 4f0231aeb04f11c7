"""The known name that somebody may have meant who wrote an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

CLOSE: Final = 0.75  # how alike two names are of which one is a slip of the other


def slip_of(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant; empty where the name is known, or is like none."""
    names = sorted(known)
    if name in names:
        return ""
    near = get_close_matches(name, names, 1, CLOSE)
    return near[0] if near else ""


def hint(name: str, known: Iterable[str]) -> str:
    """The words that a refusal of a name ends with: the nearest that is known, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(names) or 'none'}"
