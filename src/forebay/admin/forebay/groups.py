"""/api/forebay: groups, leases, delayed messages, transactions of sinks and pipelines."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from forebay.admin.asking import answer, perform
from forebay.admin.forebay.answers import EMPTY, LIST, OBJECT, answers, fields
from forebay.admin.forebay.queues import First, Limit, Offset
from forebay.admin.http.answer import as_json
from forebay.admin.http.exact import Exact
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Asker, Broker
from forebay.management.arguments import LIMIT_DEFAULT, LIMIT_MAX

router = APIRouter(prefix="/api/forebay", tags=["forebay"])

Queue = Annotated[str | None, Query(description="Only those of this queue.")]
GroupName = Annotated[str, Path(description="The group's name, or name@filter, percent-encoded.")]
IfUnused = Annotated[
    bool, Query(alias="if-unused", description="False: although it has consumers, which are cancelled.")
]
Key = Annotated[str, Path(description="The key that its publisher gave it, or its number.")]


class Seek(Exact):
    """The place to go on reading."""

    to: str = Field(
        description="first, last, next, an offset, timestamp=<milliseconds since 1970>, or 90m for a time ago."
    )


@router.get("/groups/{vhost:name}", responses=LIST)
async def list_groups(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    queue: Queue = None,
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
) -> Response:
    """The groups of a vhost's queues, with how far they are: of kind work, stream or reader."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "from": first, "limit": limit}
    return await answer(app, caller, "group.list", values)


@router.post("/groups/{vhost:name}/{queue:name}/{group:name}/seek", responses=answers(fields(offset="integer")))
async def seek_group(
    app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, group: GroupName, seek: Seek
) -> Response:
    """Have a stream group go on reading from somewhere else."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "group": group, "to": seek.to}
    return await answer(app, caller, "group.seek", values)


@router.delete("/groups/{vhost:name}/{queue:name}/{group:name}", responses=EMPTY)
async def delete_group(
    app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, group: GroupName, if_unused: IfUnused = True
) -> Response:
    """Take a work or stream group away: what only it still wanted goes."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "group": group, "if_unused": if_unused}
    return await answer(app, caller, "group.delete", values)


@router.delete("/groups/{vhost:name}/{queue:name}/{group:name}/hold", responses=EMPTY)
async def release_group(app: Broker, caller: Asker, vhost: VhostName, queue: QueueName, group: GroupName) -> Response:
    """End the hold of a group of kind reader: what only it keeps goes."""
    return await answer(app, caller, "group.release", {"vhost": vhost, "queue": queue, "group": group})


@router.get("/leases/{vhost:name}", responses=LIST)
async def list_leases(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    queue: Queue = None,
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
) -> Response:
    """The messages that consumers hold, since when they were given them and until when."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "from": first, "limit": limit}
    return await answer(app, caller, "lease.list", values)


@router.delete("/leases/{vhost:name}/{queue:name}/{offset}", responses=EMPTY)
async def release_lease(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    queue: QueueName,
    offset: Offset,
    group: Annotated[str, Query(description="The group, if it has a name.")] = "",
) -> Response:
    """Take a message back from the consumer that holds it."""
    values: dict[str, object] = {"vhost": vhost, "queue": queue, "offset": offset, "group": group}
    return await answer(app, caller, "lease.release", values)


@router.get("/delayed/{vhost:name}", responses=LIST)
async def list_delayed(
    app: Broker, caller: Asker, vhost: VhostName, first: First = 0, limit: Limit = LIMIT_DEFAULT
) -> Response:
    """The messages that wait for their time, in the order in which they will be published."""
    return await answer(app, caller, "delayed.list", {"vhost": vhost, "from": first, "limit": limit})


@router.delete("/delayed/{vhost:name}/{key:name}", responses=EMPTY)
async def cancel_delayed(app: Broker, caller: Asker, vhost: VhostName, key: Key) -> Response:
    """Forget a message that waits."""
    return await answer(app, caller, "delayed.cancel", {"vhost": vhost, "name": key})


@router.post("/delayed/{vhost:name}/{key:name}/publish", responses=answers(fields(routed="boolean")))
async def publish_delayed(app: Broker, caller: Asker, vhost: VhostName, key: Key) -> Response:
    """Publish a message that waits at once."""
    return await answer(app, caller, "delayed.publish", {"vhost": vhost, "name": key})


@router.get("/transactions/{vhost:name}", responses=LIST)
async def list_transactions(
    app: Broker, caller: Asker, vhost: VhostName, first: First = 0, limit: Limit = LIMIT_DEFAULT
) -> Response:
    """The queries that publish in transactions: the last batch of each, and what waits for a commit."""
    return await answer(app, caller, "transaction.list", {"vhost": vhost, "from": first, "limit": limit})


@router.get("/pipelines/{vhost:name}", responses=OBJECT)
async def list_pipelines(app: Broker, caller: Asker, vhost: VhostName) -> Response:
    """Spark's queries: `readers` of queues with their lag and how long their hold lasts, and `sinks` that publish."""
    page: dict[str, object] = {"vhost": vhost, "limit": LIMIT_MAX}
    readers: list[object] = []
    while True:
        groups = await perform(app, caller, "group.list", page)
        items = groups["items"]
        assert isinstance(items, list)
        readers += [each for each in items if each["kind"] == "reader"]
        if "next" not in groups:
            break
        page["from"] = groups["next"]
    sinks = await perform(app, caller, "transaction.list", {"vhost": vhost, "limit": LIMIT_MAX})
    return as_json({"readers": readers, "sinks": sinks["items"]})
