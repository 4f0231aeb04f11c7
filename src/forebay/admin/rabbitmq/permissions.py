"""/api/permissions and /api/topic-permissions: who may do what in which vhost."""

from __future__ import annotations

from msgspec.structs import asdict
from starlette.responses import Response

from forebay.admin.caller import Caller
from forebay.admin.changing import DONE_STATUS, GONE, MADE, changed, noted, put_status
from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Wanted, answer_list
from forebay.admin.http.paths import ExchangeName, UserName, VhostName, exchange_named
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import PermissionBody, TopicPermissionBody
from forebay.admin.rights import Administrator, check_vhost
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

router = RouteGroup(prefix="/api", tags=["permissions"], around=noted)


@router.get("/permissions")
async def list_permissions(broker: Broker, caller: Administrator, wanted: Wanted) -> Response:
    """The permissions of users in vhosts."""
    return await answer_list(broker.directory.permissions(), user_of, permission_fields, wanted)


@router.get("/permissions/{vhost:name}/{user:name}")
async def show_permission(broker: Broker, caller: Administrator, vhost: VhostName, user: UserName) -> Response:
    """The permissions of a user in a vhost."""
    check_place(broker, caller, vhost, user)
    found = broker.directory.permissions(user, vhost.encode())
    if not found:
        raise none_given(vhost, user)
    return as_json(permission_fields(found[0]))


@router.put("/permissions/{vhost:name}/{user:name}", status=201, responses=MADE, is_plain=True)
async def put_permission(
    broker: Broker, caller: Administrator, vhost: VhostName, user: UserName, body: PermissionBody
) -> Response:
    """Let a user enter a vhost, and say what it may do there."""
    check_both(broker, vhost, user)
    is_new = not broker.directory.has_permission(user, vhost.encode())
    values = {"vhost": vhost, "user": user, **asdict(body)}
    return await changed(broker, caller, "permission.set", values, put_status(is_new))


@router.delete("/permissions/{vhost:name}/{user:name}", status=DONE_STATUS, responses=GONE)
async def delete_permission(broker: Broker, caller: Administrator, vhost: VhostName, user: UserName) -> Response:
    """Delete a user's permissions in a vhost, which it then cannot enter."""
    check_place(broker, caller, vhost, user)
    if not broker.directory.has_permission(user, vhost.encode()):
        if broker.directory.user(user).is_free:
            raise RequestError(INVALID, f"permissions: those of user '{user}' come with the configuration")
        raise none_given(vhost, user)
    return await changed(broker, caller, "permission.clear", {"vhost": vhost, "user": user})


@router.get("/topic-permissions")
async def list_topic_permissions(broker: Broker, caller: Administrator, wanted: Wanted) -> Response:
    """List the restrictions of users on topic exchanges."""
    return await answer_list(broker.directory.topic_permissions(), user_of, topic_fields, wanted)


@router.get("/topic-permissions/{vhost:name}/{user:name}")
async def show_topic_permissions(broker: Broker, caller: Administrator, vhost: VhostName, user: UserName) -> Response:
    """The restrictions of one user on topic exchanges of a vhost."""
    check_place(broker, caller, vhost, user)
    found = broker.directory.topic_permissions(user, vhost.encode())
    if not found:
        raise none_given(vhost, user)
    return as_json([topic_fields(each) for each in found])


@router.put("/topic-permissions/{vhost:name}/{user:name}", status=201, responses=MADE, is_plain=True)
async def put_topic_permission(
    broker: Broker, caller: Administrator, vhost: VhostName, user: UserName, body: TopicPermissionBody
) -> Response:
    """Restrict a user to the routing keys of a topic exchange that match the patterns."""
    return await set_topic_permission(broker, caller, vhost, user, body)


@router.delete("/topic-permissions/{vhost:name}/{user:name}", status=DONE_STATUS, responses=GONE)
async def delete_topic_permissions(broker: Broker, caller: Administrator, vhost: VhostName, user: UserName) -> Response:
    """Lift the restrictions of a user on topic exchanges of a vhost."""
    check_place(broker, caller, vhost, user)
    if not broker.directory.restricted_exchanges(user, vhost.encode()):
        raise none_given(vhost, user)
    return await changed(broker, caller, "topic_permission.clear", {"vhost": vhost, "user": user})


