"""Commands: every change of what a broker knows beside its messages, checked, written down and applied in one way.

Each says one change. Where it is made it is checked, written in the frame of the turn, and applied; recovery reads it
and applies it with the same code. What follows from a change (an exchange that loses its last binding goes) is a
command of its own, in the same frame: applying one never does more than it says.

In the log a command is a table in msgpack: `op`, which names it, and its fields without those that have their defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

import msgspec

from forebay.core.errors import StorageError

if TYPE_CHECKING:
    from forebay.broker.auth.users import Users
    from forebay.broker.catalog.parameters import Parameters
    from forebay.broker.catalog.topology import Topology
    from forebay.broker.vhosts import Vhosts

C = TypeVar("C")


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="op"):
    """One change.

    urgent  it is on the disk with this turn's commit; else with the next that somebody waits for
    """

    urgent: ClassVar[bool] = True

    def encoded(self) -> bytes:
        """As it stands in the log."""
        return msgspec.msgpack.encode(self)


class TopologyCommand(Command, frozen=True):
    """A change in one vhost, made by `Topology.execute`."""

    def check(self, where: Topology) -> None:
        """RequestError where it cannot be; nothing is changed."""

    def is_durable(self, where: Topology) -> bool:
        """True if a restart keeps it. It is not applied yet."""
        raise NotImplementedError

    def tell(self, where: Topology) -> None:
        """Tell listeners to events; it is not applied yet."""

    def apply(self, where: Topology) -> list[TopologyCommand]:
        """Do it; what follows from it, which recovery leaves to the log."""
        raise NotImplementedError


class UserCommand(Command, frozen=True):
    """A change of users and their rights, made by `Users.execute`."""

    def check(self, users: Users) -> None:
        """RequestError where it cannot be; nothing is changed."""

    def apply(self, users: Users) -> None:
        """Do it."""
        raise NotImplementedError


class ParameterCommand(Command, frozen=True):
    """A change of parameters, made by `Parameters.execute`."""

    def check(self, parameters: Parameters) -> None:
        """RequestError where it cannot be; nothing is changed."""

    def apply(self, parameters: Parameters) -> None:
        """Do it."""
        raise NotImplementedError


class VhostCommand(Command, frozen=True):
    """A change of which vhosts there are and of their settings, made by `Vhosts.execute`."""

    def check(self, vhosts: Vhosts) -> None:
        """RequestError where it cannot be; nothing is changed."""

    def apply(self, vhosts: Vhosts) -> None:
        """Do it."""
        raise NotImplementedError


def decoded(decoder: msgspec.msgpack.Decoder[C], payload: bytes) -> C:
    """The command that the log has; StorageError names one that this version does not know, or cannot read."""
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise StorageError(
            f"the write-ahead log has a command that this forebay does not know: {shown(payload)}: {error}"
        ) from None


def shown(payload: bytes) -> str:
    """A command of the log for people: its name, where it has one."""
    try:
        fields = msgspec.msgpack.decode(payload)
    except msgspec.DecodeError:
        return f"{len(payload)} octets"
    return repr(fields.get("op")) if isinstance(fields, dict) else repr(fields)[:80]
