"""The audit log: whoever lets somebody change something notes it here, and the server takes it at the turn's end."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from forebay.directory.logins.authorizer import Principal

DONE: Final = "done"
LOST: Final = "audit.lost"  # so many changes have no entry
MASK: Final = "***"
SECRET_NAMES: Final = ("password", "secret", "token", "hash", "credential", "authorization", "private")
ENTRIES_MAX: Final = 10_000  # of one turn
TEXT_CHARACTERS_MAX: Final = 4096
SCHEME_END: Final = "://"
SPACES: Final = re.compile(r"(\s+)")
IN_QUERY: Final = re.compile(
    rf"([?&;,]\s*[\w.-]{{0,40}}(?:{'|'.join(SECRET_NAMES)})[\w.-]{{0,40}}=)[^&;,\s\"']+", re.IGNORECASE
)


class Origin:
    """The user that asks, from which address, and by which protocol."""

    def __init__(self, principal: Principal, address: str, protocol: str) -> None:
        self.principal = principal
        self.address = address
        self.protocol = protocol


class Administration(ABC):
    """The way in for administrators."""

    @abstractmethod
    def waits(self, name: str) -> bool:
        """True if this is an operation that changes what is on disk: its answer waits for that."""

    @abstractmethod
    def run(self, origin: Origin, name: str, values: dict[str, object]) -> dict[str, object]:
        """The answer to one request of somebody who has logged in.

        values  the arguments as they came
        raises  RequestError: REFUSED for a user who is no administrator, NOT_FOUND for no such operation, INVALID
                naming the argument that is wrong, or what the operation says
        """


class AuditEntry:
    """One change, done or refused; `result` is DONE or says why not."""

    def __init__(self, user: str, address: str, protocol: str, what: str, arguments: object, result: str) -> None:
        self.user = user
        self.address = address
        self.protocol = protocol
        self.what = what
        self.arguments = arguments
        self.result = result


class Audit:
    """The entries that the server has not taken yet; `lost` counts what was too much for one turn."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.lost = 0

    def note(self, origin: Origin, what: str, arguments: Mapping[str, object], result: str = DONE) -> None:
        """Note that somebody has changed something, or was refused."""
        if len(self.entries) >= ENTRIES_MAX:
            self.lost += 1
            return
        user = origin.principal.user
        masked_arguments = masked(arguments)
        self.entries.append(
            AuditEntry(user, origin.address, origin.protocol, what, masked_arguments, without_passwords(result))
        )

    def take(self) -> list[AuditEntry]:
        """The entries since the last call."""
        entries, self.entries = self.entries, []
        if self.lost:
            lost, self.lost = self.lost, 0
            entries.append(AuditEntry("", "", "", LOST, {"entries": lost}, f"more than {ENTRIES_MAX} changes at once"))
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
        return without_passwords(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, list | tuple):
        return [masked(each, depth + 1) for each in value]
    if isinstance(value, str):
        return without_passwords(value)
    return value if value is None or isinstance(value, bool | int | float) else without_passwords(str(value))


def is_secret(name: str) -> bool:
    """True if a field of this name holds what nobody may read in a log."""
    lower = name.lower()
    return any(part in lower for part in SECRET_NAMES)


def without_passwords(text: str) -> str:
    """The text, cut where it is long, with a mask in place of passwords that addresses in it have."""
    cut = text[:TEXT_CHARACTERS_MAX]
    if SCHEME_END not in cut:
        return cut
    words = SPACES.split(cut)
    is_cut = len(cut) < len(text)
    words = [without_password(word, is_cut and at == len(words) - 1) for at, word in enumerate(words)]
    return IN_QUERY.sub(rf"\1{MASK}", "".join(words))[:TEXT_CHARACTERS_MAX]


def without_password(word: str, is_cut: bool) -> str:
    """A word in which an address may stand, whose password is between a colon and the last `@`, or where it was cut."""
    start = word.find(SCHEME_END)
    if start < 0:
        return word
    colon = word.find(":", start + len(SCHEME_END))
    end = word.rfind("@")
    if end < 0 and is_cut:
        end = len(word)
    return word if colon < 0 or end < colon else f"{word[: colon + 1]}{MASK}{word[end:]}"