@router.get("/topic-permissions/{vhost:name}/{user:name}/{exchange:octets}")
async def show_topic_permission(
    broker: Broker, caller: Administrator, vhost: VhostName, user: UserName, exchange: ExchangeName
) -> Response:
    """The restriction of one user on one topic exchange of a vhost, as a list of one."""
    check_place(broker, caller, vhost, user)
    name = exchange_named(exchange)
    given = broker.directory.topic_permissions(user, vhost.encode())
    found = [each for each in given if each["exchange"] == text(name)]
    if not found:
        raise none_given(vhost, user, f" on exchange '{text(name)}'")
    return as_json([topic_fields(each) for each in found])


@router.put(
    "/topic-permissions/{vhost:name}/{user:name}/{exchange:octets}",
    status=201,
    responses=MADE,
    is_plain=True,
)
async def put_topic_permission_of_exchange(
    broker: Broker,
    caller: Administrator,
    vhost: VhostName,
    user: UserName,
    exchange: ExchangeName,
    body: TopicPermissionBody,
) -> Response:
    """Restrict a user on one topic exchange, which the body names as the path does."""
    if body.exchange.encode("utf-8", "replace") != exchange_named(exchange):
        raise RequestError(INVALID, f"exchange: '{body.exchange}' is not that of the path, '{text(exchange)}'")
    return await set_topic_permission(broker, caller, vhost, user, body)


@router.delete("/topic-permissions/{vhost:name}/{user:name}/{exchange:octets}", status=DONE_STATUS, responses=GONE)
async def delete_topic_permission(
    broker: Broker, caller: Administrator, vhost: VhostName, user: UserName, exchange: ExchangeName
) -> Response:
    """Lift the restriction of a user on one topic exchange; no error if there are only others in the vhost."""
    check_place(broker, caller, vhost, user)
    if not broker.directory.restricted_exchanges(user, vhost.encode()):
        raise none_given(vhost, user)
    values: dict[str, object] = {"vhost": vhost, "user": user, "exchange": exchange_named(exchange)}
    return await changed(broker, caller, "topic_permission.clear", values)


async def set_topic_permission(
    app: BrokerView, caller: Caller, vhost: str, user: str, body: TopicPermissionBody
) -> Response:
    """Set a user's restriction on the topic exchange that the body names."""
    check_both(app, vhost, user)
    exchange = body.exchange.encode("utf-8", "replace")
    is_new = exchange not in app.directory.restricted_exchanges(user, vhost.encode())
    values = {"vhost": vhost, "user": user, **asdict(body), "exchange": exchange}
    return await changed(app, caller, "topic_permission.set", values, put_status(is_new))


def check_place(app: BrokerView, caller: Caller, vhost: str, user: str) -> None:
    """RequestError(NOT_FOUND) unless there are both."""
    check_vhost(app, caller, vhost)
    app.directory.user(user)


def check_both(app: BrokerView, vhost: str, user: str) -> None:
    """RequestError(INVALID), as RabbitMQ has it where something is set, unless there are both."""
    if vhost.encode() not in app.vhosts.by_name or app.directory.find_user(user) is None:
        raise RequestError(INVALID, f"vhost_or_user_not_found: vhost '{vhost}', user '{user}'")


def none_given(vhost: str, user: str, where: str = "") -> RequestError:
    return RequestError(NOT_FOUND, f"user '{user}' was given nothing in vhost '{vhost}'{where}")


def user_of(fields: dict[str, object]) -> str:
    return str(fields["user"])


def permission_fields(fields: dict[str, object]) -> dict[str, object]:
    """A permission in the order of RabbitMQ's fields."""
    return {name: fields[name] for name in ("user", "vhost", "configure", "write", "read")}


def topic_fields(fields: dict[str, object]) -> dict[str, object]:
    """A topic permission in the order of RabbitMQ's fields."""
    return {name: fields[name] for name in ("user", "vhost", "exchange", "write", "read")}
