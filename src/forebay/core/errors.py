"""The kinds of error, by who did wrong: the peer, the caller, the disk, or nobody knows.

A broken invariant of our own is an `assert`: it ends the connection that it is met for, or the process (ADR 19). Each
error carries a reason (one of the constants below; one table per protocol maps it to the wire's code) and a text that
names the field and the value.
"""

from __future__ import annotations

from typing import Final

# Reasons of a PeerError: the peer broke its protocol.
MALFORMED: Final = "malformed"  # octets that no packet or frame can have
UNEXPECTED: Final = "unexpected"  # a well-formed packet or frame at the wrong time
NOT_IMPLEMENTED: Final = "not-implemented"
TOO_LARGE: Final = "too-large"
UNSUPPORTED_VERSION: Final = "unsupported-version"
TIMED_OUT: Final = "timed-out"  # keepalive, heartbeat or handshake
TAKEN_OVER: Final = "taken-over"

# Reasons of a RequestError: the caller asked the impossible, and nothing changed.
NOT_FOUND: Final = "not-found"
PRECONDITION: Final = "precondition"
REFUSED: Final = "refused"  # bad login or no permission
LOCKED: Final = "locked"  # exclusive to somebody else
INVALID: Final = "invalid"  # a field's value is out of its domain
NOT_ALLOWED: Final = "not-allowed"
TOO_MANY: Final = "too-many"  # there are as many as there may be
DAMAGED: Final = "damaged"  # it is there, and cannot be read

INTERNAL: Final = "internal"  # nobody's doing but ours: the connection ends

HALF_CHANGED: Final = "State that all connections share may be half changed."  # a note on an error

# Scopes: how much of the connection an error ends.
MESSAGE: Final = "message"
CHANNEL: Final = "channel"
CONNECTION: Final = "connection"


class ForebayError(Exception):
    """Base of every error that this package raises on purpose."""


class PeerError(ForebayError):
    """The peer broke the protocol: its channel or connection ends with the protocol's code for `reason`."""

    def __init__(self, reason: str, text: str, scope: str = CONNECTION) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.scope = scope


class RequestError(ForebayError):
    """The caller asked the impossible; nothing changed."""

    def __init__(self, reason: str, text: str, scope: str = CHANNEL) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.scope = scope


class LimitReached(RequestError):
    """There are as many already as there may be: the connection that wants another ends."""

    def __init__(self, text: str) -> None:
        super().__init__(NOT_ALLOWED, text, CONNECTION)


class Later(ForebayError):
    """There is more to do than one turn is for; nothing of it was done, and it comes again."""


class OptionError(ForebayError):
    """An option, argument or configuration key has a value that it cannot have."""


class StorageError(ForebayError):
    """The disk or a file on it failed: nothing more may be confirmed."""


class DiskFull(StorageError):
    """There is no room on the disk for more octets; what was there before is untouched."""


class CorruptFile(StorageError):
    """A file's octets are not what was written; names the file, the position and the offsets it concerns."""

    def __init__(self, path: str, position: int, text: str) -> None:
        super().__init__(f"{path}: at octet {position}: {text}")
        self.path = path
        self.position = position


class Unreachable(ForebayError):
    """No broker answers at any of the addresses given."""


class UnreadableFile(StorageError):
    """A file, or a part of it, is not to be had from the disk any more."""


class DamagedBlock(CorruptFile, RequestError):
    """Messages of one log cannot be read: whoever asks for them is refused, and everything else goes on.

    queue, name  whose log it is: its number, and its name
    base, end    the offsets that cannot be read
    """

    def __init__(self, path: str, position: int, queue: int, name: str, base: int, end: int, why: str) -> None:
        text = (
            f"queue '{name}' is damaged: {path}: at octet {position}: queue {queue}, offsets {base} to {end - 1}: {why}"
        )
        Exception.__init__(self, text)
        self.path = path
        self.position = position
        self.reason = DAMAGED
        self.text = text
        self.scope = CHANNEL
        self.queue = queue
        self.name = name
        self.base = base
        self.end = end
        self.why = why


class OutcomeUnknown(ForebayError):
    """The connection ended before the answer came: look before asking again."""


def note_half_change(error: Exception) -> None:
    """Note on an error that it has interrupted a change of state that all connections share.

    Call this where such a change is made, and raise the error again. The note stops the broker if nothing handles the
    error (ADR 19). A refusal gets no note, because it is raised before anything changes.
    """
    is_refusal = isinstance(error, ForebayError) and not isinstance(error, StorageError)
    if not is_refusal and not has_half_changed(error):
        error.add_note(HALF_CHANGED)


def has_half_changed(error: BaseException) -> bool:
    """Return whether an error bears the note of `note_half_change`."""
    return HALF_CHANGED in getattr(error, "__notes__", ())
