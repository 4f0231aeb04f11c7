"""POST /publish: messages come in over HTTP, one or many at a time, and are answered when they are on the disk."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.bridge.message import Message, PublishRequest, check_right, checked, own_headers, wanted_of
from forebay.admin.bridge.publishing import (
    ACCEPTED_STATUS,
    BAD_REQUEST,
    FORBIDDEN,
    NOT_THERE,
    OK,
    TOO_LARGE,
    TOO_MANY,
    UNAVAILABLE,
    PublishAnswer,
    pay,
    place_of,
    publish,
    publish_request,
    retry_s,
    status_of,
    with_room,
)
from forebay.admin.http.answer import as_json, refusal
from forebay.admin.login import Broker, Client
from forebay.admin.web.bodies import read_body
from forebay.admin.web.fields import InPath, Query
from forebay.admin.web.router import Responses, RouteGroup
from forebay.core.errors import INVALID, PeerError, RequestError
from forebay.directory.permissions import Rights
from forebay.server.broker_view import BrokerView

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


def answer_of(outcome: PublishAnswer) -> Response:
    """Return the answer to a request that published this alone."""
    found = as_json(outcome.fields(), outcome.status)
    if outcome.status in (TOO_MANY, UNAVAILABLE):
        found.headers["Retry-After"] = str(retry_s(outcome.status))
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
        return answer_of(await publish_request(app, caller, vhost, wanted))
    except (RequestError, PeerError) as error:
        return refused(error)


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


def refused(error: RequestError | PeerError) -> Response:
    """The answer to what nobody can do anything with."""
    return refusal(status_of(error), error.text)
