"""Values that the broker keeps under names, each replaced by the next: users, policies, what is retained.

A change that was answered is there; of later ones a crash may leave any first few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.simulation.model.promises import NEVER, check


@dataclass(eq=False)
class Change:
    """The value of a name from here on; None where there is none any more.

    promised  the change was answered
    vague     nobody knows whether it was made
    until_us  the value goes by itself at that time
    """

    value: object
    promised: bool = False
    vague: bool = False
    until_us: int = NEVER


class Facts:
    """Values by name, with the changes of which a crash may leave one."""

    def __init__(self, noun: str) -> None:
        self.noun: Final = noun
        self.changes: dict[str, list[Change]] = {}

    def value(self, name: str) -> object:
        """The value of now, as far as anybody knows; None where there is none."""
        return next((each.value for each in reversed(self.changes.get(name, ())) if not each.vague), None)

    def names(self) -> list[str]:
        """The names that have a value now."""
        return [name for name in self.changes if self.value(name) is not None]

    def is_sure(self, name: str) -> bool:
        """Whether nothing about the value of now is in doubt."""
        return not any(each.vague for each in self.changes.get(name, ()))

    def change(self, name: str, value: object, vague: bool = False, until_us: int = NEVER) -> Change:
        """The broker has taken in that this is the value from now on."""
        made = Change(value, False, vague, until_us)
        self.changes.setdefault(name, [Change(None, True)]).append(made)
        return made

    def audit(self, found: Mapping[str, object], restarted: bool, now_us: int, certain: bool = True) -> None:
        """Hold the values that the broker has against those that it may have; from then on they may be certain."""
        for name in sorted({*self.changes, *found}):
            changes = self.changes.get(name, [Change(None, True)])
            value = found.get(name)
            may = [each for each in changes[first_of(changes, restarted) :] if is_value(each, value, now_us)]
            check(bool(may), f"{self.noun} {name} is {value!r}, after {[shown(each) for each in changes]}")
            if not certain:
                if not may[-1].promised:  # it may yet be, or a crash undo it, or it and some of those before it
                    self.changes[name] = changes[first_of(changes, True) : changes.index(may[-1]) + 1]
                    may[-1].vague = False
            elif value is None:
                self.changes.pop(name, None)
            else:
                self.changes[name] = [Change(value, True, until_us=may[-1].until_us)]


def first_of(changes: list[Change], restarted: bool) -> int:
    """The place of the oldest change that may be the one in force."""
    sure = [at for at, each in enumerate(changes) if (each.promised if restarted else not each.vague)]
    return sure[-1]


def is_value(change: Change, value: object, now_us: int) -> bool:
    return change.value == value or (value is None and change.until_us <= now_us)


def shown(change: Change) -> str:
    word = "promised " if change.promised else "perhaps " if change.vague else ""
    return f"{word}{change.value!r}"
