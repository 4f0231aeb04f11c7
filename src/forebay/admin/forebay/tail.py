"""/api/forebay/queues/…/tail: what has just come to a queue, settled or not, for who watches."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from forebay.admin.forebay.answers import answers
from forebay.admin.forebay.asking import check
from forebay.admin.forebay.queues import Body
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Asker, Broker
from forebay.admin.rights import check_vhost
from forebay.broker.dead_letter.dlq import seal
from forebay.core.errors import NOT_FOUND, RequestError

TAIL_MAX: Final = 100
TAIL: Final = answers(
    {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "object"}},
            "next": {"type": "integer", "description": "What comes later has this offset, or a higher one."},
            "skipped": {"type": "integer", "description": "Messages from `from` on that are not among the items."},
        },
        "required": ["items", "next", "skipped"],
    }
)
router = APIRouter(prefix="/api/forebay/queues/{vhost:name}/{queue:name}", tags=["forebay"])


@router.get("/tail", responses=TAIL)
async def show_tail(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    queue: QueueName,
    first: Annotated[
        int | None, Query(alias="from", ge=0, le=1 << 62, description="`next` of the answer before; none: from now on.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=TAIL_MAX, description="The newest so many at most.")] = 20,
    body_octets_max: Body = 1024,
) -> Response:
    """The newest messages that came since `from`, settled or not, as far as the log still has them; none is taken."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue}
    await app.decided(lambda: check(app, caller, "queue.messages", values))
    place = check_vhost(app, caller, vhost)
    found = place.catalog.queue(queue.encode())
    seal(place, found)
    end = int(found.log.end)
    since = end if first is None else min(first, end)
    items: list[object] = []
    for offset in range(max(since, end - limit), end):
        try:
            given = {**values, "offset": offset, "body_octets_max": body_octets_max}
            items.append(caller.perform("message.show", given))
        except RequestError as error:
            if error.reason != NOT_FOUND:  # else it was settled, and is gone
                raise
    return as_json({"items": items, "next": end, "skipped": end - since - len(items)})
