"""Queues, exchanges, bindings and connections over HTTP: how they come and go.

Callers do what they could do as clients: the permissions of their user in the vhost hold, beside its tags.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec.structs import asdict
from starlette.responses import Response

from forebay.admin.asking import run
from forebay.admin.caller import Caller
from forebay.admin.changing import (
    CREATED,
    DONE_STATUS,
    GONE,
    MADE,
    changed,
    finished,
    noted,
    put_status,
)
from forebay.admin.http.paths import ExchangeName, QueueName, UserName, VhostName, exchange_named, quoted
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import BindingBody, ExchangeBody, QueueBody
from forebay.admin.rabbitmq.clients.connections import ConnectionName, find_connection, open_connections
from forebay.admin.rabbitmq.exchanges.binding_keys import properties_key
from forebay.admin.rabbitmq.exchanges.bindings import PropertiesKey, bindings_between, find_binding
from forebay.admin.rights import Manager, check_vhost
from forebay.admin.web.fields import Header, Query
from forebay.admin.web.router import Responses, RouteGroup
from forebay.routing.exchange import Binding
from forebay.server.broker_view import BrokerView

router = RouteGroup(prefix="/api", around=noted)

REASON_CHARACTERS_MAX: Final = 255
IfEmpty = Annotated[bool, Query(alias="if-empty", description="Only if nothing is ready in it.")]
IfUnused = Annotated[bool, Query(alias="if-unused", description="Only if nobody uses it.")]
Reason = Annotated[
    str, Header(alias="X-Reason", max_length=REASON_CHARACTERS_MAX, description="What the client is told.")
]
BOUND: Final[Responses] = {
    CREATED: {
        "description": "It is bound.",
        "headers": {"Location": {"description": "The binding, from here.", "schema": {"type": "string"}}},
    }
}
CLOSED: Final = "Connection forced: closed over HTTP"


# ---- queues


@router.put("/queues/{vhost:name}/{queue:octets}", tags=["queues"], status=CREATED, responses=MADE, is_plain=True)
async def put_queue(
    broker: Broker, caller: Manager, vhost: VhostName, queue: QueueName, body: QueueBody | None = None
) -> Response:
    """Declare a queue, or check that it exists with the same properties."""
    is_new = queue not in check_vhost(broker, caller, vhost).catalog.queues
    declared = body or QueueBody()
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "durable": declared.durable}
    values |= {"auto_delete": declared.auto_delete, "arguments": declared.arguments}
    return await changed(broker, caller, "queue.declare", values, put_status(is_new))


@router.delete("/queues/{vhost:name}/{queue:octets}", tags=["queues"], status=DONE_STATUS, responses=GONE)
async def delete_queue(
    broker: Broker,
    caller: Manager,
    vhost: VhostName,
    queue: QueueName,
    if_empty: IfEmpty = False,
    if_unused: IfUnused = False,
) -> Response:
    """Take a queue away with its messages."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "if_unused": if_unused, "if_empty": if_empty}
    return await changed(broker, caller, "queue.delete", values)


# ---- exchanges


@router.put(
    "/exchanges/{vhost:name}/{exchange:octets}",
    tags=["exchanges"],
    status=CREATED,
    responses=MADE,
    is_plain=True,
)
async def put_exchange(
    broker: Broker, caller: Manager, vhost: VhostName, exchange: ExchangeName, body: ExchangeBody | None = None
) -> Response:
    """Declare an exchange, or check that it exists with the same properties."""
    name = exchange_named(exchange)
    is_new = name not in check_vhost(broker, caller, vhost).catalog.bindings.exchanges
    values = {"vhost": vhost, "exchange": name, **asdict(body or ExchangeBody())}
    return await changed(broker, caller, "exchange.declare", values, put_status(is_new))


@router.delete("/exchanges/{vhost:name}/{exchange:octets}", tags=["exchanges"], status=DONE_STATUS, responses=GONE)
async def delete_exchange(
    broker: Broker, caller: Manager, vhost: VhostName, exchange: ExchangeName, if_unused: IfUnused = False
) -> Response:
    """Delete an exchange with its bindings."""
    name = exchange_named(exchange)
    values: dict[str, object] = {"vhost": vhost, "exchange": name, "if_unused": if_unused}
    return await changed(broker, caller, "exchange.delete", values)


# ---- bindings


