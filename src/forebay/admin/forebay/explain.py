"""/api/forebay/explain: where a message is, and why it has not been delivered."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from starlette.responses import Response

from forebay.admin.asking import answer, given_of
from forebay.admin.caller import Caller
from forebay.admin.forebay.answers import answer_of
from forebay.admin.http.answer import as_json
from forebay.admin.login import Asker, Broker
from forebay.admin.web.fields import Query
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, RequestError
from forebay.management.control import operation_named
from forebay.management.explain.explain import delayed_explained, explained, queues_to_search
from forebay.management.explain.places import Search
from forebay.management.requests.explain import ExplainAnswer
from forebay.server.broker_view import BrokerView

STEPS_MAX: Final = 2000  # of one search
FOUND_MAX: Final = 20
router = RouteGroup(prefix="/api/forebay", tags=["forebay"])

InVhost = Annotated[str, Query(description="The vhost.")]
InQueue = Annotated[str | None, Query(description="The queue; with a message id all are searched if it is not given.")]
AtOffset = Annotated[int | None, Query(ge=0, le=1 << 62, description="The message's offset in the queue.")]
MessageId = Annotated[str | None, Query(min_length=1, description="Or the message id that its publisher gave it.")]
OfClient = Annotated[str | None, Query(description="Or the MQTT session that should have it.")]
OfUser = Annotated[str | None, Query(description="And the user whose session it is.")]
OnTopic = Annotated[str | None, Query(description="And the topic on which it was published.")]


@router.get("/explain", responses=answer_of(ExplainAnswer))
async def explain_message(
    app: Broker,
    caller: Asker,
    vhost: InVhost = "/",
    queue: InQueue = None,
    offset: AtOffset = None,
    message_id: MessageId = None,
    client_id: OfClient = None,
    user: OfUser = None,
    topic: OnTopic = None,
) -> Response:
    """A message's place, and the reasons why it has not been delivered, the worst first (docs/how-to/explain.md)."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "offset": offset, "message_id": message_id}
    values |= {"client_id": client_id, "user": user, "topic": topic}
    if message_id is None or offset is not None or client_id is not None:
        return await answer(app, caller, "message.explain", values)
    where = await vhost_searched(app, caller, "message.explain", values)
    search = await searched(where, queue, message_id)
    found = [
        explained(where, app.control.connections, place, app.control.cluster) for place in search.found[:FOUND_MAX]
    ]
    found += delayed_explained(where, message_id)
    return as_json({"found": found, "complete": search.is_done})


async def vhost_searched(app: BrokerView, caller: Caller, name: str, values: dict[str, object]) -> Vhost:
    """The vhost that an operation is about, which takes longer here than a turn; RequestError."""
    operation = operation_named(name)
    await app.decided(lambda: app.control.permitted(caller.principal, operation, given_of(values)))
    return app.control.vhost_named(str(values["vhost"]))


async def searched(vhost: Vhost, queue: str | None, message_id: str) -> Search:
    """A search through one queue or all of a vhost, in steps with turns between them."""
    if not message_id:
        raise RequestError(INVALID, "message_id: is empty")
    search = Search(vhost, queues_to_search(vhost, None if queue is None else queue.encode()), message_id)
    for _ in range(STEPS_MAX):
        if search.is_done or len(search.found) >= FOUND_MAX:
            break
        search.step()
        await asyncio.sleep(0)
    return search
