"""/api/parameters and /api/global-parameters: values that are kept for programs and people.

Limits of vhosts and operator policies are parameters, too, as RabbitMQ has it: of the components `vhost-limits` and
`operator_policy`. They are set by their own paths as well.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response

from forebay.admin.changing import DONE_STATUS, GONE, MADE, ChangeRoute, finished, put_done
from forebay.admin.http.paging import Facts, Wanted, answer_list, answer_one
from forebay.admin.http.paths import ComponentName, ParameterName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import ValueBody
from forebay.admin.rabbitmq.limits import change_limits
from forebay.admin.rights import Administrator, Policymaker, check_vhost, seen_vhosts
from forebay.broker.catalog.policy_changes import clear_policy, set_policy
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.management.definitions.exported import policy_value
from forebay.management.definitions.limits import limits_of
from forebay.routing.exchange import text
from forebay.server.app import App

router = APIRouter(prefix="/api", tags=["parameters"], route_class=ChangeRoute)

LIMITS: Final = "vhost-limits"
LIMITS_NAME: Final = "limits"
OPERATOR_POLICY: Final = "operator_policy"
POLICY: Final = "policy"


@router.get("/parameters")
async def list_parameters(broker: Broker, caller: Policymaker, wanted: Wanted) -> Response:
    """The parameters of the vhosts that the caller may enter."""
    return await answer_list(parameters_of(broker, seen_vhosts(broker, caller)), name_of, dict, wanted)


@router.get("/parameters/{component:name}")
async def list_parameters_of_component(
    broker: Broker, caller: Policymaker, component: ComponentName, wanted: Wanted
) -> Response:
    """The parameters of one component."""
    found = parameters_of(broker, seen_vhosts(broker, caller), component)
    return await answer_list(found, name_of, dict, wanted)


@router.get("/parameters/{component:name}/{vhost:name}")
async def list_parameters_of_vhost(
    broker: Broker, caller: Policymaker, component: ComponentName, vhost: VhostName, wanted: Wanted
) -> Response:
    """The parameters of one component in one vhost."""
    found = parameters_of(broker, [check_vhost(broker, caller, vhost)], component)
    return await answer_list(found, name_of, dict, wanted)


@router.get("/parameters/{component:name}/{vhost:name}/{parameter:name}")
async def show_parameter(
    broker: Broker,
    caller: Policymaker,
    component: ComponentName,
    vhost: VhostName,
    parameter: ParameterName,
    wanted: Wanted,
) -> Response:
    """One parameter."""
    for facts in parameters_of(broker, [check_vhost(broker, caller, vhost)], component):
        if facts["name"] == parameter:
            return answer_one(facts, wanted)
    raise missing(component, vhost, parameter)


@router.put(
    "/parameters/{component:name}/{vhost:name}/{parameter:name}",
    status_code=201,
    responses=MADE,
    response_class=Response,
)
async def put_parameter(
    broker: Broker,
    caller: Policymaker,
    component: ComponentName,
    vhost: VhostName,
    parameter: ParameterName,
    body: ValueBody,
) -> Response:
    """Set a parameter of a vhost."""
    where = check_vhost(broker, caller, vhost)
    if component in {LIMITS, OPERATOR_POLICY}:
        caller.check_administrator()
    is_new = not any(facts["name"] == parameter for facts in parameters_of(broker, [where], component))
    set_parameter(broker, where, component, parameter, body.value)
    return await put_done(broker, is_new)


@router.delete("/parameters/{component:name}/{vhost:name}/{parameter:name}", status_code=DONE_STATUS, responses=GONE)
async def delete_parameter(
    broker: Broker, caller: Policymaker, component: ComponentName, vhost: VhostName, parameter: ParameterName
) -> Response:
    """Take a parameter of a vhost away."""
    where = check_vhost(broker, caller, vhost)
    if component in {LIMITS, OPERATOR_POLICY}:
        caller.check_administrator()
    if component == OPERATOR_POLICY:
        clear_policy(where, parameter, operator=True)
    elif component == LIMITS:
        if not limits_of(where) or parameter != LIMITS_NAME:
            raise missing(component, vhost, parameter)
        change_limits(broker, where, dict.fromkeys(limits_of(where), -1))
    else:
        broker.vhosts.parameters.clear(where.name, component, parameter)
    return await finished(broker)


@router.get("/global-parameters")
async def list_global_parameters(broker: Broker, caller: Policymaker, wanted: Wanted) -> Response:
    """The parameters of the broker itself."""
    values = broker.vhosts.parameters.values
    found: list[Facts] = [{"name": name, "value": values[name]} for name in sorted(values)]
    return await answer_list(found, name_of, dict, wanted)


@router.get("/global-parameters/{parameter:name}")
async def show_global_parameter(
    broker: Broker, caller: Policymaker, parameter: ParameterName, wanted: Wanted
) -> Response:
    """One parameter of the broker itself."""
    values = broker.vhosts.parameters.values
    if parameter not in values:
        raise RequestError(NOT_FOUND, f"name: there is no global parameter '{parameter}'")
    return answer_one({"name": parameter, "value": values[parameter]}, wanted)


@router.put("/global-parameters/{parameter:name}", status_code=201, responses=MADE, response_class=Response)
async def put_global_parameter(
    broker: Broker, caller: Administrator, parameter: ParameterName, body: ValueBody
) -> Response:
    """Set a parameter of the broker itself."""
    return await put_done(broker, broker.vhosts.parameters.set_global(parameter, body.value))


@router.delete("/global-parameters/{parameter:name}", status_code=DONE_STATUS, responses=GONE)
async def delete_global_parameter(broker: Broker, caller: Administrator, parameter: ParameterName) -> Response:
    """Take a parameter of the broker itself away."""
    broker.vhosts.parameters.clear_global(parameter)
    return await finished(broker)


def parameters_of(app: App, vhosts: list[Vhost], component: str | None = None) -> list[Facts]:
    """The parameters of vhosts, limits and operator policies among them; of one component, or of all."""
    found: list[Facts] = []
    for vhost in vhosts:
        where = text(vhost.name)
        for each in app.vhosts.parameters.listed(vhost.name, component):
            found.append({"value": each["value"], "vhost": where, "component": each["component"], "name": each["name"]})
        limits = limits_of(vhost)
        if limits and component in {None, LIMITS}:
            found.append({"value": limits, "vhost": where, "component": LIMITS, "name": LIMITS_NAME})
        if component in {None, OPERATOR_POLICY}:
            for policy in vhost.catalog.policies.listed(True):
                value = policy_value(policy)
                found.append({"value": value, "vhost": where, "component": OPERATOR_POLICY, "name": policy.name})
    return found


def set_parameter(app: App, vhost: Vhost, component: str, name: str, value: object) -> None:
    """Set a parameter, a limit of the vhost or an operator policy; RequestError(INVALID) names the field."""
    if component == POLICY:
        raise RequestError(INVALID, "component: policies are set by /api/policies")
    if component in {LIMITS, OPERATOR_POLICY} and not isinstance(value, dict):
        raise RequestError(INVALID, f"value: of component {component} must be an object")
    if component == LIMITS:
        if name != LIMITS_NAME:
            raise RequestError(INVALID, f"name: '{name}' is no parameter of {LIMITS}: there is '{LIMITS_NAME}'")
        assert isinstance(value, dict)
        change_limits(app, vhost, {**dict.fromkeys(limits_of(vhost), -1), **value})
    elif component == OPERATOR_POLICY:
        assert isinstance(value, dict)
        pattern, definition = value.get("pattern"), value.get("definition")
        priority, apply_to = value.get("priority", 0), value.get("apply-to", "all")
        set_policy(vhost, name, pattern, definition, priority, apply_to, operator=True)
    else:
        app.vhosts.parameters.set(vhost.name, component, name, value)


def missing(component: str, vhost: str, name: str) -> RequestError:
    return RequestError(NOT_FOUND, f"name: there is no parameter '{name}' of '{component}' in vhost '{vhost}'")


def name_of(facts: Facts) -> str:
    return str(facts["name"])
