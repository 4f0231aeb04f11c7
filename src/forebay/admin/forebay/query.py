"""POST /api/forebay/queues/<vhost>/<queue>/query: a query of a queue's messages, with turns of the broker between."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import asdict
from starlette.responses import Response

from forebay.admin.asking import SCAN_SLICE, given_of, run
from forebay.admin.forebay.operation_routes import body_of, path_field, responses_of
from forebay.admin.http.answer import as_json
from forebay.admin.login import Asker, Broker
from forebay.admin.web.bodies import Exact
from forebay.admin.web.inputs import Inputs, provided_by
from forebay.admin.web.router import RouteGroup
from forebay.management.table import OPERATIONS

QUERY: Final = OPERATIONS["queue.query"]
IN_PATH: Final = ("vhost", "queue")
OWN: Final = ("running", "scan")  # arguments that this route gives itself
router = RouteGroup(prefix="/api/forebay/queues/{vhost:name}/{queue:octets}", tags=["forebay"])


def query_inputs() -> Inputs:
    """Return what the route takes: the queue in the path, and the query in the body."""

    async def query_queue(app: Broker, caller: Asker, vhost: str, queue: bytes, body: Exact | None = None) -> Response:
        given = given_of({"vhost": vhost, "queue": queue, **({} if body is None else asdict(body))})
        fields = await run(app, caller, QUERY.name, {**given, "scan": SCAN_SLICE})
        while "running" in fields:
            await asyncio.sleep(0)
            going = {"vhost": vhost, "queue": queue, "running": fields["running"], "scan": SCAN_SLICE}
            fields = await run(app, caller, QUERY.name, going)
        return as_json(fields)

    inputs = Inputs(query_queue, provided=[provided_by("app", Broker), provided_by("caller", Asker)])
    parameters = {each.name: each for each in QUERY.parameters}
    inputs.fields = [path_field(parameters[name], name) for name in IN_PATH]
    inputs.body = body_of(QUERY, [each for name, each in parameters.items() if name not in IN_PATH + OWN])
    inputs.body_default = None
    return inputs


router.add(
    "/query",
    query_inputs,
    ["POST"],
    name="queue_query",
    description=QUERY.doc,
    responses=responses_of(QUERY),
)
