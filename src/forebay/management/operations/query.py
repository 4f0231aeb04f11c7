"""The operation that queries a queue."""

from __future__ import annotations

from typing import Final, cast

from msgspec.structs import asdict

from forebay.management.arguments import octets
from forebay.management.control import Control, OperationCaller, operation
from forebay.management.needs import READ_QUEUE
from forebay.management.requests.query import QueryAnswer, QueueQueryRequest

BESIDE: Final = frozenset({"vhost", "queue", "running", "scan", "first"})  # fields that are no arguments of a query


@operation("queue.query", need=READ_QUEUE)
def query_queue(control: Control, given: QueueQueryRequest, caller: OperationCaller) -> QueryAnswer:
    """Query the unsettled messages of a queue: filter, project, group and order them. Nothing is changed.

    A request looks at up to `scan` messages. If the query needs more, the answer has `running`: ask again with the same
    queue and that number. A query that nobody asks for is dropped after 30 seconds. docs/reference/query.md describes
    the arguments.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    queries = vhost.queries
    if given.running is None:
        fields = {name: value for name, value in asdict(given).items() if name not in BESIDE}
        query = queries.begin(queue, {**fields, "from": given.first}, caller.user)
    else:
        query = queries.find(given.running, queue, caller.user)
    queries.advance(query, given.scan)
    if not query.is_done:
        queries.keep(query)
        return {"scanned": query.scanned, "matched": query.matched, "end": int(query.end), "running": query.id}
    queries.forget(query)
    return cast("QueryAnswer", query.answer())
