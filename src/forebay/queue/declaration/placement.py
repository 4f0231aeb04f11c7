"""The nodes that queues are on, and what declarations and policies may ask of them.

A cluster's members keep every durable queue, and one of them leads all queues. A requested number of members is
accepted up to the number that exists, as each queue has all of them. A request for more members, or for a certain
leader of a queue, is refused. On a single broker every leader rule names the one node there is.
"""

from __future__ import annotations

from typing import Final, final

from forebay.core.errors import INVALID, PRECONDITION, RequestError

SIZES: Final = ("quorum-initial-group-size", "quorum-target-group-size", "initial-cluster-size", "target-group-size")
LOCATORS: Final = ("queue-leader-locator", "queue-master-locator")
ARGUMENT: Final = "x-"


@final
class Placement:
    """The nodes of one broker.

    members    number of members that keep each durable queue
    clustered  False if the broker stands alone
    """

    def __init__(self, members: int = 1, clustered: bool = False) -> None:
        self.members = members
        self.clustered = clustered

    def check_arguments(self, arguments: dict[str, object], where: str) -> None:
        """Raise RequestError if a declaration asks for the impossible; `where` is "queue 'q' in vhost '/'"."""
        for name, value in arguments.items():
            if name.startswith(ARGUMENT):
                fault = self.fault(name[len(ARGUMENT) :], value)
                if fault:
                    raise RequestError(PRECONDITION, f"invalid arg '{name}' for {where}: {fault}")

    def check_definition(self, definition: dict[str, object], who: str) -> None:
        """Raise RequestError if a policy asks for the impossible; `who` is "policy 'p'"."""
        for name, value in definition.items():
            fault = self.fault(name, value)
            if fault:
                raise RequestError(INVALID, f"{who}: {name}: {fault}")

    def fault(self, name: str, value: object) -> str:
        """Return why an argument, named without `x-`, cannot be in force; "" if it can, or does not concern nodes."""
        if name in SIZES:
            if isinstance(value, bool) or not isinstance(value, int):
                return f"{value!r} is no number of members"
            if value > self.members:
                return f"{value} is more than {self.said()}"
        elif name in LOCATORS and self.clustered:
            return (
                f"{value!r} cannot be: one node leads all queues; forebay cluster transfer says which, for all of them"
            )
        return ""

    def said(self) -> str:
        """Return the number of members as a phrase for error messages."""
        if self.clustered:
            return f"the {self.members} members that the cluster has (cluster.members)"
        return "the 1 member that a broker has which stands alone"
