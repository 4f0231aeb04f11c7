"""Commands that change what is declared in one vhost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.broker.catalog.command import Command

if TYPE_CHECKING:
    from forebay.broker.catalog.topology import Topology


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
