"""/api/nodes: the one node."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import NodeName
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import MEMORY, NODES, ONE_NODE
from forebay.admin.rabbitmq.node.node import NODE, check_node, node_facts
from forebay.admin.rights import Monitor
from forebay.admin.samples.windows import Asked, Sampled
from forebay.server.app import App
from forebay.server.heap import resident_octets

router = APIRouter(prefix="/api", tags=["nodes"])


@router.get("/nodes", responses=NODES)
async def list_nodes(app: Broker, caller: Monitor, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """The nodes: this one."""
    return await answer_list([app], lambda _: NODE, lambda node: node_facts(node, rates, asked), wanted)


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
    check_node(node)
    facts = node_facts(app, rates, asked)
    if memory:
        facts["memory"] = memory_facts(app)
    return answer_one(facts, wanted)


@router.get("/nodes/{node:name}/memory", responses=MEMORY)
async def show_memory(app: Broker, caller: Monitor, node: NodeName) -> Response:
    """The memory of a node, by use."""
    check_node(node)
    return as_json({"memory": memory_facts(app)})


def memory_facts(app: App) -> dict[str, object]:
    """The memory of this process, as far as it is known: blocks that logs keep, what waits for the disk, and all."""
    resident = resident_octets()
    cached = int(app.store.logs.cache.octets)
    pending = int(app.store.pending())
    return {
        "strategy": "rss",
        "total": {"rss": resident, "allocated": resident},
        "msg_index": 0,
        "binary": cached,
        "queue_procs": pending,
        "other_proc": max(0, resident - cached - pending),
    }
