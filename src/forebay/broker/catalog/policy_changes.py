"""Setting and clearing policies of a vhost that runs: they apply at once, to what is there and what will be."""

from __future__ import annotations

from forebay.broker.catalog.policies import (
    ALL,
    EXCHANGES,
    Policy,
    check_policy,
    clear_command,
    policy_command,
    target_of,
)
from forebay.broker.vhost import Vhost


def set_policy(
    vhost: Vhost,
    name: str,
    pattern: object,
    definition: object,
    priority: object = 0,
    apply_to: object = ALL,
    *,
    operator: bool = False,
) -> Policy:
    """Make a policy, or put it in the place of the one of that name; on disk when `vhost.lsn()` is.

    definition  keys as for RabbitMQ, e.g. {"message-ttl": 60000}
    raises      RequestError(INVALID): names the field and the value
    """
    policy = check_policy(name, operator, pattern, apply_to, definition, priority)
    old = vhost.catalog.policies.table_of(operator).get(name)
    vhost.catalog.policies.table_of(operator)[name] = policy
    govern(vhost, [policy] if old is None else [old, policy])
    vhost.catalog.command(policy_command(policy))
    vhost.events.note("policy.set", vhost.name, told(policy))
    return policy


def clear_policy(vhost: Vhost, name: str, *, operator: bool = False) -> None:
    """Take a policy away; on disk when `vhost.lsn()` is. RequestError(NOT_FOUND) where there is none."""
    policy = vhost.catalog.policies.find(name, operator)
    del vhost.catalog.policies.table_of(operator)[name]
    govern(vhost, [policy])
    vhost.catalog.command(clear_command(policy))
    vhost.events.note("policy.cleared", vhost.name, {"policy": policy.name, "operator": policy.operator})


def told(policy: Policy) -> dict[str, object]:
    """A policy as those hear of it who listen to events."""
    facts = policy.fields()
    return {"policy": facts.pop("name"), **facts}


def govern(vhost: Vhost, changed: list[Policy]) -> None:
    """Put in force what changed policies say, or said until now."""
    for queue in vhost.catalog.queues.values():
        if any(policy.covers(queue.name, target_of(queue)) for policy in changed):
            vhost.catalog.govern(queue)
            vhost.turn.mark(queue)
    for exchange in vhost.catalog.bindings.exchanges.values():
        if any(policy.covers(exchange.name, EXCHANGES) for policy in changed):
            vhost.catalog.policies.govern_exchange(exchange)
