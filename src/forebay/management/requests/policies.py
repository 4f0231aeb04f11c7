"""The requests of operations on policies, and on parameters that programs and people keep, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from forebay.management.requests.fields import (
    Component,
    InVhost,
    OperationRequest,
    PageRequest,
    ParameterName,
    PolicyName,
    Table,
    Value,
    VhostPageRequest,
    Whole,
    metavar,
)


class PolicyListRequest(VhostPageRequest):
    """Arguments of `policy.list`."""


class PolicySetRequest(OperationRequest, kw_only=True):
    """Arguments of `policy.set`."""

    vhost: InVhost = "/"
    policy: PolicyName
    pattern: Annotated[
        str, Meta(description="regular expression that matches anywhere in the name of a queue or exchange")
    ]
    definition: Annotated[
        Table,
        Meta(description="what it sets, such as '{\"message-ttl\": 60000}'; docs/reference/policies.md has the keys"),
    ]
    apply_to: Annotated[
        str,
        Meta(
            description="one of all, queues, classic_queues, quorum_queues, streams and exchanges",
            extra=metavar("KIND"),
        ),
    ] = "all"
    priority: Annotated[
        Whole, Meta(description="of the policies that match, the one with the highest priority applies")
    ] = 0


class PolicyClearRequest(OperationRequest, kw_only=True):
    """Arguments of `policy.clear`."""

    vhost: InVhost = "/"
    policy: PolicyName


class OperatorPolicyListRequest(VhostPageRequest):
    """Arguments of `operator_policy.list`."""


class OperatorPolicySetRequest(OperationRequest, kw_only=True):
    """Arguments of `operator_policy.set`."""

    vhost: InVhost = "/"
    policy: PolicyName
    pattern: Annotated[
        str, Meta(description="regular expression that matches anywhere in the name of a queue or exchange")
    ]
    definition: Annotated[
        Table,
        Meta(description="what it sets, such as '{\"message-ttl\": 60000}'; docs/reference/policies.md has the keys"),
    ]
    apply_to: Annotated[
        str,
        Meta(
            description="one of all, queues, classic_queues, quorum_queues, streams and exchanges",
            extra=metavar("KIND"),
        ),
    ] = "all"
    priority: Annotated[
        Whole, Meta(description="of the policies that match, the one with the highest priority applies")
    ] = 0


class OperatorPolicyClearRequest(OperationRequest, kw_only=True):
    """Arguments of `operator_policy.clear`."""

    vhost: InVhost = "/"
    policy: PolicyName


class ParameterListRequest(VhostPageRequest):
    """Arguments of `parameter.list`."""


class ParameterSetRequest(OperationRequest, kw_only=True):
    """Arguments of `parameter.set`."""

    vhost: InVhost = "/"
    component: Component
    name: ParameterName
    value: Value = None


class ParameterClearRequest(OperationRequest, kw_only=True):
    """Arguments of `parameter.clear`."""

    vhost: InVhost = "/"
    component: Component
    name: ParameterName


class GlobalParameterListRequest(PageRequest):
    """Arguments of `global_parameter.list`."""


class GlobalParameterSetRequest(OperationRequest, kw_only=True):
    """Arguments of `global_parameter.set`."""

    name: ParameterName
    value: Value = None


class GlobalParameterClearRequest(OperationRequest, kw_only=True):
    """Arguments of `global_parameter.clear`."""

    name: ParameterName


# ---- answers


class PolicyFields(TypedDict):
    """A policy."""

    policy: str
    pattern: str
    apply_to: str
    definition: Table
    priority: int


class ParameterFields(TypedDict):
    """A parameter of a vhost."""

    vhost: str
    component: str
    name: str
    value: Any


class GlobalParameterFields(TypedDict):
    """A global parameter."""

    name: str
    value: Any
