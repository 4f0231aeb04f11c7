"""/api/forebay/dead-letters: the queues that dead letters are in, and what is done with them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from forebay.admin.asking import answer, in_portions, messages
from forebay.admin.forebay.answers import DONE, EMPTY, LIST
from forebay.admin.forebay.queues import Body, Choice, First, Limit, Offset, Where
from forebay.admin.http.answer import as_json
from forebay.admin.http.exact import Exact
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Asker, Broker
from forebay.management.arguments import LIMIT_DEFAULT

router = APIRouter(prefix="/api/forebay/dead-letters/{vhost:name}", tags=["forebay"])


class Redrive(Choice):
    """The dead letters that go back, and their destination."""

    to: Annotated[str, Field(description="The queue that they go to; that in which each died first if not given.")] = ""


class Edit(Exact):
    """The fields that are to be other than they were."""

    body: Annotated[str | None, Field(description="Another body.")] = None
    body_base64: Annotated[str | None, Field(description="Another body that is no text.")] = None
    headers: Annotated[dict[str, object] | None, Field(description="Headers to set; null takes one away.")] = None
    routing_key: Annotated[str | None, Field(description="Another routing key.")] = None


@router.get("", responses=LIST)
async def list_queues(
    app: Broker, caller: Asker, vhost: VhostName, first: First = 0, limit: Limit = LIMIT_DEFAULT
) -> Response:
    """The queues that dead letters go to, with what is in them by cause and by the queue in which it died."""
    return await answer(app, caller, "dlq.list", {"vhost": vhost, "from": first, "limit": limit})


@router.get("/{queue:name}", responses=LIST)
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


@router.post("/{queue:name}/redrive", responses=DONE)
async def redrive(
    app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, choice: Redrive | None = None
) -> Response:
    """Send dead letters back to where they died, or to another queue; each is in one place at any time."""
    choice = choice or Redrive()
    values = {**choice.values(vhost, queue), "to": choice.to}
    return as_json(await in_portions(app, caller, "dlq.redrive", values, choice.limit))


@router.patch("/{queue:name}/{offset}", responses=EMPTY)
async def edit(
    app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, offset: Offset, changes: Edit
) -> Response:
    """Put a changed message in the place of one; it goes to the end of its queue."""
    return await answer(
        app, caller, "dlq.edit", {"vhost": vhost, "queue": queue, "offset": offset, **changes.model_dump()}
    )
