"""The nodes that queues are on, and what declarations and policies may ask of that.

A cluster's members keep every durable queue, and one of them leads all. So a number of members that there are is in
force, and so is a smaller one: each queue has more. What asks for more members than there are, or says which of them
should lead a queue, is refused; on a single broker every rule leads to the one node there is.
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

    members    that keep each durable queue
    clustered  False: the broker stands alone
    """

    def __init__(self, members: int = 1, clustered: bool = False) -> None:
        self.members = members
        self.clustered = clustered

    def check_arguments(self, arguments: dict[str, object], where: str) -> None:
        """RequestError where a declaration asks for what cannot be; `where` is "queue 'q' in vhost '/'"."""
        for name, value in arguments.items():
            if name.startswith(ARGUMENT):
                fault = self.fault(name[len(ARGUMENT) :], value)
                if fault:
                    raise RequestError(PRECONDITION, f"invalid arg '{name}' for {where}: {fault}")

    def check_definition(self, definition: dict[str, object], who: str) -> None:
        """The same of what a policy sets; `who` is "policy 'p'"."""
        for name, value in definition.items():
            fault = self.fault(name, value)
            if fault:
                raise RequestError(INVALID, f"{who}: {name}: {fault}")

    def fault(self, name: str, value: object) -> str:
        """The reason why an argument, without `x-`, cannot be in force; empty where it is, or says nothing of nodes."""
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
        """The number of members, for people."""
        if self.clustered:
            return f"the {self.members} members that the cluster has (cluster.members)"
        return "the 1 member that a broker has which stands alone"
