"""Operations on policies, operator policies and the parameters that programs and people keep here."""

from __future__ import annotations

from functools import partial
from typing import Final

from forebay.broker.catalog.policies import APPLY_TO, Policy
from forebay.broker.catalog.policy_changes import clear_policy, set_policy
from forebay.management.arguments import ANY, PAGE, TABLE, TEXT, VHOST, WHOLE, Arguments, Parameter
from forebay.management.control import Control, operation, page
from forebay.management.needs import ENTER, SET_POLICY

NAME: Final = Parameter("policy", TEXT, "its name")
PATTERN: Final = Parameter("pattern", TEXT, "regular expression, found in the names of queues and exchanges")
DEFINITION: Final = Parameter("definition", TABLE, "what it sets; docs/reference/policies.md lists the keys")
APPLIES: Final = Parameter("apply_to", TEXT, f"one of {', '.join(APPLY_TO)}", False, "all")
COMPONENT: Final = Parameter("component", TEXT, "for which program it is")
PARAMETER: Final = Parameter("name", TEXT, "its name")
VALUE: Final = Parameter("value", ANY, "any value of JSON", False)
PRIORITY: Final = Parameter("priority", WHOLE, "of those that match the highest applies", False, 0)


@operation("policy.list", VHOST, *PAGE, need=ENTER)
def list_policies(control: Control, given: Arguments) -> dict[str, object]:
    """List the policies of a vhost by name."""
    return listed(control, given, False)


@operation("policy.set", VHOST, NAME, PATTERN, DEFINITION, APPLIES, PRIORITY, changes=True, need=SET_POLICY)
def set_user_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Set or replace a policy; it applies at once."""
    return changed(control, given, False)


@operation("policy.clear", VHOST, NAME, changes=True, need=SET_POLICY)
def clear_user_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Delete a policy."""
    clear_policy(control.vhost(given), given.text("policy"))
    return {}


@operation("operator_policy.list", VHOST, *PAGE, need=ENTER)
def list_operator_policies(control: Control, given: Arguments) -> dict[str, object]:
    """List the operator policies of a vhost by name."""
    return listed(control, given, True)


@operation("operator_policy.set", VHOST, NAME, PATTERN, DEFINITION, APPLIES, PRIORITY, changes=True)
def set_operator_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Set an operator policy, which limits arguments and policies; it applies at once."""
    return changed(control, given, True)


@operation("operator_policy.clear", VHOST, NAME, changes=True)
def clear_operator_policy(control: Control, given: Arguments) -> dict[str, object]:
    """Delete an operator policy."""
    clear_policy(control.vhost(given), given.text("policy"), operator=True)
    return {}


def listed(control: Control, given: Arguments, operator: bool) -> dict[str, object]:
    policies = control.vhost(given).catalog.policies.listed(operator)
    return page(given, [partial(policy_fields, policy) for policy in policies])


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
    return policy_fields(policy)


def policy_fields(policy: Policy) -> dict[str, object]:
    return {
        "policy": policy.name,
        "pattern": policy.pattern,
        "apply_to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


# ---- parameters


@operation("parameter.list", VHOST, *PAGE, need=SET_POLICY)
def list_parameters(control: Control, given: Arguments) -> dict[str, object]:
    """List the parameters of a vhost, by component and name: values that the broker stores for other programs."""
    found = control.vhosts.parameters.listed(control.vhost(given).name)
    return page(given, [partial(dict, each) for each in found])


@operation("parameter.set", VHOST, COMPONENT, PARAMETER, VALUE, changes=True, need=SET_POLICY)
def set_parameter(control: Control, given: Arguments) -> dict[str, object]:
    """Set a parameter of a vhost."""
    vhost = control.vhost(given)
    control.vhosts.parameters.set(vhost.name, given.text("component"), given.text("name"), given.value("value"))
    return {}


@operation("parameter.clear", VHOST, COMPONENT, PARAMETER, changes=True, need=SET_POLICY)
def clear_parameter(control: Control, given: Arguments) -> dict[str, object]:
    """Delete a parameter of a vhost."""
    control.vhosts.parameters.clear(control.vhost(given).name, given.text("component"), given.text("name"))
    return {}


@operation("global_parameter.list", *PAGE)
def list_global_parameters(control: Control, given: Arguments) -> dict[str, object]:
    """List the global parameters by name; the broker itself uses one, `cluster_name`."""
    values = control.vhosts.parameters.values
    return page(given, [partial(dict, name=name, value=values[name]) for name in sorted(values)])


@operation("global_parameter.set", PARAMETER, VALUE, changes=True)
def set_global_parameter(control: Control, given: Arguments) -> dict[str, object]:
    """Set a global parameter."""
    control.vhosts.parameters.set_global(given.text("name"), given.value("value"))
    return {}


@operation("global_parameter.clear", PARAMETER, changes=True)
def clear_global_parameter(control: Control, given: Arguments) -> dict[str, object]:
    """Delete a global parameter."""
    control.vhosts.parameters.clear_global(given.text("name"))
    return {}