@router.post(
    "/bindings/{vhost:name}/e/{source:octets}/q/{queue:octets}",
    tags=["bindings"],
    status=CREATED,
    responses=BOUND,
    is_plain=True,
)
async def bind_queue(
    broker: Broker,
    caller: Manager,
    vhost: VhostName,
    source: ExchangeName,
    queue: QueueName,
    body: BindingBody | None = None,
) -> Response:
    """Bind a queue to an exchange; no error where it is bound so already."""
    return await bind(broker, caller, binding_values(vhost, source, queue, True), queue, body)


@router.post(
    "/bindings/{vhost:name}/e/{source:octets}/e/{destination:octets}",
    tags=["bindings"],
    status=CREATED,
    responses=BOUND,
    is_plain=True,
)
async def bind_exchange(
    broker: Broker,
    caller: Manager,
    vhost: VhostName,
    source: ExchangeName,
    destination: ExchangeName,
    body: BindingBody | None = None,
) -> Response:
    """Bind an exchange to another, the source; no error where it is bound so already."""
    values = binding_values(vhost, source, exchange_named(destination), False)
    return await bind(broker, caller, values, destination, body)


@router.delete(
    "/bindings/{vhost:name}/e/{source:octets}/q/{queue:octets}/{props:name}",
    tags=["bindings"],
    status=DONE_STATUS,
    responses=GONE,
)
async def unbind_queue(
    broker: Broker, caller: Manager, vhost: VhostName, source: ExchangeName, queue: QueueName, props: PropertiesKey
) -> Response:
    """Take a binding of a queue away."""
    values = binding_values(vhost, source, queue, True)
    return await unbind(broker, caller, values, queue, props)


@router.delete(
    "/bindings/{vhost:name}/e/{source:octets}/e/{destination:octets}/{props:name}",
    tags=["bindings"],
    status=DONE_STATUS,
    responses=GONE,
)
async def unbind_exchange(
    broker: Broker,
    caller: Manager,
    vhost: VhostName,
    source: ExchangeName,
    destination: ExchangeName,
    props: PropertiesKey,
) -> Response:
    """Take a binding between exchanges away."""
    values = binding_values(vhost, source, exchange_named(destination), False)
    return await unbind(broker, caller, values, destination, props)


def binding_values(vhost: str, source: bytes, destination: bytes, to_queue: bool) -> dict[str, object]:
    """The arguments of an operation on bindings, but for key and arguments."""
    type = "queue" if to_queue else "exchange"
    return {
        "vhost": vhost,
        "exchange": exchange_named(source),
        "destination": destination,
        "destination_type": type,
    }


async def bind(
    app: BrokerView, caller: Caller, values: dict[str, object], destination: bytes, body: BindingBody | None
) -> Response:
    asked = body or BindingBody()
    key = properties_key(asked.routing_key.encode(), asked.arguments)
    place = {"Location": f"{quoted(destination)}/{quoted(key)}"}
    return await changed(app, caller, "binding.add", {**values, **asdict(asked)}, CREATED, place)


async def unbind(
    app: BrokerView, caller: Caller, values: dict[str, object], destination: bytes, props: str
) -> Response:
    """Take away the binding that a key names; RequestError."""
    where = check_vhost(app, caller, str(values["vhost"]))
    exchange = values["exchange"]
    assert isinstance(exchange, bytes)
    found = bindings_between(where, exchange, destination, values["destination_type"] == "queue")
    binding = find_binding(found, props)[1]
    if isinstance(binding, Binding):  # not that of the exchange without a name, which nobody may take away
        values = {**values, "routing_key": binding.routing_key, "arguments": binding.arguments}
    return await changed(app, caller, "binding.delete", values)


# ---- connections


@router.delete("/connections/{connection:name}", tags=["connections"], status=DONE_STATUS, responses=GONE)
async def close_connection(
    broker: Broker, caller: Manager, connection: ConnectionName, x_reason: Reason = CLOSED
) -> Response:
    """Close a connection, and tell its client the reason. Who is no administrator can end only own ones."""
    return await changed(
        broker, caller, "connection.close", closing(find_connection(broker, caller, connection), x_reason)
    )


@router.delete("/connections/username/{user:name}", tags=["connections"], status=DONE_STATUS, responses=GONE)
async def close_connections_of_user(
    broker: Broker, caller: Manager, user: UserName, x_reason: Reason = CLOSED
) -> Response:
    """End all connections of a user."""
    if user != caller.user:
        caller.check_administrator()
    for connection in open_connections(broker, caller):
        if broker.clients.user(connection) == user:
            await run(broker, caller, "connection.close", closing(connection, x_reason))
    return await finished(broker)


def closing(connection: int, reason: str) -> dict[str, object]:
    """The arguments by which a connection is closed whose client has logged in."""
    return {"id": connection, "reason": reason}
