"""/api/forebay/history and /api/forebay/traces: what happened to messages."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from forebay.admin.asking import answer
from forebay.admin.forebay.answers import answer_of
from forebay.admin.forebay.explain import FOUND_MAX, AtOffset, InQueue, InVhost, MessageId, searched, vhost_searched
from forebay.admin.forebay.operation_routes import OperationRoute, add_operations
from forebay.admin.http.answer import as_json
from forebay.admin.login import Asker, Broker
from forebay.admin.web.router import RouteGroup
from forebay.management.explain.history import history
from forebay.management.requests.explain import HistoryAnswer

router = RouteGroup(prefix="/api/forebay", tags=["forebay"])

TRACE: Final = "/traces/{vhost:name}/{trace:name}"
NAME: Final = {"name": "trace"}
add_operations(
    router,
    (
        OperationRoute("/traces/{vhost:name}", "trace.list"),
        OperationRoute(TRACE, "trace.show", names=NAME),
        OperationRoute(TRACE, "trace.start", method="PUT", names=NAME),
        OperationRoute(TRACE, "trace.stop", method="DELETE", names=NAME),
    ),
)


@router.get("/history", responses=answer_of(HistoryAnswer))
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
