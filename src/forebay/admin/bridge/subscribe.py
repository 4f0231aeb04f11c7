"""GET /subscribe: messages go out over HTTP as Server-Sent Events; POST /ack settles those of a work queue."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Final
from urllib.parse import unquote

from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from forebay.admin.bridge.publish import ANSWERS, InVhost, refused
from forebay.admin.bridge.publishing import UNAVAILABLE, place_of
from forebay.admin.bridge.transport import EventTransport, begin_session
from forebay.admin.caller import Caller
from forebay.admin.http.answer import as_json, refusal
from forebay.admin.login import Broker, Client
from forebay.admin.web.bodies import Exact
from forebay.admin.web.fields import Header, InPath, Query
from forebay.admin.web.router import Responses, RouteGroup
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, PeerError, RequestError
from forebay.directory.permissions import READ
from forebay.node.peer import UNKNOWN, Peer, peer_at
from forebay.queue.leases.lease import Lease
from forebay.server.broker_view import BrokerView
from forebay.session.http import PROTOCOL, EventSession
from forebay.wire.mqtt.codes import filter_error

NO_SESSION: Final = 0  # a request is no connection that could have a queue for itself
PREFETCH_MAX: Final = 1000
OFFSETS_MAX: Final = 10_000
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # a proxy must not gather them first
EVENTS: Final[Responses] = {
    200: {"description": "Events, until the client goes.", "content": {"text/event-stream": {}}},
    **{status: ANSWERS[status] for status in (400, 401, 403, 404, 503)},
}
DONE: Final[Responses] = {
    200: {"description": "How many were held, and are settled.", "content": {"application/json": {}}},
    **{status: ANSWERS[status] for status in (400, 401, 403, 404)},
}
router = RouteGroup(tags=["bridge"])

TopicFilter = Annotated[str, InPath(description="A topic filter, or $queue/<queue>[/<filter>]; percent-encoded.")]
From = Annotated[
    str | None,
    Query(alias="from", description="Of a queue: first, last, next, an offset, timestamp=<ms>, or 90m for a time ago."),
]
Group = Annotated[str, Query(description="Of a queue: the group that reads it.")]
Where = Annotated[
    str, Query(description="Of a queue: only messages for which this filter holds: docs/reference/filters.md.")
]
Prefetch = Annotated[
    int, Query(ge=0, le=PREFETCH_MAX, description="Take from a work queue; so many may be held until POST /ack.")
]
LastId = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, description="The offset that came last.")]


@router.get("/subscribe/{filter:path}", responses=EVENTS, is_plain=True)
async def subscribe(
    app: Broker,
    caller: Client,
    request: Request,
    filter: TopicFilter,
    vhost: InVhost = "/",
    start: From = None,
    group: Group = "",
    where: Where = "",
    prefetch: Prefetch = 0,
    retained: Annotated[bool, Query(description="Of topics: begin with what is retained.")] = True,
    last_id: LastId = None,
) -> Response:
    """Be given what is published on topics, or read a queue, as events (text/event-stream).

    A queue is read as a stream, from where `from` or `Last-Event-ID` says: nothing is taken from others. With
    `prefetch` its messages are taken as consumers take them, and are to be acknowledged with POST /ack.
    """
    wanted = unquote(filter).encode("utf-8", "surrogateescape")
    try:
        place, rights = await place_of(app, caller, vhost)
        fault = filter_error(wanted, app.options.mqtt_topic_levels_max)
        if fault:
            raise RequestError(INVALID, fault)
        await app.decided(lambda: rights.check_subscribe(wanted))
        arguments = None if is_topic(wanted) else arguments_of(start, last_id, group, where, prefetch)
        transport, session = await begun(app, request, caller, place)
    except RequestError as error:
        return refused(error)
    except PeerError as error:
        return refusal(UNAVAILABLE, error.text)
    try:
        if arguments is None:
            session.subscribe(wanted, retained)
        else:
            session.consume(wanted, prefetch, arguments)
    except RequestError as error:
        transport.connection.connection_lost(None)
        return refused(error)
    app.touch(transport.connection)
    return EventAnswer(transport)


async def begun(app: BrokerView, request: Request, caller: Caller, vhost: Vhost) -> tuple[EventTransport, EventSession]:
    """A session in a vhost; RequestError where the caller may not enter, PeerError where there are too many."""
    peer: Peer = UNKNOWN if request.client is None else peer_at(*request.client)
    return await begin_session(app, caller, vhost, peer, EventSession, EventTransport)


def arguments_of(start: str | None, last_id: int | None, group: str, where: str, prefetch: int) -> dict[str, object]:
    """The consumer arguments that a request for a queue asks for; RequestError(INVALID) where they exclude another."""
    arguments: dict[str, object] = {}
    if group:
        arguments["x-consumer-group"] = group
    if where:
        arguments["x-filter"] = where
    if prefetch:
        if start is not None or last_id is not None:
            raise RequestError(INVALID, "from: what is taken from a work queue begins where the others are")
    elif last_id is not None:
        arguments["x-stream-offset"] = f"offset={last_id + 1}"
    else:
        arguments["x-stream-offset"] = start or ("resume" if group else "next")
    return arguments


class EventAnswer(StreamingResponse):
    """The answer to a subscriber; when it ends, for whatever reason, so does its session.

    Nothing is cancelled when the client goes: what was being sent would stay in the traceback, for the collector.
    """

    def __init__(self, transport: EventTransport) -> None:
        super().__init__((), media_type="text/event-stream", headers=HEADERS)
        self.transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self.leave(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while data := await self.transport.take():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:  # the broker stops, and this reader does not take what it was sent
            if not self.transport.is_closing():
                raise
        finally:
            leaving.cancel()
            self.transport.connection.connection_lost(None)
            self.transport.abort()

    async def leave(self, receive: Receive) -> None:
        """The client goes, or sends more than it may: that ends its events."""
        with suppress(HTTPException):
            while (await receive())["type"] != "http.disconnect":
                continue
        self.transport.abort()


# ---- settling


class SettleRequest(Exact):
    """A request that settles messages of a work queue."""

    queue: Annotated[str, Meta(description="The queue.")]
    offsets: Annotated[
        list[Annotated[int, Meta(ge=0, le=1 << 62)]],
        Meta(description="Their offsets: the ids of the events.", max_length=OFFSETS_MAX),
    ]
    group: Annotated[str, Meta(description="The group, if it has a name.")] = ""
    action: Annotated[
        str,
        Meta(
            description="ack, nack (hand it out again), reject, or extend (hold it longer).",
            pattern="^(ack|nack|reject|extend)$",
        ),
    ] = "ack"
    delay_ms: Annotated[int, Meta(ge=0, le=10**10, description="Of nack: not before so long.")] = 0
    extend_ms: Annotated[
        int, Meta(ge=0, le=10**10, description="Of extend: how long from now on; 0: as if it came now.")
    ] = 0


@router.post("/ack", responses=DONE)
async def settle(app: Broker, caller: Client, settlement: SettleRequest, vhost: InVhost = "/") -> Response:
    """Settle messages that subscribers hold; those that they do not hold, or no more, are not counted."""
    try:
        where, rights = await place_of(app, caller, vhost)
        name = settlement.queue.encode()
        await app.decided(lambda: rights.check_queue(READ, name))
        where.catalog.check_owner(where.catalog.queue(name), NO_SESSION)
        where.touch()
        settled = 0
        for offset in settlement.offsets:
            lease = held(where, name, settlement.group.encode(), offset)
            if lease is not None and is_held_by(app, caller, where, lease):
                settled += settle_one(where, lease, offset, settlement)
    except RequestError as error:
        return refused(error)
    app.hurry()
    await app.on_disk()
    return as_json({"settled": settled})


def held(vhost: Vhost, queue: bytes, group: bytes, offset: int) -> Lease | None:
    """The lease of a message; RequestError(NOT_FOUND) without such a queue."""
    if vhost.catalog.queue(queue).find_group(group) is None:
        raise RequestError(NOT_FOUND, f"group: nobody has taken anything from queue '{queue.decode()}'")
    return vhost.settling.find_lease(queue, group, offset)


def is_held_by(app: BrokerView, caller: Caller, vhost: Vhost, lease: Lease) -> bool:
    """True if a caller has the message by its events; of a queue that is sublet, whoever may read it settles it."""
    holder = int(lease.consumer.session_id)
    if app.clients.user(holder) == caller.user and app.clients.protocol(holder) == PROTOCOL:
        return True
    queue = vhost.catalog.queues_by_id.get(int(lease.consumer.queue))
    return queue is not None and queue.limits.sublet


def settle_one(vhost: Vhost, lease: Lease, offset: int, settlement: SettleRequest) -> int:
    if settlement.action == "ack":
        return int(vhost.settling.ack(lease, offset, 1))
    if settlement.action == "nack":
        return int(vhost.settling.nack(lease, offset, 1, settlement.delay_ms))
    if settlement.action == "extend":
        return int(vhost.settling.extend(lease, offset, 1, settlement.extend_ms))
    return int(vhost.settling.reject(lease, offset, 1))
