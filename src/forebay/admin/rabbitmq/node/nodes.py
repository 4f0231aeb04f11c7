"""/api/nodes: this node, and in a cluster all members, whether they run or not."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import NodeName
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import MEMORY, NODES, ONE_NODE
from forebay.admin.rabbitmq.node.members import Nodes, check_node
from forebay.admin.rabbitmq.node.node import node_fields, own_node
from forebay.admin.rights import Monitor
from forebay.admin.samples.rates import RateSamples
from forebay.admin.samples.samples import Windows
from forebay.admin.samples.windows import Asked, Sampled
from forebay.admin.web.fields import Query
from forebay.admin.web.router import RouteGroup
from forebay.core.units import US_PER_MS
from forebay.server.broker_view import BrokerView
from forebay.server.system.heap import resident_octets

router = RouteGroup(prefix="/api", tags=["nodes"])


@router.get("/nodes", responses=NODES)
async def list_nodes(app: Broker, caller: Monitor, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """The nodes: this one, and in a cluster all members."""
    nodes = Nodes(app)

    def make(name: str) -> dict[str, object]:
        return any_node_fields(app, rates, asked, name, nodes.members.get(name, {}))

    return await answer_list(nodes.all, str, make, wanted)


@router.get("/nodes/{node:name}", responses=ONE_NODE)
async def show_node(
    app: Broker,
    caller: Monitor,
    rates: Sampled,
    node: NodeName,
    wanted: Wanted,
    asked: Asked,
    memory: Annotated[bool, Query(description="With what its memory is used for.")] = False,
) -> Response:
    """One node; with `memory` what its memory is used for, too."""
    member = check_node(app, node)
    fields = any_node_fields(app, rates, asked, node, member)
    if memory:
        fields["memory"] = memory_of(app, node)
    return answer_one(fields, wanted)


@router.get("/nodes/{node:name}/memory", responses=MEMORY)
async def show_memory(app: Broker, caller: Monitor, node: NodeName) -> Response:
    """The memory of a node, by use."""
    check_node(app, node)
    return as_json({"memory": memory_of(app, node)})


@router.get("/nodes/{node:name}/memory/relative", responses=MEMORY)
async def show_relative_memory(app: Broker, caller: Monitor, node: NodeName) -> Response:
    """The memory of a node, by use, in percent of all; 1 for anything that is there and less."""
    check_node(app, node)
    if node != own_node(app):
        return as_json({"memory": memory_of(app, node)})
    fields = memory_fields(app)
    total = resident_octets()
    shares = {name: percentage(octets, total) for name, octets in fields.items() if isinstance(octets, int)}
    return as_json({"memory": {"total": 100, **shares}})


def percentage(part: int, total: int) -> int:
    """The share in percent as RabbitMQ rounds it: what is there at all is at least 1."""
    return max(round(100 * part / total), 1 if part else 0)


def any_node_fields(
    app: BrokerView, rates: RateSamples, asked: Windows, name: str, member: dict[str, object]
) -> dict[str, object]:
    """A node's fields: this node in full, another as far as it tells of itself; the cluster's are of our own."""
    if name == own_node(app):
        fields = node_fields(app, rates, asked)
    else:
        fields = {"name": name, "type": "disc", "running": member["running"], "being_drained": False, "partitions": []}
        known = {"mem_used": "memory_octets", "disk_free": "disk_free_octets"}
        fields |= {field: member[key] for field, key in known.items() if member[key] is not None}
        started_ms = member["started_ms"]
        if isinstance(started_ms, int) and member["running"]:
            fields["uptime"] = app.clock.now_us() // US_PER_MS - started_ms
    if member:
        fields["forebay"] = {key: value for key, value in member.items() if key not in {"node", "running"}}
    return fields


def memory_of(app: BrokerView, node: str) -> object:
    """A node's memory by use, RabbitMQ's word for another one's."""
    return memory_fields(app) if node == own_node(app) else "not_available"


def memory_fields(app: BrokerView) -> dict[str, object]:
    """The memory of this process, as far as it is known: blocks that logs keep, what waits for the disk, and all."""
    resident = resident_octets()
    log = app.readings.log()
    return {
        "strategy": "rss",
        "total": {"rss": resident, "allocated": resident},
        "msg_index": 0,
        "binary": log.cache_octets,
        "queue_procs": log.pending_octets,
        "other_proc": max(0, resident - log.cache_octets - log.pending_octets),
    }
