"""POST /publish: messages come in over HTTP, one or many at a time, and are answered when they are on the disk."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final
from urllib.parse import unquote

from mypy_extensions import u8
from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.bridge.message import Message, PublishRequest, check_right, checked, own_headers, wanted_of
from forebay.admin.caller import Caller
from forebay.admin.http.answer import as_json, refusal
from forebay.admin.login import Broker, Client
from forebay.admin.web.bodies import read_body
from forebay.admin.web.fields import InPath, Query
from forebay.admin.web.router import Responses, RouteGroup
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.publish.outcome import NO_ROOM
from forebay.broker.publish.router import Route
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_ALLOWED, NOT_FOUND, REFUSED, PeerError, RequestError
from forebay.core.message import ACCEPTED, REJECTED
from forebay.core.units import US_PER_MS
from forebay.directory.permissions import Rights
from forebay.message.formats.table import topic_octet
from forebay.queue.queue import SHARE
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView
from forebay.session.mqtt.incoming.publish import topic_address

OK: Final = 200
ACCEPTED_STATUS: Final = 202
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_THERE: Final = 404
TOO_LARGE: Final = 413
TOO_MANY: Final = 429
UNAVAILABLE: Final = 503
RETRY_FULL_S: Final = 1  # what is to be waited for a queue's consumers
RETRY_LACK_S: Final = 5  # and for memory or disk
BATCH_MAX: Final = 10_000
SLICE: Final = 50  # messages after which others have their turn
NDJSON: Final = "application/x-ndjson"
ANSWERS: Final[Responses] = {
    OK: {"description": "It is on the disk: `routed`, and `offsets` by queue.", "content": {"application/json": {}}},
    ACCEPTED_STATUS: {"description": "It is on the disk, and is published when its time has come."},
    BAD_REQUEST: {"description": "A field is wrong: `error` and `reason`."},
    401: {"description": "Not logged in."},
    FORBIDDEN: {"description": "The user may not publish there."},
    NOT_THERE: {"description": "There is no such vhost."},
    TOO_LARGE: {"description": "The body is too long."},
    TOO_MANY: {"description": "A queue is full; `Retry-After` says when to try again."},
    UNAVAILABLE: {"description": "The broker lacks memory or disk; `Retry-After` says when to try again."},
}
router = RouteGroup(tags=["bridge"])

InVhost = Annotated[str, Query(description="The vhost.")]
Topic = Annotated[str, InPath(description="The topic, or $queue/<queue> for a queue; percent-encoded.")]
Qos = Annotated[int, Query(ge=0, le=2, description="What subscribers may get it at.")]
Retain = Annotated[bool, Query(description="Keep it for those who subscribe later.")]
Expiration = Annotated[int | None, Query(ge=0, description="Seconds after which nobody is to have it.")]
Delay = Annotated[int, Query(ge=0, description="Milliseconds after which it is published.")]
Priority = Annotated[int | None, Query(ge=0, le=255, description="In queues with priorities.")]
Key = Annotated[str | None, Query(description="Message group: delivered in order, one at a time.")]


class PublishAnswer:
    """The outcome of one publish.

    offsets   by queue, of those that took it
    due_us    when it is published; 0 for at once
    """

    def __init__(self, status: int, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        self.routed = False
        self.duplicate = False
        self.offsets: dict[str, int] = {}
        self.due_us = 0

    def fields(self) -> dict[str, object]:
        """The same for JSON."""
        if self.reason:
            return {"error": "rejected", "reason": self.reason}
        fields: dict[str, object] = {"routed": self.routed, "offsets": self.offsets}
        if self.duplicate:
            fields["duplicate"] = True
        if self.due_us:
            fields["due_ms"] = self.due_us // US_PER_MS
        return fields

    def answer(self) -> Response:
        """The answer to a request that published this alone."""
        found = as_json(self.fields(), self.status)
        if self.status in (TOO_MANY, UNAVAILABLE):
            found.headers["Retry-After"] = str(RETRY_FULL_S if self.status == TOO_MANY else RETRY_LACK_S)
        return found


@router.post("/publish/{topic:path}", responses=ANSWERS)
async def publish_one(
    app: Broker,
    caller: Client,
    request: Request,
    topic: Topic,
    vhost: InVhost = "/",
    qos: Qos = 1,
    retain: Retain = False,
    expiration_s: Expiration = None,
    delay_ms: Delay = 0,
    priority: Priority = None,
    key: Key = None,
) -> Response:
    """Publish the body of the request on a topic, with its Content-Type; the answer comes when it is on the disk.

    Headers that begin with `X-` are user properties of the message. A request with an `Idempotency-Key` may be sent
    again: what was taken once is answered, and not published again.
    """
    body = await request.body()
    wanted = PublishRequest(
        unquote(topic),
        body,
        request.headers.get("content-type"),
        own_headers(list(request.headers.items())),
        qos,
        retain,
        expiration_s,
        delay_ms,
        priority,
        key,
        request.headers.get("idempotency-key"),
    )
    try:
        message = checked(wanted, app.options)
        where, rights = await place_of(app, caller, vhost)
        await app.decided(lambda: check_right(rights, message))
    except (RequestError, PeerError) as error:
        return refused(error)
    await with_room(app)
    outcome = publish(app, where, message, rights.user)
    if outcome.status < BAD_REQUEST:
        await app.on_disk()
        await pay(app, caller, 1, len(body))
    return outcome.answer()


@router.post("/publish", responses=ANSWERS)
async def publish_many(app: Broker, caller: Client, request: Request, vhost: InVhost = "/") -> Response:
    """Publish many messages, in their order: a JSON list of objects, or one object a line (application/x-ndjson).

    All of them are checked before the first is published. `results` has an answer for each: its `status` is what it
    would have been for a message alone. Fields: topic, payload (text, or any JSON value) or payload_base64, headers,
    content_type, qos, retain, expiration_s, delay_ms, priority, key, idempotency_key.
    """
    octets = await request.body()
    try:
        items = items_of(octets, request.headers.get("content-type", ""))
        where, rights = await place_of(app, caller, vhost)
        messages: list[Message] = []
        for number, item in enumerate(items):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            messages.append(await one_of(app, rights, number, item))
    except (RequestError, PeerError) as error:
        return refused(error)
    results: list[dict[str, object]] = []
    failed = 0
    for number, message in enumerate(messages):
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        await with_room(app)
        outcome = publish(app, where, message, rights.user)
        failed += outcome.status >= BAD_REQUEST
        results.append({"status": outcome.status, **outcome.fields()})
    await app.on_disk()
    await pay(app, caller, len(results), len(octets))
    return as_json({"published": len(results) - failed, "failed": failed, "results": results})


async def one_of(app: BrokerView, rights: Rights, number: int, item: object) -> Message:
    """A checked item of a batch; what is wrong with it is said with its number."""
    try:
        message = checked(wanted_of(item), app.options)
        await app.decided(lambda: check_right(rights, message))
    except RequestError as error:
        raise RequestError(error.reason, f"item {number}: {error.text}") from None
    except PeerError as error:
        raise PeerError(error.reason, f"item {number}: {error.text}") from None
    return message


def items_of(octets: bytes, content_type: str) -> list[object]:
    """The items of a batch; RequestError(INVALID)."""
    if content_type.partition(";")[0].strip().lower() == NDJSON:
        lines = [line for line in octets.splitlines() if line.strip()]
        return within_batch([read_body(line, f"item {number}") for number, line in enumerate(lines)])
    items = read_body(octets)
    if not isinstance(items, list):
        raise RequestError(INVALID, "body: no list of messages")
    return within_batch(items)


def within_batch(items: list[object]) -> list[object]:
    """Return the items; raise RequestError(INVALID) if they are more than one request may have."""
    if len(items) > BATCH_MAX:
        raise RequestError(INVALID, f"body: {len(items)} messages, at most {BATCH_MAX} at once")
    return items


async def place_of(app: BrokerView, caller: Caller, name: str) -> tuple[Vhost, Rights]:
    """The vhost of that name and what the caller may do there; RequestError."""
    vhost = app.vhosts.by_name.get(name.encode())
    if vhost is None:
        raise RequestError(NOT_FOUND, f"vhost: '{name}' does not exist")
    return vhost, await app.decided(lambda: caller.rights(vhost.name))


def refused(error: RequestError | PeerError) -> Response:
    """The answer to what nobody can do anything with."""
    if isinstance(error, PeerError):
        return refusal(TOO_LARGE, error.text)
    if error.reason in (REFUSED, NOT_ALLOWED):
        return refusal(FORBIDDEN, error.text)
    return refusal(NOT_THERE if error.reason == NOT_FOUND else BAD_REQUEST, error.text)


# ---- publishing


async def pay(app: BrokerView, caller: Caller, messages: int, octets: int) -> None:
    """Keep a caller waiting who publishes faster than a user may."""
    await asyncio.sleep(app.rates.debt_of_user(caller.user, messages, octets, app.now_us()))


async def with_room(app: BrokerView) -> None:
    """Wait where only too much is on its way to the disk: over TCP such a publisher would not be read."""
    while app.pressure.over_limit() and not app.pressure.alarms():
        await app.on_disk()


def publish(app: BrokerView, vhost: Vhost, message: Message, user: str) -> PublishAnswer:
    """Publish a user's checked message; nothing of what is refused is on its way."""
    if app.pressure.over_limit():
        alarms = ", ".join(app.pressure.alarms()) or "too much is not on the disk yet"
        return PublishAnswer(UNAVAILABLE, f"the broker takes in nothing for now: {alarms}")
    vhost.touch()
    identity = message.identity
    seen = vhost.deduplication
    if identity is not None:
        identity.user = user.encode()
        if seen.is_known(topic_address(message.topic), identity, vhost.turn.now_us):
            known = PublishAnswer(OK)
            known.routed = known.duplicate = True
            return known
        if not vhost.admission.take_room(seen.octets(identity)):
            return PublishAnswer(UNAVAILABLE, NO_ROOM.reason)
    try:
        outcome = delay(app, vhost, message) if message.delay_ms else publish_now(vhost, message)
    except RequestError as error:
        return PublishAnswer(BAD_REQUEST, error.text)
    if identity is not None and outcome.status < BAD_REQUEST and (outcome.routed or outcome.due_us):
        seen.remember(identity)
    return outcome


