"""Queues, exchanges, bindings and connections over HTTP: how they come and go.

Callers do what they could do as clients: the permissions of their user in the vhost hold, beside its tags.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Response

from forebay.admin.changing import CREATED, DONE_STATUS, GONE, MADE, ChangeRoute, Responses, finished, put_done
from forebay.admin.http.paths import ExchangeName, QueueName, UserName, VhostName, exchange_named, quoted
from forebay.admin.login import Broker, Caller
from forebay.admin.openapi.change_shapes import BindingBody, ExchangeBody, QueueBody
from forebay.admin.rabbitmq.binding_keys import properties_key
from forebay.admin.rabbitmq.bindings import PropertiesKey, bindings_between, find_binding
from forebay.admin.rabbitmq.clients.connections import ConnectionName, find_connection, open_connections, user_of
from forebay.admin.rights import Manager, check_vhost, is_monitor
from forebay.broker.auth.declare_rights import check_bind_exchange, check_declare_exchange, check_declare_queue
from forebay.broker.auth.permissions import CONFIGURE
from forebay.broker.vhost import Vhost
from forebay.queue.queue import Queue
from forebay.server.app import App
from forebay.server.net import Connection

router = APIRouter(prefix="/api", route_class=ChangeRoute)

NO_SESSION: Final = 0
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


@router.put(
    "/queues/{vhost:name}/{queue:name}", tags=["queues"], status_code=CREATED, responses=MADE, response_class=Response
)
async def put_queue(
    broker: Broker, caller: Manager, vhost: VhostName, queue: QueueName, body: QueueBody | None = None
) -> Response:
    """Make a queue, or check that the one there is was declared alike."""
    where = entered(broker, caller, vhost)
    asked = body or QueueBody()
    name = queue.encode()
    check_declare_queue(where.catalog, caller.rights(where.name), name, asked.arguments)
    is_new = name not in where.catalog.queues
    where.catalog.declare_queue(name, asked.durable, False, asked.auto_delete, dict(asked.arguments), NO_SESSION)
    return await put_done(broker, is_new)


@router.delete("/queues/{vhost:name}/{queue:name}", tags=["queues"], status_code=DONE_STATUS, responses=GONE)
async def delete_queue(
    broker: Broker,
    caller: Manager,
    vhost: VhostName,
    queue: QueueName,
    if_empty: IfEmpty = False,
    if_unused: IfUnused = False,
) -> Response:
    """Take a queue away with its messages."""
    where = entered(broker, caller, vhost)
    found = where.catalog.queue(queue.encode())
    caller.rights(where.name).check_queue(CONFIGURE, found.name)
    where.catalog.check_owner(found, NO_SESSION)
    where.delete_queue(found.name, if_unused, if_empty)
    return await finished(broker)


# ---- exchanges


@router.put(
    "/exchanges/{vhost:name}/{exchange:name}",
    tags=["exchanges"],
    status_code=CREATED,
    responses=MADE,
    response_class=Response,
)
async def put_exchange(
    broker: Broker, caller: Manager, vhost: VhostName, exchange: ExchangeName, body: ExchangeBody | None = None
) -> Response:
    """Make an exchange, or check that the one there is was declared alike."""
    where = entered(broker, caller, vhost)
    asked = body or ExchangeBody()
    name = exchange_named(exchange)
    check_declare_exchange(where.catalog, caller.rights(where.name), name, asked.arguments)
    is_new = name not in where.catalog.bindings.exchanges
    where.catalog.declare_exchange(
        name, asked.type.encode(), asked.durable, asked.auto_delete, asked.internal, dict(asked.arguments)
    )
    return await put_done(broker, is_new)


@router.delete("/exchanges/{vhost:name}/{exchange:name}", tags=["exchanges"], status_code=DONE_STATUS, responses=GONE)
async def delete_exchange(
    broker: Broker, caller: Manager, vhost: VhostName, exchange: ExchangeName, if_unused: IfUnused = False
) -> Response:
    """Take an exchange away with its bindings."""
    where = entered(broker, caller, vhost)
    name = exchange_named(exchange)
    where.catalog.check_exchange(name)
    caller.rights(where.name).check_exchange(CONFIGURE, name)
    where.catalog.delete_exchange(name, if_unused)
    return await finished(broker)


# ---- bindings


@router.post(
    "/bindings/{vhost:name}/e/{source:name}/q/{queue:name}",
    tags=["bindings"],
    status_code=CREATED,
    responses=BOUND,
    response_class=Response,
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
    where = entered(broker, caller, vhost)
    asked = body or BindingBody()
    exchange, key = exchange_named(source), asked.routing_key.encode()
    caller.rights(where.name).check_bind(queue.encode(), exchange, key, where.catalog.is_topic_exchange(exchange))
    where.catalog.check_exchange(exchange)
    found = where.catalog.queue(queue.encode())
    where.catalog.check_owner(found, NO_SESSION)
    where.catalog.bind(found.name, exchange, key, dict(asked.arguments))
    return await finished(broker, CREATED, location_of(queue, key, asked))


@router.post(
    "/bindings/{vhost:name}/e/{source:name}/e/{destination:name}",
    tags=["bindings"],
    status_code=CREATED,
    responses=BOUND,
    response_class=Response,
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
    where = entered(broker, caller, vhost)
    asked = body or BindingBody()
    exchange, key = exchange_named(source), asked.routing_key.encode()
    to = exchange_named(destination)
    check_bind_exchange(where.catalog, caller.rights(where.name), to, exchange, key)
    where.catalog.bind_exchange(to, exchange, key, dict(asked.arguments))
    return await finished(broker, CREATED, location_of(destination, key, asked))


@router.delete(
    "/bindings/{vhost:name}/e/{source:name}/q/{queue:name}/{props:name}",
    tags=["bindings"],
    status_code=DONE_STATUS,
    responses=GONE,
)
async def unbind_queue(
    broker: Broker, caller: Manager, vhost: VhostName, source: ExchangeName, queue: QueueName, props: PropertiesKey
) -> Response:
    """Take a binding of a queue away."""
    unbind(entered(broker, caller, vhost), caller, source, queue, props, True)
    return await finished(broker)


@router.delete(
    "/bindings/{vhost:name}/e/{source:name}/e/{destination:name}/{props:name}",
    tags=["bindings"],
    status_code=DONE_STATUS,
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
    unbind(entered(broker, caller, vhost), caller, source, destination, props, False)
    return await finished(broker)


def unbind(vhost: Vhost, caller: Caller, source: str, destination: str, props: str, to_queue: bool) -> None:
    """Take away the binding that a key names; RequestError."""
    exchange = exchange_named(source)
    binding = find_binding(bindings_between(vhost, exchange, destination, to_queue), props)[1]
    if isinstance(binding, Queue):  # that of the exchange without a name, which the vhost refuses to touch
        vhost.catalog.unbind(binding.name, exchange, binding.name, {})
        return
    key, arguments = binding.routing_key, binding.arguments
    rights = caller.rights(vhost.name)
    if to_queue:
        queue = vhost.catalog.queue(destination.encode())
        rights.check_bind(queue.name, exchange, key, vhost.catalog.is_topic_exchange(exchange))
        vhost.catalog.check_owner(queue, NO_SESSION)
        vhost.catalog.unbind(queue.name, exchange, key, arguments)
    else:
        check_bind_exchange(vhost.catalog, rights, exchange_named(destination), exchange, key)
        vhost.catalog.unbind_exchange(exchange_named(destination), exchange, key, arguments)


def location_of(destination: str, key: bytes, asked: BindingBody) -> dict[str, str]:
    return {"Location": f"{quoted(destination)}/{quoted(properties_key(key, asked.arguments))}"}


# ---- connections


@router.delete("/connections/{connection:name}", tags=["connections"], status_code=DONE_STATUS, responses=GONE)
async def close_connection(
    broker: Broker, caller: Manager, connection: ConnectionName, x_reason: Reason = CLOSED
) -> Response:
    """End a connection, and tell its client why. Who is no administrator can end only own ones."""
    close(broker, caller, find_connection(broker, caller, connection), x_reason)
    return await finished(broker)


@router.delete("/connections/username/{user:name}", tags=["connections"], status_code=DONE_STATUS, responses=GONE)
async def close_connections_of_user(
    broker: Broker, caller: Manager, user: UserName, x_reason: Reason = CLOSED
) -> Response:
    """End all connections of a user."""
    if user != caller.user:
        caller.check_administrator()
    for connection in open_connections(broker, caller):
        if user_of(connection) == user:
            close(broker, caller, connection, x_reason)
    return await finished(broker)


def close(app: App, caller: Caller, connection: Connection, reason: str) -> None:
    """End a connection whose client has logged in; RequestError(REFUSED) where it is another's."""
    if user_of(connection) != caller.user:
        caller.check_administrator()
    assert connection.session is not None, "its client has logged in"
    connection.attempt_with(connection.session.dismiss, reason)
    app.touch(connection)


def entered(app: App, caller: Caller, vhost: str) -> Vhost:
    """A vhost that the caller is about to change as one of its clients could; RequestError."""
    where = check_vhost(app, caller, vhost)
    if is_monitor(caller):
        caller.rights(where.name)  # seeing is not entering
    where.touch()
    return where
