"""Policies of a vhost set and cleared, with what its queues have to do about it in this turn."""

from __future__ import annotations

from forebay.broker.catalog.commands.policies import ClearPolicy, SetPolicy
from forebay.broker.catalog.policies import ALL, Policy, check_policy, target_of
from forebay.broker.vhost import Vhost
from forebay.core.errors import note_half_change


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
    put_policy(vhost, policy)
    return policy


def put_policy(vhost: Vhost, policy: Policy) -> None:
    """Set a policy as `set_policy`, one that is checked."""
    try:
        old = vhost.catalog.policies.table_of(policy.operator).get(policy.name)
        vhost.catalog.execute(SetPolicy(policy))
        look_at(vhost, [policy] if old is None else [old, policy])
    except Exception as error:
        note_half_change(error)
        raise


def clear_policy(vhost: Vhost, name: str, *, operator: bool = False) -> None:
    """Take a policy away; on disk when `vhost.lsn()` is. RequestError(NOT_FOUND) where there is none."""
    try:
        policy = vhost.catalog.policies.find(name, operator)
        vhost.catalog.execute(ClearPolicy(name, operator))
        look_at(vhost, [policy])
    except Exception as error:
        note_half_change(error)
        raise


def look_at(vhost: Vhost, changed: list[Policy]) -> None:
    """Have this turn see to the queues that changed policies are about."""
    for queue in vhost.catalog.queues.values():
        if any(policy.covers(queue.name, target_of(queue)) for policy in changed):
            vhost.turn.mark(queue)