def format_of(message: Message) -> u8:
    return topic_octet(message.qos, message.retain)


def delay(app: BrokerView, vhost: Vhost, message: Message) -> PublishAnswer:
    """Keep a message until its time."""
    due_us = app.now_us() + message.delay_ms * US_PER_MS
    kept = vhost.publishing.delay(b"", due_us, format_of(message), message.topic, message.properties, message.body)
    if kept.status == REJECTED:
        return PublishAnswer(UNAVAILABLE, kept.reason)
    outcome = PublishAnswer(ACCEPTED_STATUS)
    outcome.due_us = due_us
    return outcome


def publish_now(vhost: Vhost, message: Message) -> PublishAnswer:
    format = format_of(message)
    route = vhost.router.route_topic(message.topic, None)
    if route.headers_exchange is not None:
        route = vhost.router.resolve(route, format, message.properties)
    unwilling = refused_by_queue(route, len(message.body))
    if unwilling is not None:
        return unwilling
    if message.retain and is_topic(message.topic):
        retained = vhost.publishing.retain(message.topic, format, message.properties, message.body)
        if retained.status == REJECTED:
            return PublishAnswer(UNAVAILABLE, retained.reason)
    offsets = {
        text(queue.name): int(queue.log.end + queue.log.writer.count) for queue in route.queues if queue.kind != SHARE
    }
    result = vhost.publishing.publish(route, format, message.properties, message.body)
    if result.status == REJECTED:
        return PublishAnswer(UNAVAILABLE, result.reason)
    outcome = PublishAnswer(OK)
    outcome.routed = result.status == ACCEPTED
    outcome.offsets = offsets if outcome.routed else {}
    return outcome


def refused_by_queue(route: Route, octets: int) -> PublishAnswer | None:
    """The outcome where a queue would refuse a message of so many octets, or holds too much: nobody is given it."""
    for queue in route.queues:
        if queue.crowded or queue.is_full():
            return PublishAnswer(TOO_MANY, f"queue '{text(queue.name)}' is full, or over its share of the broker")
        if queue.is_too_long(octets):
            return PublishAnswer(TOO_LARGE, f"queue '{text(queue.name)}' {queue.refusal(octets)}")
    return None
