"""The known name that somebody may have meant who wrote an unknown one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

CLOSE: Final = 0.75  # how alike two names are of which one is a slip of the other


def slip_of(name: str, known: Iterable[str]) -> str:
    """Return the known name closest to a misspelt one, or "" if the name is known or none is close."""
    names = sorted(known)
    if name in names:
        return ""
    near = get_close_matches(name, names, 1, CLOSE)
    return near[0] if near else ""


def slip_among(given: Collection[str], known: Iterable[str]) -> tuple[str, str]:
    """Return the first misspelt name and the known name closest to it, or two empty texts.

    A known name that is given as well is not what was meant.
    """
    names = set(known)
    for name in given:
        meant = slip_of(name, names)
        if meant and meant not in given:
            return name, meant
    return "", ""


def hint(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that refuses a name: the closest known name, or all known names."""
    names = sorted(known)
    near = get_close_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(names) or 'none'}"
