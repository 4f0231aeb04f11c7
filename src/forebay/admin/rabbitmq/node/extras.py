"""Other requests of RabbitMQ's tools: the cluster's name, hashes of passwords, what a single node need not do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
from starlette.responses import Response

from forebay.admin.changing import CHANGED, DONE_STATUS, changed, noted
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import NodeName, Password
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import NameBody
from forebay.admin.openapi.shapes import EFFECTIVE, answers
from forebay.admin.rabbitmq.node.members import check_node
from forebay.admin.rabbitmq.node.node import own_node
from forebay.admin.rabbitmq.users import kept_hash
from forebay.admin.rights import Administrator, Manager, Monitor
from forebay.admin.web.router import RouteGroup
from forebay.directory.parameters import CLUSTER_NAME

ATTEMPTS = answers(list[dict[str, Any]], "Logins.")
router = RouteGroup(prefix="/api", tags=["broker"], around=noted)


@router.put("/cluster-name", status=DONE_STATUS, responses=CHANGED)
async def put_cluster_name(broker: Broker, caller: Administrator, body: NameBody) -> Response:
    """Give the broker a name for people, which tools show."""
    return await changed(broker, caller, "global_parameter.set", {"name": CLUSTER_NAME, "value": body.name})


@router.get("/config/effective", is_plain=True, responses=EFFECTIVE)
async def show_effective_config(broker: Broker, caller: Administrator) -> Response:
    """The options in force as text, a line each: name, value in JSON (no secrets), and where it was set."""
    configuration = broker.control.configuration
    shown = [] if configuration is None else configuration.shown()
    lines = [f"{each['name']} = {orjson.dumps(each['value']).decode()}  # {each['origin']}\n" for each in shown]
    return Response("".join(lines), media_type="text/plain")


@router.get("/auth/hash_password/{password:name}")
async def hash_of_password(broker: Broker, caller: Manager, password: Password) -> Response:
    """The hash of a password, as users are made with (`password_hash`); its algorithm is forebay_argon2id."""
    return as_json({"ok": await kept_hash(password, None, None)})


@router.get("/auth/attempts/{node:name}", responses=ATTEMPTS)
async def list_attempts(broker: Broker, caller: Monitor, node: NodeName) -> Response:
    """Logins since the broker's start, by protocol: how many there were, and how many were right."""
    check_node(broker, node)
    if node != own_node(broker):
        return as_json([])  # clients log in at the one that leads
    clients = broker.readings.clients()
    right, wrong = Counter(clients.logins), Counter(clients.refused_logins)
    return as_json(
        [
            {
                "protocol": protocol,
                "auth_attempts": right[protocol] + wrong[protocol],
                "auth_attempts_failed": wrong[protocol],
                "auth_attempts_succeeded": right[protocol],
            }
            for protocol in sorted({*right, *wrong})
        ]
    )


@router.get("/auth/attempts/{node:name}/source", responses=ATTEMPTS)
async def list_attempts_by_source(broker: Broker, caller: Monitor, node: NodeName) -> Response:
    """Do nothing: the log says where wrong logins come from, and whoever goes on guessing waits."""
    check_node(broker, node)
    return as_json([])


@router.delete("/auth/attempts/{node:name}/source", status=DONE_STATUS, responses=CHANGED)
@router.delete("/auth/attempts/{node:name}", status=DONE_STATUS, responses=CHANGED)
async def reset_attempts(broker: Broker, caller: Administrator, node: NodeName) -> Response:
    """Do nothing: counters go from the broker's start on."""
    check_node(broker, node)
    return Response(status_code=DONE_STATUS)


@router.delete("/reset", status=DONE_STATUS, responses=CHANGED)
async def reset(broker: Broker, caller: Administrator) -> Response:
    """Do nothing: counters go from the broker's start on, so that rates stay right."""
    return Response(status_code=DONE_STATUS)


@router.delete("/reset/{node:name}", status=DONE_STATUS, responses=CHANGED)
async def reset_node(broker: Broker, caller: Administrator, node: NodeName) -> Response:
    """Do nothing, as for all nodes."""
    check_node(broker, node)
    return Response(status_code=DONE_STATUS)
