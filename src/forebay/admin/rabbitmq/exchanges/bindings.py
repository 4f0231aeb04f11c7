"""/api/bindings: what leads from exchanges to queues and to other exchanges.

Every queue is bound to the exchange without a name by its own, which nobody has to declare: it is listed all the same.
"""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import ExchangeName, QueueName, VhostName, exchange_named
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import BINDINGS, ONE_BINDING
from forebay.admin.rabbitmq.exchanges.binding_keys import names_key, properties_key
from forebay.admin.rights import Manager, check_vhost, seen_vhosts
from forebay.admin.web.fields import InPath
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.management.definitions.exported import binding_entry
from forebay.queue.queue import Queue
from forebay.routing.exchange import Binding, text

PropertiesKey = Annotated[str, InPath(description="The binding's `properties_key`, as lists have it.")]

router = RouteGroup(prefix="/api", tags=["bindings"])


def implicit(vhost: Vhost, queue: Queue) -> dict[str, object]:
    """The binding that every queue has."""
    name = text(queue.name)
    return {
        "source": "",
        "vhost": text(vhost.name),
        "destination": name,
        "destination_type": "queue",
        "routing_key": name,
        "arguments": {},
        "properties_key": properties_key(queue.name, {}),
    }


def binding_fields(vhost: Vhost, binding: Binding) -> dict[str, object]:
    """A binding that somebody has made."""
    return {
        **binding_entry(vhost, binding),
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }


Placed = tuple[Vhost, Queue | Binding]


def make(placed: Placed) -> dict[str, object]:
    vhost, binding = placed
    return implicit(vhost, binding) if isinstance(binding, Queue) else binding_fields(vhost, binding)


def name_of(placed: Placed) -> str:
    """The destination by which lists of bindings are filtered."""
    binding = placed[1]
    return text(binding.name if isinstance(binding, Queue) else binding.label)


def bindings_in(vhost: Vhost) -> list[Placed]:
    """All bindings of a vhost."""
    return [*from_default(vhost), *((vhost, each) for each in vhost.catalog.bindings.list_all())]


def from_default(vhost: Vhost) -> list[Placed]:
    return [(vhost, vhost.catalog.queues[name]) for name in sorted(vhost.catalog.queues)]


def bindings_from(vhost: Vhost, exchange: bytes) -> list[Placed]:
    """The bindings whose source is the exchange; RequestError(NOT_FOUND)."""
    return (
        [(vhost, each) for each in vhost.catalog.bindings.list_exchange(exchange)] if exchange else from_default(vhost)
    )


def bindings_of_queue(vhost: Vhost, queue: Queue) -> list[Placed]:
    """The bindings that lead to a queue."""
    return [(vhost, queue), *((vhost, each) for each in vhost.catalog.bindings.list_destination(int(queue.id)))]


def bindings_between(vhost: Vhost, source: bytes, destination: bytes, to_queue: bool) -> list[Placed]:
    """The bindings from an exchange to a queue or an exchange; RequestError(NOT_FOUND) where one of both is missing."""
    exchange = vhost.catalog.check_exchange(source)
    if not to_queue:
        number = vhost.catalog.check_exchange(exchange_named(destination)).number
        return [(vhost, each) for each in exchange.bindings.get(number, {}).values()]
    queue = vhost.catalog.queue(destination)
    if not source:
        return [(vhost, queue)]
    return [(vhost, each) for each in exchange.bindings.get(int(queue.id), {}).values()]


def find_binding(found: list[Placed], props: str) -> Placed:
    """The one of these bindings that a properties key names; RequestError(NOT_FOUND)."""
    keys = [str(make(each)["properties_key"]) for each in found]
    if props in keys:  # one key may look like another one that was percent-encoded
        return found[keys.index(props)]
    for key, each in zip(keys, found, strict=True):
        if names_key(props, key):
            return each
    raise RequestError(NOT_FOUND, f"props: '{props}' is no binding between these two")


# ---- routes


@router.get("/bindings", responses=BINDINGS)
async def list_bindings(app: Broker, caller: Manager, wanted: Wanted) -> Response:
    """The bindings of all vhosts that the caller may see."""
    found = [each for vhost in seen_vhosts(app, caller) for each in bindings_in(vhost)]
    return await answer_list(found, name_of, make, wanted)


