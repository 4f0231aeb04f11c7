"""Commands about policies: they apply at once, to what is there and what will be."""

from __future__ import annotations

from forebay.broker.catalog.commands.queues import governed
from forebay.broker.catalog.commands.topology_command import TopologyCommand
from forebay.broker.catalog.policies import EXCHANGES, Policy, target_of
from forebay.broker.catalog.topology import Topology


class SetPolicy(TopologyCommand[Topology], frozen=True, tag="policy"):
    """Make a policy, which `check_policy` has checked, or put it in the place of the one of that name."""

    policy: Policy

    def check(self, where: Topology) -> None:
        where.placement.check_definition(self.policy.definition, self.policy.called())

    def is_durable(self, where: Topology) -> bool:
        return True

    def tell(self, where: Topology) -> None:
        fields = self.policy.fields()
        where.events.note("policy.set", where.name, {"policy": fields.pop("name"), **fields})

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        policies = where.policies.table_of(self.policy.operator)
        old = policies.get(self.policy.name)
        policies[self.policy.name] = self.policy
        return govern(where, [self.policy] if old is None else [old, self.policy])


class ClearPolicy(TopologyCommand[Topology], frozen=True, tag="policy-clear"):
    """Take a policy away."""

    name: str
    operator: bool = False

    def check(self, where: Topology) -> None:
        where.policies.find(self.name, self.operator)

    def is_durable(self, where: Topology) -> bool:
        return True

    def tell(self, where: Topology) -> None:
        where.events.note("policy.cleared", where.name, {"policy": self.name, "operator": self.operator})

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        return govern(where, [where.policies.table_of(self.operator).pop(self.name)])


def govern(where: Topology, changed: list[Policy]) -> list[TopologyCommand[Topology]]:
    """Put in force what changed policies say, or said until now; what follows from it."""
    following: list[TopologyCommand[Topology]] = []
    for queue in where.queues.values():
        if any(policy.covers(queue.name, target_of(queue)) for policy in changed):
            following += governed(where, queue)
    for exchange in where.bindings.exchanges.values():
        if any(policy.covers(exchange.name, EXCHANGES) for policy in changed):
            where.policies.govern_exchange(exchange)
            where.bindings.routes.drop_exchange(exchange.name)  # it may have another alternate
    return following
