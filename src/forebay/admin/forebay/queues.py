"""/api/forebay/queues: messages of queues looked at, moved and discarded; and the logs that they are in."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field
from starlette.responses import Response

from forebay.admin.asking import in_portions, messages, perform
from forebay.admin.forebay.answers import answer_of
from forebay.admin.forebay.operation_routes import OperationRoute, add_operations
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Asker, Broker
from forebay.admin.web.bodies import Exact
from forebay.admin.web.fields import Query
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import INVALID, RequestError
from forebay.management.requests.fields import LIMIT_DEFAULT, LIMIT_MAX
from forebay.management.requests.queues import MessagePage, PortionTotals

router = RouteGroup(prefix="/api/forebay/queues/{vhost:name}/{queue:octets}", tags=["forebay"])
add_operations(
    router,
    (
        OperationRoute("/tail", "queue.tail"),
        OperationRoute("/messages/{offset}", "message.show", defaults={"body_octets_max": 128 << 10}),
        OperationRoute("/log", "stream.show"),
        OperationRoute("/offset", "stream.offset"),
        OperationRoute("/unsettled", "queue.unsettled"),
        OperationRoute("/pause", "queue.pause", method="POST"),
        OperationRoute("/resume", "queue.resume", method="POST"),
    ),
)

Where = Annotated[str, Query(description="Only messages for which this filter holds: docs/reference/filters.md.")]
First = Annotated[
    int,
    Query(alias="from", ge=0, le=1 << 62, description="The first offset to look at: `next` of the answer before."),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="How many at most.")]
Body = Annotated[int, Query(alias="body_octets_max", ge=0, le=128 << 10, description="How much of each body.")]
Time = Annotated[int | None, Query(ge=0, le=1 << 50, description="Instead of `from`: milliseconds since 1970.")]


class Choice(Exact):
    """The chosen messages of a queue."""

    where: Annotated[str, Meta(description="Only those for which this filter holds.")] = ""
    offsets: Annotated[
        list[int | tuple[int, int]] | None, Meta(description="Only those of these offsets and [first, end).")
    ] = None
    first: Annotated[int, Meta(ge=0, description="From this offset on.")] = field(name="from", default=0)
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="How many at most; all if not given.")] = None

    def values(self, vhost: str, queue: bytes) -> dict[str, object]:
        """The arguments of an operation."""
        pairs = (
            None if self.offsets is None else [list(each) if isinstance(each, tuple) else each for each in self.offsets]
        )
        return {"vhost": vhost, "queue": queue, "where": self.where, "offsets": pairs, "from": self.first}


class ChosenSettlement(Choice):
    """The chosen messages of a group, and what becomes of them."""

    action: Annotated[
        str,
        Meta(
            description="acknowledge, cancel (return what consumers hold) or expire.",
            pattern="^(acknowledge|cancel|expire)$",
        ),
    ] = "acknowledge"
    group: Annotated[str, Meta(description="The group; the queue's own if not given.")] = ""


class Redelivery(Exact):
    """The settled messages of a queue that a group is to get once more."""

    group: Annotated[str, Meta(description="The group that gets them; the queue's own if not given.")] = ""
    since: Annotated[str, Meta(description="The first: first, an offset, timestamp=MS, or an age such as 90m.")] = (
        "first"
    )
    until: Annotated[str, Meta(description="The first that is not among them.")] = "next"
    where: Annotated[str, Meta(description="Only those for which this filter holds.")] = ""
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="How many at most; all if not given.")] = None


class Move(Choice):
    """The chosen messages, and the queue or exchange that they go to."""

    to: Annotated[str, Meta(description="The queue that they go to.")] = ""
    exchange: Annotated[str | None, Meta(description="Or the exchange.")] = None
    routing_key: Annotated[str | None, Meta(description="Their routing key there; that of each if not given.")] = None


@router.get("/messages", responses=answer_of(MessagePage))
async def list_messages(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    queue: QueueName,
    where: Where = "",
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
    body_octets_max: Body = 1024,
    time_ms: Time = None,
) -> Response:
    """Messages that nobody has settled, from an offset or a time on, without taking them; of a stream all."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue}
    if time_ms is not None:
        found = await perform(app, caller, "stream.offset", {**values, "time_ms": time_ms})
        values["from"] = found["offset"]
    else:
        values["from"] = first
    values |= {"where": where, "body_octets_max": body_octets_max}
    return as_json(await messages(app, caller, "queue.messages", values, limit))


@router.delete("/messages", responses=answer_of(PortionTotals))
async def discard_messages(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    queue: QueueName,
    where: Where = "",
    first: First = 0,
    limit: Annotated[int | None, Query(ge=1, description="How many at most; all if not given.")] = None,
    choice: Choice | None = None,
) -> Response:
    """Discard the messages that wait and are chosen, by the query or by a body; what consumers hold is left."""
    if choice is None:
        choice = Choice(where=where, first=first, limit=limit)
    elif where or first or limit is not None:
        raise RequestError(INVALID, "query: the messages are chosen by the query or by the body, not by both")
    values = choice.values(vhost, queue)
    return as_json(await in_portions(app, caller, "queue.discard", values, choice.limit))


@router.post("/settle", responses=answer_of(PortionTotals))
async def settle_messages(
    app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, chosen: ChosenSettlement
) -> Response:
    """Acknowledge, cancel or expire the chosen messages; what consumers hold only if the queue is sublet."""
    values = {**chosen.values(vhost, queue), "action": chosen.action, "group": chosen.group}
    return as_json(await in_portions(app, caller, "queue.settle", values, chosen.limit))


@router.post("/redeliver", responses=answer_of(PortionTotals))
async def redeliver_messages(
    app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, chosen: Redelivery
) -> Response:
    """Deliver messages that a group has settled to it once more, if the queue retains them."""
    values = {**msgspec.structs.asdict(chosen), "vhost": vhost, "queue": queue, "from": 0}
    limit = values.pop("limit")
    return as_json(await in_portions(app, caller, "queue.redeliver", values, limit))


@router.post("/move", responses=answer_of(PortionTotals))
async def move_messages(app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, move: Move) -> Response:
    """Move the messages that wait and are chosen to another queue or an exchange; each is in one place at any time."""
    values = {**move.values(vhost, queue), "to": move.to, "exchange": move.exchange, "routing_key": move.routing_key}
    return as_json(await in_portions(app, caller, "queue.move", values, move.limit))
