"""The known name that somebody may have meant who wrote an unknown one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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


def slip_among(given: Collection[str], known: Iterable[str]) -> tuple[str, str]:
    """The first of these names that is a slip of a known one not among them, and that one; else empty texts."""
    names = set(known)
    for name in given:
        meant = slip_of(name, names)
        if meant and meant not in given:
            return name, meant
    return "", ""


def hint(name: str, known: Iterable[str]) -> str:
    """The words that a refusal of a name ends with: the nearest that is known, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(names) or 'none'}"
