"""Names of what a user leaves here: those of another user are other names, though they look alike.

A stored name is the user's, an octet 0, and the name that the user gave. One without an octet 0 was stored before names
had owners: whoever asks for it may have it.
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import INVALID, RequestError

SEPARATOR: Final = "\0"


def owned_name(user: str, field: str, name: str) -> str:
    """Return the stored name; RequestError(INVALID), which names the field, if the user's name has an octet 0."""
    if SEPARATOR in name:
        raise RequestError(INVALID, f"{field}: {name!r} has an octet 0")
    return user + SEPARATOR + name


def owner_in(stored: str) -> str:
    """Return the user in a stored name, empty if it has no owner."""
    return stored[: max(stored.rfind(SEPARATOR), 0)]


def name_in(stored: str) -> str:
    """Return the name that the user gave."""
    return stored[stored.rfind(SEPARATOR) + 1 :]
