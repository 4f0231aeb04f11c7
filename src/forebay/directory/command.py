"""Commands: every change of what a broker knows beside its messages, checked, written down and applied in one way.

Each says one change. Where it is made it is checked, written in the frame of the turn, and applied; recovery reads it
and applies it with the same code. What follows from a change (an exchange that loses its last binding goes) is a
command of its own, in the same frame: applying one never does more than it says.

In the log a command is a table in msgpack: `op`, which names it, and its fields without those that have their defaults.

A command is checked and encoded before anything changes (ADR 26): a value that the log cannot hold is refused there,
with its field, whoever let it in.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import msgspec

from forebay.core.errors import INVALID, RequestError, StorageError
from forebay.core.reading.json_text import fault_of

C = TypeVar("C")
S = TypeVar("S")


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="op"):
    """One change.

    urgent  it is on the disk with this turn's commit; else with the next that somebody waits for
    """

    urgent: ClassVar[bool] = True

    def encoded(self) -> bytes:
        """Return the command as the log has it; raise RequestError, naming the field, if the log cannot hold it."""
        try:
            return msgspec.msgpack.encode(self)
        except (ValueError, OverflowError, RecursionError) as error:
            raise RequestError(INVALID, fault_of(fields_of(self)) or str(error)) from None


class StateCommand(Command, Generic[S], frozen=True):
    """A change of one state of the broker, made by its `execute`."""

    def check(self, state: S) -> None:
        """RequestError where it cannot be; nothing is changed."""

    def apply(self, state: S) -> None:
        """Do it."""
        raise NotImplementedError


def fields_of(struct: msgspec.Struct) -> dict[str, object]:
    """Return the fields of a command, in which the fields of a part stand as an object."""
    fields: dict[str, object] = msgspec.structs.asdict(struct)
    return {name: fields_of(each) if isinstance(each, msgspec.Struct) else each for name, each in fields.items()}


def decoded(decoder: msgspec.msgpack.Decoder[C], payload: bytes) -> C:
    """The command that the log has; StorageError names one that this version does not know, or cannot read."""
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise StorageError(
            f"the write-ahead log has a command that this forebay does not know: {shown(payload)}: {error}"
        ) from None


def shown(payload: bytes) -> str:
    """Describe a logged command for an error message, by its name if it has one."""
    try:
        fields = msgspec.msgpack.decode(payload)
    except msgspec.DecodeError:
        return f"{len(payload)} octets"
    return repr(fields.get("op")) if isinstance(fields, dict) else repr(fields)[:80]
