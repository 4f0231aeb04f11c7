"""/api/forebay/history and /api/forebay/traces: what happened to messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import Field

from forebay.admin.asking import answer
from forebay.admin.forebay.answers import EMPTY, LIST, answers, fields
from forebay.admin.forebay.explain import FOUND_MAX, AtOffset, InQueue, InVhost, MessageId, searched, vhost_searched
from forebay.admin.forebay.queues import First, Limit
from forebay.admin.http.answer import as_json
from forebay.admin.http.exact import Exact
from forebay.admin.http.paths import VhostName
from forebay.admin.login import Asker, Broker
from forebay.management.arguments import LIMIT_DEFAULT
from forebay.management.explain.history import history

router = APIRouter(prefix="/api/forebay", tags=["forebay"])

TraceName = Annotated[str, Path(description="The trace's name, percent-encoded.")]


class Start(Exact):
    """The messages to be traced."""

    pattern: Annotated[str, Field(description="A regular expression: queues whose names have it.")] = ".*"
    where: Annotated[str, Field(description="Only messages for which this filter holds.")] = ""
    events_max: Annotated[int, Field(ge=1, le=100_000, description="How many events are kept, the latest.")] = 10_000


@router.get("/history", responses=answers(fields(found="array", complete="boolean")))
async def message_history(
    app: Broker,
    caller: Asker,
    vhost: InVhost = "/",
    queue: InQueue = None,
    offset: AtOffset = None,
    message_id: MessageId = None,
) -> Response:
    """The history of a message, the oldest first, as far as the broker keeps it; `not_kept` says what is missing."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "offset": offset, "message_id": message_id}
    if message_id is None or offset is not None:
        return await answer(app, caller, "message.history", values)
    where = await vhost_searched(app, caller, "message.history", values)
    search = await searched(where, queue, message_id)
    found = [history(where, app.control.connections, place) for place in search.found[:FOUND_MAX]]
    return as_json({"found": found, "complete": search.is_done})


@router.get("/traces/{vhost:name}", responses=LIST)
async def list_traces(
    app: Broker, caller: Asker, vhost: VhostName, first: First = 0, limit: Limit = LIMIT_DEFAULT
) -> Response:
    """The traces of a vhost."""
    return await answer(app, caller, "trace.list", {"vhost": vhost, "from": first, "limit": limit})


@router.get("/traces/{vhost:name}/{trace:name}", responses=LIST)
async def show_trace(
    app: Broker, caller: Asker, vhost: VhostName, trace: TraceName, first: First = 0, limit: Limit = LIMIT_DEFAULT
) -> Response:
    """The events that a trace has kept, the oldest first."""
    return await answer(app, caller, "trace.show", {"vhost": vhost, "name": trace, "from": first, "limit": limit})


@router.put("/traces/{vhost:name}/{trace:name}", responses=answers(fields(queues="integer")))
async def start_trace(
    app: Broker, caller: Asker, vhost: VhostName, trace: TraceName, start: Start | None = None
) -> Response:
    """Write down what happens to messages of some queues, until the trace is deleted or the broker stops."""
    start = start or Start()
    return await answer(app, caller, "trace.start", {"vhost": vhost, "name": trace, **start.model_dump()})


@router.delete("/traces/{vhost:name}/{trace:name}", responses=EMPTY)
async def stop_trace(app: Broker, caller: Asker, vhost: VhostName, trace: TraceName) -> Response:
    """End a trace and forget its events."""
    return await answer(app, caller, "trace.stop", {"vhost": vhost, "name": trace})
