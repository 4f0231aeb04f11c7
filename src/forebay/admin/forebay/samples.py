"""/api/forebay/...samples: what charts show, of the node, a queue or a connection, from before they were looked at."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from forebay.admin.forebay.answers import answers
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Broker
from forebay.admin.rabbitmq.clients.connections import ConnectionName, find_connection
from forebay.admin.rights import Manager, Monitor, check_vhost
from forebay.admin.samples.lines import DAY_S, FAST_S_MAX, lines
from forebay.admin.samples.rates import BROKER_KEPT, CONNECTION_KEPT, NODE_KEPT, QUEUE_KEPT
from forebay.admin.samples.windows import Sampled
from forebay.admin.web.fields import Query
from forebay.admin.web.router import RouteGroup

router = RouteGroup(prefix="/api/forebay", tags=["metrics"])

Age = Annotated[
    int,
    Query(ge=1, le=DAY_S, description="Seconds back: up to 600 a sample every 5 seconds, beyond every 5 minutes."),
]
After = Annotated[int, Query(ge=0, le=1 << 50, description="Only samples after this time, milliseconds since 1970.")]
SAMPLES = answers({"type": "object", "properties": {"step_s": {"type": "integer"}}, "required": ["step_s"]})


@router.get("/samples", responses=SAMPLES)
async def show_samples(
    app: Broker, caller: Monitor, rates: Sampled, age: Age = FAST_S_MAX, after: After = 0
) -> Response:
    """The node's samples: messages, octets, memory, disk, connections, and the times of confirms and deliveries."""
    return as_json(lines(rates, [(rates.broker, BROKER_KEPT), (rates.node, NODE_KEPT)], age, after))


@router.get("/queues/{vhost:name}/{queue:octets}/samples", responses=SAMPLES)
async def show_queue_samples(
    app: Broker,
    caller: Manager,
    vhost: VhostName,
    queue: QueueName,
    rates: Sampled,
    age: Age = FAST_S_MAX,
    after: After = 0,
) -> Response:
    """A queue's samples: messages in and out, its length and size, and how many messages died and of what."""
    found = check_vhost(app, caller, vhost).catalog.queue(queue)
    return as_json(lines(rates, [(rates.queue_series(found), QUEUE_KEPT)], age, after))


@router.get("/connections/{connection:name}/samples", responses=SAMPLES)
async def show_connection_samples(
    app: Broker, caller: Manager, connection: ConnectionName, rates: Sampled, age: Age = FAST_S_MAX, after: After = 0
) -> Response:
    """A connection's samples: octets, and of AMQP clients messages."""
    series = rates.connections.get(find_connection(app, caller, connection))
    return as_json(lines(rates, [(series, CONNECTION_KEPT)], age, after))
