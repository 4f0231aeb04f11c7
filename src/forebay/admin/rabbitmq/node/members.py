"""The nodes that there are, by the names that RabbitMQ's API has for them: this one, and in a cluster every member."""

from __future__ import annotations

from forebay.admin.rabbitmq.node.node import PREFIX, own_node
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.server.broker_view import BrokerView


def members(app: BrokerView) -> dict[str, dict[str, object]]:
    """Every member of the cluster by its name here, with what the cluster tells of it; nothing of a single broker."""
    cluster = app.control.cluster
    if cluster is None:
        return {}
    status = cluster.status()
    listed, too_few = status["members"], status["too_few_in_sync"]
    assert isinstance(listed, list)
    return {f"{PREFIX}{each['node']}": {**each, "too_few_in_sync": too_few} for each in listed}


class Nodes:
    """The nodes at one moment.

    own      this one
    all      names
    running  those that do
    """

    def __init__(self, app: BrokerView) -> None:
        self.own = own_node(app)
        self.members = members(app)
        self.all = sorted(self.members) or [self.own]
        self.running = [name for name in self.all if name == self.own or self.members[name]["running"]]

    @property
    def clustered(self) -> bool:
        """True where the broker is one of a cluster."""
        return bool(self.members)


def check_node(app: BrokerView, name: str) -> dict[str, object]:
    """The cluster's word on a node, nothing of a single broker; RequestError(NOT_FOUND) where there is no such node."""
    own = own_node(app)
    found = members(app)
    if name != own and name not in found:
        known = "', '".join(sorted(found) or [own])
        raise RequestError(NOT_FOUND, f"node: '{name}' does not exist; there is '{known}'")
    return found.get(name, {})


def member_named(name: str) -> str:
    """The name of a node within the cluster."""
    return name.removeprefix(PREFIX)
