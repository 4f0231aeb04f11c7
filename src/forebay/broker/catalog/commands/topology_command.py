"""Commands that change what is declared in one vhost."""

from __future__ import annotations

from typing import Generic, TypeVar

from forebay.directory.command import Command

T = TypeVar("T")


class TopologyCommand(Command, Generic[T], frozen=True):
    """A change in one vhost, made by `Topology.execute`: T is `Topology`, which knows no command but this."""

    def check(self, where: T) -> None:
        """RequestError where it cannot be; nothing is changed."""

    def is_durable(self, where: T) -> bool:
        """True if a restart keeps it. It is not applied yet."""
        raise NotImplementedError

    def tell(self, where: T) -> None:
        """Tell listeners to events; it is not applied yet."""

    def apply(self, where: T) -> list[TopologyCommand[T]]:
        """Do it; what follows from it, which recovery leaves to the log."""
        raise NotImplementedError
