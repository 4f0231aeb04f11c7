"""/api/queues/quorum and /api/rebalance: what RabbitMQ does with the members of single queues.

In a cluster every durable queue is on every member, and one of them leads all. So what asks for a member more is done
already, and what asks for one less, or for other leaders, is refused with what to do instead.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from forebay.admin.changing import CHANGED, DONE_STATUS, noted
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import NodeName, QueueName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import GrowBody, ReplicaBody
from forebay.admin.openapi.shapes import answers
from forebay.admin.rabbitmq.node.members import Nodes, check_node, member_named
from forebay.admin.rights import Administrator, Manager, check_vhost
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import PRECONDITION, RequestError
from forebay.queue.queue import QUORUM, Queue
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

ACCEPTED: Final = 202
SHRUNK: Final[dict[int | str, dict[str, object]]] = {ACCEPTED: {"description": "No queue is there."}}
STATUS = answers(list[dict[str, Any]], "Of each member its log, as far as it is known.")
STRATEGIES: Final = ("all", "even")
RAFT_STATES: Final = {"leader": "leader", "follower": "follower", "learner": "follower"}
router = RouteGroup(prefix="/api", tags=["cluster"], around=noted)


def quorum_queue(app: BrokerView, caller: Manager, vhost: str, name: bytes) -> Queue:
    """A quorum queue; RequestError where there is none of this name, or it is of another type."""
    queue = check_vhost(app, caller, vhost).catalog.queue(name)
    if queue.kind != QUORUM:
        raise RequestError(
            PRECONDITION, f"queue: '{text(queue.name)}' is of type {queue.spec.type}, and no quorum queue"
        )
    return queue


@router.get("/queues/quorum/{vhost:name}/{queue:octets}/status", responses=STATUS)
async def show_quorum_status(app: Broker, caller: Manager, vhost: VhostName, queue: QueueName) -> Response:
    """The members of a quorum queue: the log that they have of it is that of the node, so frames are counted."""
    quorum_queue(app, caller, vhost, queue)
    cluster = app.control.cluster
    nodes = Nodes(app)
    if cluster is None:
        log = app.readings.log()
        return as_json([log_fields(nodes.own, "leader", "voter", log.last, log.last, log.durable, 0)])
    status = cluster.status()
    end, committed, term = (status[each] for each in ("frame", "committed", "epoch"))
    assert isinstance(end, int)
    found = []
    for name, member in nodes.members.items():
        behind = member["frames_behind"]
        last = end - behind if isinstance(behind, int) else -1
        state = RAFT_STATES[str(member["role"])] if name in nodes.running else "noproc"
        membership = "voter" if member["in_sync"] else "promotable"
        found.append(log_fields(name, state, membership, last, last, committed, term))
    return as_json(found)


def log_fields(
    node: str, state: str, membership: str, last: int, written: int, committed: object, term: object
) -> dict[str, object]:
    """A member in the words of RabbitMQ's answer; -1 where nobody knows."""
    return {
        "Node Name": node,
        "Raft State": state,
        "Membership": membership,
        "Last Log Index": last,
        "Last Written": written,
        "Last Applied": committed if state == "leader" else -1,
        "Commit Index": committed,
        "Snapshot Index": -1,
        "Term": term,
        "Machine Version": 0,
    }


@router.post("/queues/quorum/{vhost:name}/{queue:octets}/replicas/add", status=DONE_STATUS, responses=CHANGED)
async def add_replica(
    app: Broker, caller: Administrator, vhost: VhostName, queue: QueueName, body: ReplicaBody
) -> Response:
    """Do nothing, as every queue is on every member; 400 for a node that is none."""
    quorum_queue(app, caller, vhost, queue)
    if body.node not in Nodes(app).all:
        raise RequestError(
            PRECONDITION,
            f"node: '{body.node}' is no member; a node that starts with this cluster in its configuration "
            "becomes one, and has every queue",
        )
    return Response(status_code=DONE_STATUS)


@router.delete("/queues/quorum/{vhost:name}/{queue:octets}/replicas/delete", status=ACCEPTED, responses=SHRUNK)
async def delete_replica(
    app: Broker, caller: Administrator, vhost: VhostName, queue: QueueName, body: ReplicaBody
) -> Response:
    """Refused for a member, as every queue is on every member; of another node there is nothing to take away."""
    quorum_queue(app, caller, vhost, queue)
    if body.node in Nodes(app).all:
        raise keeps_all(app, body.node, f"queue '{text(queue)}'")
    return Response(status_code=ACCEPTED)


@router.post("/queues/quorum/replicas/on/{node:name}/grow", status=DONE_STATUS, responses=CHANGED)
async def grow(app: Broker, caller: Administrator, node: NodeName, body: GrowBody) -> Response:
    """Do nothing, as every queue is on every member; 404 for a node that is none."""
    check_node(app, node)
    if body.strategy not in STRATEGIES:
        raise RequestError(PRECONDITION, f"strategy: '{body.strategy}' is none of {', '.join(STRATEGIES)}")
    return Response(status_code=DONE_STATUS)


@router.delete("/queues/quorum/replicas/on/{node:name}/shrink", status=ACCEPTED, responses=SHRUNK)
async def shrink(app: Broker, caller: Administrator, node: NodeName) -> Response:
    """Refused for a member, which has every queue or none; 404 for a node that is none."""
    check_node(app, node)
    raise keeps_all(app, node, "a queue")


@router.post("/rebalance/queues", status=DONE_STATUS, responses=CHANGED)
async def rebalance_queues(app: Broker, caller: Administrator) -> Response:
    """Do nothing on a single broker; refuse in a cluster, where one node leads all queues."""
    nodes = Nodes(app)
    if nodes.clustered:
        raise RequestError(
            PRECONDITION,
            f"queues: all have one leader, '{nodes.own}', so there is nothing to spread; "
            "forebay cluster transfer NODE has another node lead them all",
        )
    return Response(status_code=DONE_STATUS)


def keeps_all(app: BrokerView, node: str, what: str) -> RequestError:
    """The refusal to take one queue from a member."""
    if app.control.cluster is None:
        return RequestError(PRECONDITION, f"node: '{node}' is the only one there is, and keeps {what}")
    return RequestError(
        PRECONDITION,
        f"node: '{node}' cannot be without {what}: a member has every queue. "
        f"forebay cluster remove {member_named(node)} takes it out of the cluster with all of them",
    )
