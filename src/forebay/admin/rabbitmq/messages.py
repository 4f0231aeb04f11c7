"""Messages over HTTP: publish one, get some, empty a queue; for looks and repairs, clients of AMQP are faster."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import itertools
from typing import Any, Final

from mypy_extensions import u8
from starlette.responses import Response

from forebay.admin.caller import Caller
from forebay.admin.changing import CHANGED, DONE_STATUS, GONE, changed, finished, noted
from forebay.admin.http.answer import as_json, refusal
from forebay.admin.http.paths import ExchangeName, QueueName, VhostName, exchange_named
from forebay.admin.http.slices import SLICE_ITEMS
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import ActionBody, GetBody, PublishBody, Routed
from forebay.admin.rabbitmq.properties import octets_of_properties, properties_fields
from forebay.admin.rights import Manager, check_vhost
from forebay.admin.web.router import Responses, RouteGroup
from forebay.broker.publish.headers import read_publish_headers
from forebay.broker.publish.outcome import PublishOutcome
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.core.message import ACCEPTED, REJECTED
from forebay.directory.permissions import READ
from forebay.message.formats.table import EXCHANGE_FORMAT, format_of
from forebay.message.properties import properties_of
from forebay.message.rendered import rendered_at
from forebay.message.requests import MARKS, REQUESTS
from forebay.queue.leases.lease import FAILED as AS_FAILED
from forebay.queue.leases.lease import UNTRIED, Delivery
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX

router = RouteGroup(prefix="/api", around=noted)

NO_SESSION: Final = 0
UNAVAILABLE: Final = 503
GOT_OCTETS_MAX: Final = 32 << 20  # of the bodies in one answer: one more message is in it than fits
BASE64: Final = "base64"
REQUEUE: Final = ("ack_requeue_true", "reject_requeue_true")
FAILED: Final = "reject_requeue_true"  # gives back, and counts towards the delivery limit
DISCARD: Final = "reject_requeue_false"
PUBLISHED: Final[Responses] = {
    200: {"model": Routed},
    UNAVAILABLE: {"description": "The broker lacks memory or disk, and takes in nothing for now."},
}
channels = itertools.count(1)  # under which messages are got: one a request


@router.post("/exchanges/{vhost:name}/{exchange:octets}/publish", tags=["messages"], responses=PUBLISHED)
async def publish_message(
    broker: Broker, caller: Manager, vhost: VhostName, exchange: ExchangeName, body: PublishBody
) -> Response:
    """Publish a message; whether a queue or a subscriber took it. The answer comes when it is on the disk."""
    where = check_vhost(broker, caller, vhost)
    name = exchange_named(exchange)
    if name not in where.catalog.bindings.exchanges:
        raise RequestError(NOT_FOUND, f"exchange_not_found: no exchange '{text(exchange)}' in vhost '{vhost}'")
    if broker.readings.is_over_limit():
        return refusal(UNAVAILABLE, f"the broker takes in nothing for now: {', '.join(broker.readings.alarms())}")
    properties = octets_of_properties(body.properties)
    where.touch()
    outcome = publish(where, caller, name, body.routing_key.encode(), properties, payload_of(body))
    await broker.on_disk()
    if outcome.status == REJECTED:
        raise RequestError(INVALID, f"rejected: {outcome.reason}")
    return as_json({"routed": outcome.status == ACCEPTED})


def publish(
    vhost: Vhost, caller: Caller, exchange: bytes, routing_key: bytes, properties: bytes, payload: bytes
) -> PublishOutcome:
    """Publish as a client of AMQP does; what came of it. RequestError: the caller may not, or it makes no sense."""
    rights = caller.rights(vhost.name)
    is_topic = vhost.catalog.is_topic_exchange(exchange)
    rights.check_publish(exchange, routing_key, is_topic)
    found = int(EXCHANGE_FORMAT.check(properties, caller.user.encode(), TABLE_DEPTH_MAX))
    format = u8(EXCHANGE_FORMAT.number | found & MARKS)
    route = vhost.router.route(exchange, routing_key)
    if found & REQUESTS:
        headers = read_publish_headers(EXCHANGE_FORMAT, properties)
        for key in headers.keys:
            rights.check_publish(exchange, key, is_topic)
        return vhost.publishing.publish_with_headers(route, headers, format, payload, caller.user.encode())
    if route.headers_exchange is not None:
        route = vhost.router.resolve(route, format, properties)
    return vhost.publishing.publish(route, format, properties, payload)


def payload_of(body: PublishBody) -> bytes:
    if body.payload_encoding != BASE64:
        return body.payload.encode()
    try:
        return base64.b64decode(body.payload, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(INVALID, f"payload: {body.payload[:80]!r} is no base64") from None


@router.post(
    "/queues/{vhost:name}/{queue:octets}/get", tags=["messages"], responses={200: {"model": list[dict[str, Any]]}}
)
async def get_messages(broker: Broker, caller: Manager, vhost: VhostName, queue: QueueName, body: GetBody) -> Response:
    """Take messages out of a queue, and settle them or give them back; fewer than asked for where they are long.

    `ack_requeue_false` takes them for good, `reject_requeue_false` sends them to the dead-letter exchange; the others
    give them back, marked as redelivered. To look without touching anything there is /api/forebay.
    """
    if body.encoding not in {"auto", BASE64}:
        raise RequestError(INVALID, "Unsupported encoding. Please use auto or base64.")
    where = check_vhost(broker, caller, vhost)
    name = where.catalog.queue(queue).name
    caller.rights(where.name).check_queue(READ, name)
    async with broker.door.long:
        answers = await got(where, name, body)
        broker.hurry()  # settlements alone would wait for the next that must be on the disk
        await broker.on_disk()
        return as_json(answers)


async def got(where: Vhost, queue: bytes, body: GetBody) -> list[dict[str, object]]:
    """The messages as they are shown, settled as the body says."""
    channel = next(channels)
    where.touch()
    try:
        taken, answers = await take(where, queue, channel, body)
        for delivery in taken:
            settle(where, delivery, body.ackmode)
    finally:
        where.consumers.close_channel(NO_SESSION, channel)
        where.touch()
    return answers


async def take(
    vhost: Vhost, queue: bytes, channel: int, body: GetBody
) -> tuple[list[Delivery], list[dict[str, object]]]:
    """Messages that are delivered now, and what is shown of them."""
    got: list[Delivery] = []
    answers: list[dict[str, object]] = []
    octets = 0
    while len(got) != body.count and octets < GOT_OCTETS_MAX:
        if got and len(got) % SLICE_ITEMS == 0:
            await asyncio.sleep(0)
        delivery = vhost.consumers.get(queue, NO_SESSION, channel, False)
        if delivery is None:
            break
        got.append(delivery)
        fields = message_fields(delivery, body)
        fields["message_count"] = int(vhost.catalog.queue(queue).own_ready())
        answers.append(fields)
        octets += int(delivery.block.body_span(delivery.index, 1))
    return got, answers


def settle(vhost: Vhost, delivery: Delivery, ackmode: str) -> None:
    lease = delivery.lease
    assert lease is not None, "it was got to be settled"
    offset = delivery.block.base + delivery.index
    if ackmode in REQUEUE:
        vhost.settling.nack(lease, offset, 1, 0, AS_FAILED if ackmode == FAILED else UNTRIED)
    elif ackmode == DISCARD:
        vhost.settling.reject(lease, offset, 1)
    else:
        vhost.settling.ack(lease, offset, 1)


def message_fields(delivery: Delivery, wanted: GetBody) -> dict[str, object]:
    """A message as RabbitMQ's API shows it."""
    block, index = delivery.block, delivery.index
    payload = format_of(block.format(index)).payload(block.body(index))
    octets = len(payload)
    if wanted.truncate is not None:
        payload = payload[: wanted.truncate]
    shown, encoding = "", BASE64
    if wanted.encoding == "auto":
        with contextlib.suppress(UnicodeDecodeError):
            shown, encoding = payload.decode(), "string"
    if encoding == BASE64:
        shown = base64.b64encode(payload).decode()
    return {
        "payload_bytes": octets,
        "redelivered": delivery.redelivered,
        "exchange": text(block.exchange(index)),
        "routing_key": text(block.routing_key(index)),
        "message_count": 0,
        # RabbitMQ's JSON has an empty list where there are none.
        "properties": properties_fields(properties_of(block.format(index), rendered_at(block, index))) or [],
        "payload": shown,
        "payload_encoding": encoding,
    }


@router.delete("/queues/{vhost:name}/{queue:octets}/contents", tags=["messages"], status=DONE_STATUS, responses=GONE)
async def purge_queue(broker: Broker, caller: Manager, vhost: VhostName, queue: QueueName) -> Response:
    """Take away all that is ready in a queue."""
    return await changed(broker, caller, "queue.purge", {"vhost": vhost, "queue": queue})


@router.post("/queues/{vhost:name}/{queue:octets}/actions", tags=["queues"], status=DONE_STATUS, responses=CHANGED)
async def act_on_queue(
    broker: Broker, caller: Manager, vhost: VhostName, queue: QueueName, body: ActionBody
) -> Response:
    """Do nothing: what mirrored queues of RabbitMQ could be told has no meaning here."""
    queue_read_by(broker, caller, vhost, queue)
    return await finished(broker)


def queue_read_by(app: BrokerView, caller: Caller, vhost: str, queue: bytes) -> tuple[Vhost, bytes]:
    """A queue that the caller may read, and that no connection has for itself; RequestError."""
    where = check_vhost(app, caller, vhost)
    found = where.catalog.queue(queue)
    caller.rights(where.name).check_queue(READ, found.name)
    where.catalog.check_owner(found, NO_SESSION)
    return where, found.name
