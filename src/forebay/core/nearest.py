"""What somebody who wrote a name that nobody knows may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def hint(name: str, known: Iterable[str]) -> str:
    """The words that a refusal of a name ends with: the nearest that is known, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(names) or 'none'}"
