"""Operations on policies and operator policies."""

from __future__ import annotations

from functools import partial
from typing import Final

from forebay.broker.catalog.policies import APPLY_TO, Policy
from forebay.broker.catalog.policy_changes import clear_policy, set_policy
from forebay.management.control import (
    PAGE,
    TABLE,
    TEXT,
    VHOST,
    WHOLE,
    Arguments,
    Control,
    Parameter,
    operation,
    page,
)

NAME: Final = Parameter("policy", TEXT, "its name")
PATTERN: Final = Parameter("pattern", TEXT, "regular expression, found in the names of queues and exchanges")
DEFINITION: Final = Parameter("definition", TABLE, "what it sets; docs/policies.md lists the keys")
APPLIES: Final = Parameter("apply_to", TEXT, f"one of {', '.join(APPLY_TO)}", False, "all")
PRIORITY: Final = Parameter("priority", WHOLE, "of those that match the highest applies", False, 0)


@operation("policy.list", VHOST, *PAGE)
def list_policies(control: Control, given: Arguments) -> dict[str, object]:
    """The policies of a vhost by name."""
    return listed(control, given, False)


@operation("policy.set", VHOST, NAME, PATTERN, DEFINITION, APPLIES, PRIORITY, changes=True)
def set_user_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Make a policy, or put it in the place of the one of that name; it applies at once."""
    return changed(control, given, False)


@operation("policy.clear", VHOST, NAME, changes=True)
def clear_user_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Take a policy away."""
    clear_policy(control.vhost(given), given.text("policy"))
    return {}


@operation("operator_policy.list", VHOST, *PAGE)
def list_operator_policies(control: Control, given: Arguments) -> dict[str, object]:
    """The operator policies of a vhost by name."""
    return listed(control, given, True)


@operation("operator_policy.set", VHOST, NAME, PATTERN, DEFINITION, APPLIES, PRIORITY, changes=True)
def set_operator_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Make an operator policy, which limits what arguments and policies ask for; it applies at once."""
    return changed(control, given, True)


@operation("operator_policy.clear", VHOST, NAME, changes=True)
def clear_operator_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Take an operator policy away."""
    clear_policy(control.vhost(given), given.text("policy"), operator=True)
    return {}


def listed(control: Control, given: Arguments, operator: bool) -> dict[str, object]:
    policies = control.vhost(given).catalog.policies.listed(operator)
    return page(given, [partial(policy_facts, policy) for policy in policies])


def changed(control: Control, given: Arguments, operator: bool) -> dict[str, object]:
    policy = set_policy(
        control.vhost(given),
        given.text("policy"),
        given.text("pattern"),
        given.table("definition"),
        given.whole("priority"),
        given.text("apply_to"),
        operator=operator,
    )
    return policy_facts(policy)


def policy_facts(policy: Policy) -> dict[str, object]:
    return {
        "policy": policy.name,
        "pattern": policy.pattern,
        "apply_to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }
