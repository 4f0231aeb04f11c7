"""The diagnoses of `forebay doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

GOOD: Final = "good"
NOTE: Final = "note"  # worth knowing, but not a fault
WARNING: Final = "warning"
ERROR: Final = "error"
LEVELS: Final = (GOOD, NOTE, WARNING, ERROR)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check.

    check   name of the check, such as disk or clock
    text    what the check found
    remedy  what to do; empty if nothing is to be done
    fields  measured values, for JSON
    """

    check: str
    level: str
    text: str
    remedy: str = ""
    fields: dict[str, object] = field(default_factory=dict)

    def shown(self) -> dict[str, object]:
        """Return the diagnosis as fields for JSON."""
        return asdict(self)


def worst(findings: Sequence[Diagnosis]) -> str:
    """Return the highest level among findings. Returns GOOD if there are none."""
    return max((each.level for each in findings), key=LEVELS.index, default=GOOD)
