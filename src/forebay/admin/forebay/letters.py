"""/api/forebay/dead-letters: the queues that dead letters are in, and what is done with them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from forebay.admin.asking import in_portions, messages
from forebay.admin.forebay.answers import answer_of
from forebay.admin.forebay.operation_routes import OperationRoute, add_operations
from forebay.admin.forebay.queues import Body, Choice, First, Limit, Where
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Asker, Broker
from forebay.admin.web.router import RouteGroup
from forebay.management.requests.fields import LIMIT_DEFAULT
from forebay.management.requests.queues import MessagePage, PortionTotals

router = RouteGroup(prefix="/api/forebay/dead-letters/{vhost:name}", tags=["forebay"])
add_operations(
    router,
    (OperationRoute("", "dlq.list"), OperationRoute("/{queue:octets}/{offset}", "dlq.edit", method="PATCH")),
)


class Redrive(Choice):
    """The dead letters that go back, and their destination."""

    to: Annotated[str, Meta(description="The queue that they go to; that in which each died first if not given.")] = ""


@router.get("/{queue:octets}", responses=answer_of(MessagePage))
async def list_letters(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    queue: QueueName,
    where: Where = "",
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
    body_octets_max: Body = 1024,
) -> Response:
    """Dead letters; `death` says why and where each died last."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "where": where, "from": first}
    values["body_octets_max"] = body_octets_max
    return as_json(await messages(app, caller, "dlq.show", values, limit))


@router.post("/{queue:octets}/redrive", responses=answer_of(PortionTotals))
async def redrive(
    app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, choice: Redrive | None = None
) -> Response:
    """Send dead letters back to where they died, or to another queue; each is in one place at any time."""
    choice = choice or Redrive()
    values = {**choice.values(vhost, queue), "to": choice.to}
    return as_json(await in_portions(app, caller, "dlq.redrive", values, choice.limit))
