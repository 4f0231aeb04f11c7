"""Who changed what: noted here by whoever lets somebody change something, and taken by the server at the turn's end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forebay.broker.judge import Principal

DONE: Final = "done"
MASK: Final = "***"
SECRET_NAMES: Final = ("password", "secret", "token", "hash", "credential", "authorization", "private")
ENTRIES_MAX: Final = 10_000  # of one turn
TEXT_CHARACTERS_MAX: Final = 4096


class Origin:
    """Who asks, from which address, and by which protocol."""

    def __init__(self, principal: Principal, address: str, protocol: str) -> None:
        self.principal = principal
        self.address = address
        self.protocol = protocol


class Entry:
    """One change, done or refused; `result` is DONE or says why not."""

    def __init__(self, user: str, address: str, protocol: str, what: str, arguments: object, result: str) -> None:
        self.user = user
        self.address = address
        self.protocol = protocol
        self.what = what
        self.arguments = arguments
        self.result = result


class Audit:
    """What the server has not taken yet; `lost` counts what was too much for one turn."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.lost = 0

    def note(self, origin: Origin, what: str, arguments: Mapping[str, object], result: str = DONE) -> None:
        """Somebody has changed something, or was not let."""
        if len(self.entries) >= ENTRIES_MAX:
            self.lost += 1
            return
        user = origin.principal.user
        masked_arguments = masked(arguments)
        self.entries.append(
            Entry(user, origin.address, origin.protocol, what, masked_arguments, result[:TEXT_CHARACTERS_MAX])
        )

    def take(self) -> list[Entry]:
        """What was noted since the last call."""
        entries, self.entries = self.entries, []
        return entries


def masked(value: object, depth: int = 0) -> object:
    """The value as JSON can have it, with a mask in place of what nobody may read in a log."""
    if depth > 8:
        return MASK
    if isinstance(value, Mapping):
        return {
            str(key): MASK if is_secret(str(key)) and each not in ("", None) else masked(each, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")[:TEXT_CHARACTERS_MAX]
    if isinstance(value, list | tuple):
        return [masked(each, depth + 1) for each in value]
    if isinstance(value, str):
        return value[:TEXT_CHARACTERS_MAX]
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:TEXT_CHARACTERS_MAX]


def is_secret(name: str) -> bool:
    """Whether a field of this name holds what nobody may read in a log."""
    lower = name.lower()
    return any(part in lower for part in SECRET_NAMES)
