"""/api/parameters and /api/global-parameters: values that are kept for programs and people; and limits.

Limits of vhosts and operator policies are parameters, too, as RabbitMQ has it: of the components `vhost-limits` and
`operator_policy`. They are set by their own paths as well.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from forebay.admin.caller import Caller
from forebay.admin.changing import CHANGED, DONE_STATUS, GONE, MADE, changed, noted, put_status
from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import ComponentName, LimitName, ParameterName, UserName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import LimitBody, ValueBody
from forebay.admin.rights import Administrator, Manager, Policymaker, check_vhost, seen_vhosts
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.directory.vhost_settings import UNLIMITED
from forebay.management.definitions.exported import policy_value
from forebay.management.definitions.limits import OF_USERS, OF_VHOSTS, limit_settings, limits_of
from forebay.management.directory_reader import UserReading
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

router = RouteGroup(prefix="/api", tags=["parameters"], around=noted)
limits = RouteGroup(prefix="/api", tags=["limits"], around=noted)

LIMITS: Final = "vhost-limits"
LIMITS_NAME: Final = "limits"
OPERATOR_POLICY: Final = "operator_policy"
POLICY: Final = "policy"
POLICY_FIELDS: Final = ("pattern", "definition", "priority", "apply-to")


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
    for fields in parameters_of(broker, [check_vhost(broker, caller, vhost)], component):
        if fields["name"] == parameter:
            return answer_one(fields, wanted)
    raise missing(component, vhost, parameter)


@router.put(
    "/parameters/{component:name}/{vhost:name}/{parameter:name}",
    status=201,
    responses=MADE,
    is_plain=True,
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
    is_new = not any(fields["name"] == parameter for fields in parameters_of(broker, [where], component))
    name, values = setting(where, component, parameter, body.value)
    return await changed(broker, caller, name, {"vhost": vhost, **values}, put_status(is_new))


@router.delete("/parameters/{component:name}/{vhost:name}/{parameter:name}", status=DONE_STATUS, responses=GONE)
async def delete_parameter(
    broker: Broker, caller: Policymaker, component: ComponentName, vhost: VhostName, parameter: ParameterName
) -> Response:
    """Delete a parameter of a vhost."""
    if component == OPERATOR_POLICY:
        return await changed(broker, caller, "operator_policy.clear", {"vhost": vhost, "policy": parameter})
    if component == LIMITS:
        where = check_vhost(broker, caller, vhost)
        if not limits_of(where) or parameter != LIMITS_NAME:
            raise missing(component, vhost, parameter)
        return await change_limits(broker, caller, vhost, dict.fromkeys(limits_of(where), UNLIMITED))
    values: dict[str, object] = {"vhost": vhost, "component": component, "name": parameter}
    return await changed(broker, caller, "parameter.clear", values)


@router.get("/global-parameters")
async def list_global_parameters(broker: Broker, caller: Policymaker, wanted: Wanted) -> Response:
    """The parameters of the broker itself."""
    values = broker.directory.global_parameters()
    found: list[dict[str, object]] = [{"name": name, "value": values[name]} for name in sorted(values)]
    return await answer_list(found, name_of, dict, wanted)


@router.get("/global-parameters/{parameter:name}")
async def show_global_parameter(
    broker: Broker, caller: Policymaker, parameter: ParameterName, wanted: Wanted
) -> Response:
    """One parameter of the broker itself."""
    values = broker.directory.global_parameters()
    if parameter not in values:
        raise RequestError(NOT_FOUND, f"name: there is no global parameter '{parameter}'")
    return answer_one({"name": parameter, "value": values[parameter]}, wanted)


@router.put("/global-parameters/{parameter:name}", status=201, responses=MADE, is_plain=True)
async def put_global_parameter(
    broker: Broker, caller: Administrator, parameter: ParameterName, body: ValueBody
) -> Response:
    """Set a global parameter."""
    is_new = parameter not in broker.directory.global_parameters()
    values: dict[str, object] = {"name": parameter, "value": body.value}
    return await changed(broker, caller, "global_parameter.set", values, put_status(is_new))


@router.delete("/global-parameters/{parameter:name}", status=DONE_STATUS, responses=GONE)
async def delete_global_parameter(broker: Broker, caller: Administrator, parameter: ParameterName) -> Response:
    """Delete a global parameter."""
    return await changed(broker, caller, "global_parameter.clear", {"name": parameter})


def parameters_of(app: BrokerView, vhosts: list[Vhost], component: str | None = None) -> list[dict[str, object]]:
    """The parameters of vhosts, limits and operator policies among them; of one component, or of all."""
    found: list[dict[str, object]] = []
    for vhost in vhosts:
        where = text(vhost.name)
        for each in app.directory.parameters(vhost.name, component):
            found.append({"value": each["value"], "vhost": where, "component": each["component"], "name": each["name"]})
        limits = limits_of(vhost)
        if limits and component in {None, LIMITS}:
            found.append({"value": limits, "vhost": where, "component": LIMITS, "name": LIMITS_NAME})
        if component in {None, OPERATOR_POLICY}:
            for policy in vhost.catalog.policies.listed(True):
                value = policy_value(policy)
                found.append({"value": value, "vhost": where, "component": OPERATOR_POLICY, "name": policy.name})
    return found


def setting(vhost: Vhost, component: str, name: str, value: object) -> tuple[str, dict[str, object]]:
    """The operation that sets a parameter, a limit of the vhost or an operator policy, and its arguments.

    raises  RequestError(INVALID): names the field
    """
    if component == POLICY:
        raise RequestError(INVALID, "component: policies are set by /api/policies")
    if component not in {LIMITS, OPERATOR_POLICY}:
        return "parameter.set", {"component": component, "name": name, "value": value}
    if not isinstance(value, dict):
        raise RequestError(INVALID, f"value: of component {component} must be an object")
    if component == LIMITS:
        if name != LIMITS_NAME:
            raise RequestError(INVALID, f"name: '{name}' is no parameter of {LIMITS}: there is '{LIMITS_NAME}'")
        return "vhost.set", limit_settings({**dict.fromkeys(limits_of(vhost), UNLIMITED), **value}, OF_VHOSTS)
    given = {field.replace("-", "_"): value[field] for field in POLICY_FIELDS if field in value}
    return "operator_policy.set", {"policy": name, **given}


def missing(component: str, vhost: str, name: str) -> RequestError:
    return RequestError(NOT_FOUND, f"name: there is no parameter '{name}' of '{component}' in vhost '{vhost}'")


def name_of(fields: dict[str, object]) -> str:
    return str(fields["name"])


# ---- limits


@limits.get("/vhost-limits")
async def list_vhost_limits(broker: Broker, caller: Manager) -> Response:
    """The limits of the vhosts that the caller may enter; only of those that have some."""
    return as_json([limits_fields(vhost) for vhost in seen_vhosts(broker, caller) if limits_of(vhost)])


@limits.get("/vhost-limits/{vhost:name}")
async def show_vhost_limits(broker: Broker, caller: Manager, vhost: VhostName) -> Response:
    """The limits of one vhost: a list of one, or of nothing where it has none."""
    where = check_vhost(broker, caller, vhost)
    return as_json([limits_fields(where)] if limits_of(where) else [])


@limits.put("/vhost-limits/{vhost:name}/{limit:name}", status=DONE_STATUS, responses=CHANGED)
async def put_vhost_limit(
    broker: Broker, caller: Administrator, vhost: VhostName, limit: LimitName, body: LimitBody
) -> Response:
    """Set a limit of a vhost; below 0 it sets none."""
    return await change_limits(broker, caller, vhost, {limit: body.value})


@limits.delete("/vhost-limits/{vhost:name}/{limit:name}", status=DONE_STATUS, responses=CHANGED)
async def delete_vhost_limit(broker: Broker, caller: Administrator, vhost: VhostName, limit: LimitName) -> Response:
    """Lift a limit of a vhost; no error where there is none."""
    return await change_limits(broker, caller, vhost, {limit: UNLIMITED})


@limits.get("/user-limits")
async def list_user_limits(broker: Broker, caller: Administrator) -> Response:
    """The limits of users; only of those who have some."""
    return as_json([limits_of_one(user) for user in broker.directory.users() if user.limits is not None])


@limits.get("/user-limits/{user:name}")
async def show_user_limits(broker: Broker, caller: Manager, user: UserName) -> Response:
    """The limits of one user: a list of one, or of nothing where it has none. Everybody may ask for the own ones."""
    if user != caller.user:
        caller.check_administrator()
    found = broker.directory.user(user)
    return as_json([] if found.limits is None else [limits_of_one(found)])


@limits.put("/user-limits/{user:name}/{limit:name}", status=DONE_STATUS, responses=CHANGED)
async def put_user_limit(
    broker: Broker, caller: Administrator, user: UserName, limit: LimitName, body: LimitBody
) -> Response:
    """Set a limit of a user; below 0 it sets none."""
    return await change_user_limit(broker, caller, user, {limit: body.value})


@limits.delete("/user-limits/{user:name}/{limit:name}", status=DONE_STATUS, responses=CHANGED)
async def delete_user_limit(broker: Broker, caller: Administrator, user: UserName, limit: LimitName) -> Response:
    """Lift a limit of a user; no error where there is none."""
    return await change_user_limit(broker, caller, user, {limit: UNLIMITED})


async def change_limits(app: BrokerView, caller: Caller, vhost: str, given: dict[str, object]) -> Response:
    """Set limits of a vhost; RequestError(INVALID) names the one that is wrong, and nothing has changed."""
    return await changed(app, caller, "vhost.set", {"vhost": vhost, **limit_settings(given, OF_VHOSTS)})


async def change_user_limit(app: BrokerView, caller: Caller, user: str, given: dict[str, object]) -> Response:
    return await changed(app, caller, "user.limits", {"user": user, "limits": limit_settings(given, OF_USERS)})


def limits_fields(vhost: Vhost) -> dict[str, object]:
    return {"vhost": text(vhost.name), "value": limits_of(vhost)}


def limits_of_one(user: UserReading) -> dict[str, object]:
    return {"user": user.name, "value": user.limits}
