"""Operations on policies, operator policies and the parameters that programs and people keep here."""

from __future__ import annotations

from functools import partial

from forebay.broker.catalog.policies import Policy
from forebay.broker.policy_changes import clear_policy, set_policy
from forebay.management.control import Control, made_already, operation, page
from forebay.management.needs import ENTER, SET_POLICY
from forebay.management.requests.fields import EmptyAnswer, ListPage, VhostPageRequest
from forebay.management.requests.policies import (
    GlobalParameterClearRequest,
    GlobalParameterFields,
    GlobalParameterListRequest,
    GlobalParameterSetRequest,
    OperatorPolicyClearRequest,
    OperatorPolicyListRequest,
    OperatorPolicySetRequest,
    ParameterClearRequest,
    ParameterFields,
    ParameterListRequest,
    ParameterSetRequest,
    PolicyClearRequest,
    PolicyFields,
    PolicyListRequest,
    PolicySetRequest,
)


@operation("policy.list", need=ENTER)
def list_policies(control: Control, given: PolicyListRequest) -> ListPage[PolicyFields]:
    """List the policies of a vhost by name."""
    return listed(control, given, False)


@operation("policy.set", changes=True, need=SET_POLICY)
def set_user_policy(control: Control, given: PolicySetRequest) -> PolicyFields:
    """Set or replace a policy; it applies at once."""
    return changed(control, given, False)


@operation("policy.clear", changes=True, need=SET_POLICY)
def clear_user_policy(control: Control, given: PolicyClearRequest) -> EmptyAnswer:
    """Delete a policy."""
    clear_policy(control.vhost(given), given.policy)
    return {}


@operation("operator_policy.list", need=ENTER)
def list_operator_policies(control: Control, given: OperatorPolicyListRequest) -> ListPage[PolicyFields]:
    """List the operator policies of a vhost by name."""
    return listed(control, given, True)


@operation("operator_policy.set", changes=True)
def set_operator_policy(control: Control, given: OperatorPolicySetRequest) -> PolicyFields:
    """Set an operator policy, which limits arguments and policies; it applies at once."""
    return changed(control, given, True)


@operation("operator_policy.clear", changes=True)
def clear_operator_policy(control: Control, given: OperatorPolicyClearRequest) -> EmptyAnswer:
    """Delete an operator policy."""
    clear_policy(control.vhost(given), given.policy, operator=True)
    return {}


def listed(control: Control, given: VhostPageRequest, operator: bool) -> ListPage[PolicyFields]:
    policies = control.vhost(given).catalog.policies.listed(operator)
    return page(given, [partial(policy_fields, policy) for policy in policies])


def changed(control: Control, given: PolicySetRequest | OperatorPolicySetRequest, operator: bool) -> PolicyFields:
    policy = set_policy(
        control.vhost(given),
        given.policy,
        given.pattern,
        given.definition,
        given.priority,
        given.apply_to,
        operator=operator,
    )
    return policy_fields(policy)


def policy_fields(policy: Policy) -> PolicyFields:
    return {
        "policy": policy.name,
        "pattern": policy.pattern,
        "apply_to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


# ---- parameters


@operation("parameter.list", need=SET_POLICY)
def list_parameters(control: Control, given: ParameterListRequest) -> ListPage[ParameterFields]:
    """List the parameters of a vhost, by component and name: values that the broker stores for other programs."""
    found = control.vhosts.directory.parameters.listed(control.vhost(given).name)
    return page(given, [made_already(each) for each in found])


@operation("parameter.set", changes=True, need=SET_POLICY)
def set_parameter(control: Control, given: ParameterSetRequest) -> EmptyAnswer:
    """Set a parameter of a vhost."""
    vhost = control.vhost(given)
    control.vhosts.directory.parameters.set(vhost.name, given.component, given.name, given.value)
    return {}


@operation("parameter.clear", changes=True, need=SET_POLICY)
def clear_parameter(control: Control, given: ParameterClearRequest) -> EmptyAnswer:
    """Delete a parameter of a vhost."""
    control.vhosts.directory.parameters.clear(control.vhost(given).name, given.component, given.name)
    return {}


@operation("global_parameter.list")
def list_global_parameters(control: Control, given: GlobalParameterListRequest) -> ListPage[GlobalParameterFields]:
    """List the global parameters by name; the broker itself uses one, `cluster_name`."""
    values = control.vhosts.directory.parameters.values
    return page(given, [made_already({"name": name, "value": values[name]}) for name in sorted(values)])


@operation("global_parameter.set", changes=True)
def set_global_parameter(control: Control, given: GlobalParameterSetRequest) -> EmptyAnswer:
    """Set a global parameter."""
    control.vhosts.directory.parameters.set_global(given.name, given.value)
    return {}


@operation("global_parameter.clear", changes=True)
def clear_global_parameter(control: Control, given: GlobalParameterClearRequest) -> EmptyAnswer:
    """Delete a global parameter."""
    control.vhosts.directory.parameters.clear_global(given.name)
    return {}