@router.get("/bindings/{vhost:name}", responses=BINDINGS)
async def list_bindings_of_vhost(app: Broker, caller: Manager, vhost: VhostName, wanted: Wanted) -> Response:
    """List the bindings of a vhost."""
    return await answer_list(bindings_in(check_vhost(app, caller, vhost)), name_of, make, wanted)


@router.get("/queues/{vhost:name}/{queue:octets}/bindings", responses=BINDINGS, tags=["queues"])
async def list_bindings_of_queue(
    app: Broker, caller: Manager, vhost: VhostName, queue: QueueName, wanted: Wanted
) -> Response:
    """The bindings that lead to a queue."""
    where = check_vhost(app, caller, vhost)
    return await answer_list(bindings_of_queue(where, where.catalog.queue(queue)), name_of, make, wanted)


@router.get("/exchanges/{vhost:name}/{exchange:octets}/bindings/source", responses=BINDINGS, tags=["exchanges"])
async def list_bindings_from_exchange(
    app: Broker, caller: Manager, vhost: VhostName, exchange: ExchangeName, wanted: Wanted
) -> Response:
    """The bindings that lead on from an exchange."""
    found = bindings_from(check_vhost(app, caller, vhost), exchange_named(exchange))
    return await answer_list(found, name_of, make, wanted)


@router.get("/exchanges/{vhost:name}/{exchange:octets}/bindings/destination", responses=BINDINGS, tags=["exchanges"])
async def list_bindings_to_exchange(
    app: Broker, caller: Manager, vhost: VhostName, exchange: ExchangeName, wanted: Wanted
) -> Response:
    """The bindings that lead to an exchange."""
    where = check_vhost(app, caller, vhost)
    number = where.catalog.check_exchange(exchange_named(exchange)).number
    found: list[Placed] = [(where, each) for each in where.catalog.bindings.list_destination(number)]
    return await answer_list(found, name_of, make, wanted)


@router.get("/bindings/{vhost:name}/e/{source:octets}/q/{queue:octets}", responses=BINDINGS)
async def list_bindings_to_queue(
    app: Broker, caller: Manager, vhost: VhostName, source: ExchangeName, queue: QueueName, wanted: Wanted
) -> Response:
    """The bindings between an exchange and a queue."""
    found = bindings_between(check_vhost(app, caller, vhost), exchange_named(source), queue, True)
    return await answer_list(found, name_of, make, wanted)


@router.get("/bindings/{vhost:name}/e/{source:octets}/e/{destination:octets}", responses=BINDINGS)
async def list_bindings_between_exchanges(
    app: Broker, caller: Manager, vhost: VhostName, source: ExchangeName, destination: ExchangeName, wanted: Wanted
) -> Response:
    """The bindings from an exchange to another one."""
    found = bindings_between(check_vhost(app, caller, vhost), exchange_named(source), destination, False)
    return await answer_list(found, name_of, make, wanted)


@router.get("/bindings/{vhost:name}/e/{source:octets}/q/{queue:octets}/{props:name}", responses=ONE_BINDING)
async def show_binding_to_queue(
    app: Broker,
    caller: Manager,
    vhost: VhostName,
    source: ExchangeName,
    queue: QueueName,
    props: PropertiesKey,
    wanted: Wanted,
) -> Response:
    """One binding between an exchange and a queue."""
    found = bindings_between(check_vhost(app, caller, vhost), exchange_named(source), queue, True)
    return answer_one(make(find_binding(found, props)), wanted)


@router.get("/bindings/{vhost:name}/e/{source:octets}/e/{destination:octets}/{props:name}", responses=ONE_BINDING)
async def show_binding_between_exchanges(
    app: Broker,
    caller: Manager,
    vhost: VhostName,
    source: ExchangeName,
    destination: ExchangeName,
    props: PropertiesKey,
    wanted: Wanted,
) -> Response:
    """One binding from an exchange to another one."""
    found = bindings_between(check_vhost(app, caller, vhost), exchange_named(source), destination, False)
    return answer_one(make(find_binding(found, props)), wanted)
