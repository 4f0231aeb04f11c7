"""Which role may do what over HTTP: one table of all paths and operations, asked for by each role.

A path or operation that is not in the table fails the test: whoever adds one says here who may use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import httpx
import pytest

from forebay.admin.api import all_routes
from forebay.management.table import OPERATIONS
from tests.broker_process import BrokerProcess, running
from tests.password_hash import password_hash

VHOST = "v"
SOMEBODY = {"password_hash": password_hash("p"), "tags": ""}
NOTHING = {"configure": "^$", "write": "^$", "read": "^$"}
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
# Name of each user, its tag, and what it may do in the vhost; None: it may not enter.
ROLES: Final[dict[str, tuple[str, dict[str, str] | None]]] = {
    "client": ("", EVERYTHING),
    "outsider": ("management", None),
    "looker": ("management", NOTHING),
    "reader": ("management", {**NOTHING, "read": ".*"}),
    "writer": ("management", {**NOTHING, "write": ".*"}),
    "maker": ("management", {**NOTHING, "configure": ".*"}),
    "policer": ("policymaker", EVERYTHING),
    "monitor": ("monitoring", None),
    "admin": ("administrator", None),
}
NOT_LOGGED_IN: Final = "stranger"
ALL: Final = frozenset({NOT_LOGGED_IN, *ROLES})
TAGGED: Final = frozenset(ROLES) - {"client"}
ENTERING: Final = TAGGED - {"outsider"}  # who sees the vhost
MONITORS: Final = frozenset({"monitor", "admin"})
POLICERS: Final = frozenset({"policer", "admin"})
ADMINS: Final = frozenset({"admin"})
# As a client may: seeing is not entering, so that neither tag helps.
READERS: Final = frozenset({"reader", "policer"})
WRITERS: Final = frozenset({"writer", "policer"})
MAKERS: Final = frozenset({"maker", "policer"})
BINDERS: Final = frozenset({"policer"})  # write on one side, read on the other
READERS_OR_ADMIN: Final = READERS | ADMINS
MAKERS_OR_ADMIN: Final = MAKERS | ADMINS
MOVERS: Final = BINDERS | ADMINS

TABLE: Final[dict[str, frozenset[str]]] = {
    # ---- the page, and what anybody may ask
    "GET /": ALL,
    "GET /ui/{version}/{name}": ALL,
    "GET /favicon.ico": ALL,
    "GET /health": ALL,
    "GET /ready": ALL,
    "POST /api/logout": ALL,
    "DELETE /api/login": ALL,
    "GET /api/auth": ALL,
    "GET /api/whoami": TAGGED,
    # ---- the bridge: clients, with or without a tag
    "POST /publish/{topic}": WRITERS | {"client"},
    "POST /publish": WRITERS | {"client"},
    "GET /subscribe/{filter}": READERS | {"client"},
    "POST /ack": READERS | {"client"},
    # ---- figures
    "GET /metrics": MONITORS,
    "GET /metrics/per-object": MONITORS,
    "GET /metrics/detailed": MONITORS,
    "GET /api/forebay/stats": MONITORS,
    "GET /api/forebay/samples": MONITORS,
    "GET /api/forebay/queues/{vhost}/{queue}/samples": ENTERING,
    "GET /api/forebay/connections/{connection}/samples": TAGGED,  # of a connection that is not there
    "GET /api/forebay/config": ADMINS,
    "POST /api/forebay/reload": ADMINS,
    "GET /api/forebay/webhooks": ADMINS,
    "GET /api/forebay/operations": TAGGED,
    # ---- messages and groups
    "GET /api/forebay/queues/{vhost}/{queue}/messages": READERS_OR_ADMIN,
    "GET /api/forebay/queues/{vhost}/{queue}/messages/{offset}": READERS_OR_ADMIN,
    "GET /api/forebay/queues/{vhost}/{queue}/tail": READERS_OR_ADMIN,
    "DELETE /api/forebay/queues/{vhost}/{queue}/messages": READERS_OR_ADMIN,
    "POST /api/forebay/queues/{vhost}/{queue}/settle": READERS_OR_ADMIN,
    "POST /api/forebay/queues/{vhost}/{queue}/query": READERS_OR_ADMIN,
    "POST /api/forebay/queues/{vhost}/{queue}/redeliver": READERS_OR_ADMIN,
    "POST /api/forebay/queues/{vhost}/{queue}/pause": MAKERS_OR_ADMIN,
    "POST /api/forebay/queues/{vhost}/{queue}/resume": MAKERS_OR_ADMIN,
    "POST /api/forebay/queues/{vhost}/{queue}/move": MOVERS,
    "GET /api/forebay/queues/{vhost}/{queue}/log": ENTERING,
    "GET /api/forebay/queues/{vhost}/{queue}/offset": ENTERING,
    "GET /api/forebay/queues/{vhost}/{queue}/unsettled": ENTERING,
    "GET /api/forebay/dead-letters/{vhost}": ENTERING,
    "GET /api/forebay/dead-letters/{vhost}/{queue}": READERS_OR_ADMIN,
    "POST /api/forebay/dead-letters/{vhost}/{queue}/redrive": ADMINS,
    "PATCH /api/forebay/dead-letters/{vhost}/{queue}/{offset}": ADMINS,
    "GET /api/forebay/groups/{vhost}": ENTERING,
    "POST /api/forebay/groups/{vhost}/{queue}/{group}/seek": READERS_OR_ADMIN,
    "POST /api/forebay/groups/{vhost}/{queue}/{group}/pause": MAKERS_OR_ADMIN,
    "POST /api/forebay/groups/{vhost}/{queue}/{group}/resume": MAKERS_OR_ADMIN,
    "DELETE /api/forebay/groups/{vhost}/{queue}/{group}": MAKERS_OR_ADMIN,
    "DELETE /api/forebay/groups/{vhost}/{queue}/{group}/hold": ADMINS,
    "GET /api/forebay/leases/{vhost}": ENTERING,
    "DELETE /api/forebay/leases/{vhost}/{queue}/{offset}": READERS_OR_ADMIN,
    "POST /api/forebay/leases/{vhost}/{queue}/{offset}/extend": READERS_OR_ADMIN,
    "GET /api/forebay/delayed/{vhost}": ENTERING,
    "DELETE /api/forebay/delayed/{vhost}/{key}": ADMINS,
    "POST /api/forebay/delayed/{vhost}/{key}/publish": ADMINS,
    "GET /api/forebay/transactions/{vhost}": ENTERING,
    "GET /api/forebay/pipelines/{vhost}": ENTERING,
    "GET /api/forebay/sessions/{vhost}": ENTERING,
    "GET /api/forebay/sessions/{vhost}/{client_id}": ENTERING,
    "GET /api/forebay/sessions/{vhost}/{client_id}/messages": ADMINS,
    "DELETE /api/forebay/sessions/{vhost}/{client_id}/connection": ADMINS,
    "DELETE /api/forebay/sessions/{vhost}/{client_id}": ADMINS,
    "GET /api/forebay/subscriptions/{vhost}": ENTERING,
    "GET /api/forebay/retained/{vhost}": ENTERING,
    "GET /api/forebay/retained/{vhost}/message": ADMINS,
    "DELETE /api/forebay/retained/{vhost}/message": ADMINS,
    "GET /api/forebay/explain": READERS_OR_ADMIN,
    "GET /api/forebay/history": READERS_OR_ADMIN,
    "GET /api/forebay/traces/{vhost}": ADMINS,
    "GET /api/forebay/traces/{vhost}/{trace}": ADMINS,
    "PUT /api/forebay/traces/{vhost}/{trace}": ADMINS,
    "DELETE /api/forebay/traces/{vhost}/{trace}": ADMINS,
    # ---- RabbitMQ's, of the broker
    "GET /api/overview": TAGGED,
    "GET /api/cluster-name": TAGGED,
    "PUT /api/cluster-name": ADMINS,
    "GET /api/nodes": MONITORS,
    "GET /api/nodes/{node}": MONITORS,
    "GET /api/nodes/{node}/memory": MONITORS,
    "GET /api/extensions": TAGGED,
    "GET /api/feature-flags": TAGGED,
    "GET /api/deprecated-features": TAGGED,
    "GET /api/deprecated-features/used": TAGGED,
    "GET /api/healthchecks/node": TAGGED,
    "GET /api/healthchecks/node/{node}": TAGGED,
    "GET /api/health/checks/alarms": TAGGED,
    "GET /api/health/checks/local-alarms": TAGGED,
    "GET /api/health/checks/certificate-expiration/{within}/{unit}": TAGGED,
    "GET /api/health/checks/port-listener/{port}": TAGGED,
    "GET /api/health/checks/protocol-listener/{protocol}": TAGGED,
    "GET /api/health/checks/virtual-hosts": TAGGED,
    "GET /api/health/checks/node-is-quorum-critical": TAGGED,
    "GET /api/health/checks/is-in-service": ALL,
    "GET /api/health/checks/below-node-connection-limit": ALL,
    "GET /api/health/checks/ready-to-serve-clients": ALL,
    "GET /api/health/checks/reached-target-cluster-size": ALL,
    "GET /api/health/checks/metadata-store/initialized": TAGGED,
    "GET /api/health/checks/metadata-store/initialized/with-data": TAGGED,
    "GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts": TAGGED,
    "GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}": TAGGED,
    "GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}": ENTERING,
    "GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}": ENTERING,
    "GET /api/version": ALL,
    "GET /api/config/effective": ADMINS,
    "GET /api/nodes/{node}/memory/relative": MONITORS,
    "PUT /api/feature-flags/{flag}/enable": ADMINS,
    "GET /api/auth/hash_password/{password}": TAGGED,
    "GET /api/auth/attempts/{node}": MONITORS,
    "GET /api/auth/attempts/{node}/source": MONITORS,
    "DELETE /api/auth/attempts/{node}": ADMINS,
    "DELETE /api/auth/attempts/{node}/source": ADMINS,
    "POST /api/rebalance/queues": ADMINS,
    "GET /api/queues/quorum/{vhost}/{queue}/status": ENTERING,
    "POST /api/queues/quorum/{vhost}/{queue}/replicas/add": ADMINS,
    "DELETE /api/queues/quorum/{vhost}/{queue}/replicas/delete": ADMINS,
    "POST /api/queues/quorum/replicas/on/{node}/grow": ADMINS,
    "DELETE /api/queues/quorum/replicas/on/{node}/shrink": ADMINS,
    "DELETE /api/reset": ADMINS,
    "DELETE /api/reset/{node}": ADMINS,
    "GET /api/definitions": ADMINS,
    "GET /api/all-configuration": ADMINS,
    "POST /api/all-configuration": ADMINS,
    "POST /api/definitions": ADMINS,
    "GET /api/definitions/{vhost}": ADMINS,
    "POST /api/definitions/{vhost}": ADMINS,
    "GET /api/aliveness-test/{vhost}": ENTERING,
    # ---- RabbitMQ's, of connections: the lists have those that the caller may see
    "GET /api/connections": TAGGED,
    "GET /api/connections/username/{user}": TAGGED,
    "GET /api/channels": TAGGED,
    "GET /api/consumers": TAGGED,
    "GET /api/vhosts/{vhost}/connections": ENTERING,
    "GET /api/vhosts/{vhost}/channels": ENTERING,
    "GET /api/consumers/{vhost}": ENTERING,
    "GET /api/connections/{connection}": TAGGED,  # of a connection that is not there
    "GET /api/connections/{connection}/channels": TAGGED,
    "GET /api/connections/{connection}/sessions": TAGGED,
    "GET /api/channels/{channel}": TAGGED,
    "DELETE /api/connections/{connection}": TAGGED,
    "DELETE /api/connections/username/{user}": ADMINS,  # another's
    "GET /api/stream/connections": MONITORS,
    "GET /api/stream/connections/{vhost}": ENTERING,
    "GET /api/stream/consumers": TAGGED,
    "GET /api/stream/consumers/{vhost}": ENTERING,
    "GET /api/stream/publishers": TAGGED,
    "GET /api/stream/publishers/{vhost}": ENTERING,
    "GET /api/stream/publishers/{vhost}/{queue}": ENTERING,
    "GET /api/shovels": MONITORS,
    "GET /api/shovels/{vhost}": ENTERING,
    "GET /api/federation-links": MONITORS,
    "GET /api/federation-links/{vhost}": ENTERING,
    "GET /api/federation-links/state/down": MONITORS,
    "GET /api/federation-links/{vhost}/state/down": ENTERING,
    # ---- RabbitMQ's, of what is declared
    "GET /api/queues": TAGGED,
    "GET /api/queues/detailed": TAGGED,
    "GET /api/queues/{vhost}": ENTERING,
    "GET /api/queues/{vhost}/{queue}": ENTERING,
    "GET /api/queues/{vhost}/{queue}/bindings": ENTERING,
    "PUT /api/queues/{vhost}/{queue}": MAKERS,
    "DELETE /api/queues/{vhost}/{queue}": MAKERS,
    "POST /api/queues/{vhost}/{queue}/get": READERS,
    "DELETE /api/queues/{vhost}/{queue}/contents": READERS,
    "POST /api/queues/{vhost}/{queue}/actions": READERS,
    "GET /api/exchanges": TAGGED,
    "GET /api/exchanges/{vhost}": ENTERING,
    "GET /api/exchanges/{vhost}/{exchange}": ENTERING,
    "GET /api/exchanges/{vhost}/{exchange}/bindings/source": ENTERING,
    "GET /api/exchanges/{vhost}/{exchange}/bindings/destination": ENTERING,
    "PUT /api/exchanges/{vhost}/{exchange}": MAKERS,
    "DELETE /api/exchanges/{vhost}/{exchange}": MAKERS,
    "POST /api/exchanges/{vhost}/{exchange}/publish": WRITERS,
    "GET /api/bindings": TAGGED,
    "GET /api/bindings/{vhost}": ENTERING,
    "GET /api/bindings/{vhost}/e/{source}/q/{queue}": ENTERING,
    "GET /api/bindings/{vhost}/e/{source}/e/{destination}": ENTERING,
    "GET /api/bindings/{vhost}/e/{source}/q/{queue}/{props}": ENTERING,
    "GET /api/bindings/{vhost}/e/{source}/e/{destination}/{props}": ENTERING,
    "POST /api/bindings/{vhost}/e/{source}/q/{queue}": BINDERS,
    "POST /api/bindings/{vhost}/e/{source}/e/{destination}": BINDERS,
    "DELETE /api/bindings/{vhost}/e/{source}/q/{queue}/{props}": BINDERS,
    "DELETE /api/bindings/{vhost}/e/{source}/e/{destination}/{props}": BINDERS,
    # ---- RabbitMQ's, of vhosts, users and what is set
    "GET /api/vhosts": TAGGED,
    "GET /api/vhosts/{vhost}": ENTERING,
    "PUT /api/vhosts/{vhost}": ADMINS,
    "DELETE /api/vhosts/{vhost}": ADMINS,
    "POST /api/vhosts/{vhost}/deletion/protection": ADMINS,
    "DELETE /api/vhosts/{vhost}/deletion/protection": ADMINS,
    "POST /api/vhosts/{vhost}/start/{node}": ADMINS,
    "GET /api/vhosts/{vhost}/permissions": ADMINS,
    "GET /api/vhosts/{vhost}/topic-permissions": ADMINS,
    "GET /api/users": ADMINS,
    "GET /api/users/without-permissions": ADMINS,
    "POST /api/users/bulk-delete": ADMINS,
    "GET /api/users/{user}": ADMINS,
    "PUT /api/users/{user}": ADMINS,
    "DELETE /api/users/{user}": ADMINS,
    "GET /api/users/{user}/permissions": ADMINS,
    "GET /api/users/{user}/queues": TAGGED,  # of vhosts that the caller may enter
    "GET /api/users/{user}/topic-permissions": ADMINS,
    "GET /api/permissions": ADMINS,
    "GET /api/permissions/{vhost}/{user}": ADMINS,
    "PUT /api/permissions/{vhost}/{user}": ADMINS,
    "DELETE /api/permissions/{vhost}/{user}": ADMINS,
    "GET /api/topic-permissions": ADMINS,
    "GET /api/topic-permissions/{vhost}/{user}": ADMINS,
    "PUT /api/topic-permissions/{vhost}/{user}": ADMINS,
    "DELETE /api/topic-permissions/{vhost}/{user}": ADMINS,
    "GET /api/topic-permissions/{vhost}/{user}/{exchange}": ADMINS,
    "PUT /api/topic-permissions/{vhost}/{user}/{exchange}": ADMINS,
    "DELETE /api/topic-permissions/{vhost}/{user}/{exchange}": ADMINS,
    "POST /api/forebay/policies/{vhost}/preview": POLICERS,
    "GET /api/policies": TAGGED,
    "GET /api/policies/{vhost}": ENTERING,
    "GET /api/policies/{vhost}/{policy}": ENTERING,
    "PUT /api/policies/{vhost}/{policy}": POLICERS,
    "DELETE /api/policies/{vhost}/{policy}": POLICERS,
    "GET /api/operator-policies": TAGGED,
    "GET /api/operator-policies/{vhost}": ENTERING,
    "GET /api/operator-policies/{vhost}/{policy}": ENTERING,
    "PUT /api/operator-policies/{vhost}/{policy}": ADMINS,
    "DELETE /api/operator-policies/{vhost}/{policy}": ADMINS,
    "GET /api/parameters": POLICERS,
    "GET /api/parameters/{component}": POLICERS,
    "GET /api/parameters/{component}/{vhost}": POLICERS,
    "GET /api/parameters/{component}/{vhost}/{parameter}": POLICERS,
    "PUT /api/parameters/{component}/{vhost}/{parameter}": POLICERS,
    "DELETE /api/parameters/{component}/{vhost}/{parameter}": POLICERS,
    "GET /api/global-parameters": POLICERS,
    "GET /api/global-parameters/{parameter}": POLICERS,
    "PUT /api/global-parameters/{parameter}": ADMINS,
    "DELETE /api/global-parameters/{parameter}": ADMINS,
    "GET /api/vhost-limits": TAGGED,
    "GET /api/vhost-limits/{vhost}": ENTERING,
    "PUT /api/vhost-limits/{vhost}/{limit}": ADMINS,
    "DELETE /api/vhost-limits/{vhost}/{limit}": ADMINS,
    "GET /api/user-limits": ADMINS,
    "GET /api/user-limits/{user}": ADMINS,  # another's
    "PUT /api/user-limits/{user}/{limit}": ADMINS,
    "DELETE /api/user-limits/{user}/{limit}": ADMINS,
}
WITHOUT_A_ROLE: Final = {"POST /api/login"}  # it takes credentials of its own

# What others than administrators may ask of /api/forebay/operations; the rest is for administrators.
OPERATIONS_TABLE: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(
        (
            *("consumer.list", "delayed.list", "dlq.list", "group.list", "lease.list", "queue.list", "queue.show"),
            *("queue.unsettled", "retained.list", "session.list", "session.show", "stream.offset", "stream.show"),
            *("subscription.list", "transaction.list"),
            *("binding.list", "exchange.list", "operator_policy.list", "policy.list"),
        ),
        ENTERING,
    ),
    **dict.fromkeys(
        (
            *("dlq.purge", "dlq.show", "group.commit", "group.seek", "lease.extend", "lease.release", "queue.settle"),
            *("message.explain", "queue.query", "queue.redeliver"),
            *("message.history", "message.show", "queue.discard", "queue.messages", "queue.purge", "queue.tail"),
        ),
        READERS_OR_ADMIN,
    ),
    "queue.move": MOVERS,
    **dict.fromkeys(
        (
            *("exchange.declare", "exchange.delete", "group.delete", "group.pause", "group.resume"),
            *("queue.declare", "queue.delete", "queue.pause", "queue.resume"),
        ),
        MAKERS_OR_ADMIN,
    ),
    **dict.fromkeys(("binding.add", "binding.delete"), MOVERS),
    **dict.fromkeys(("parameter.clear", "parameter.list", "parameter.set", "policy.clear", "policy.set"), POLICERS),
}
NAMES: Final = {
    "vhost": VHOST,
    "queue": "q",
    "exchange": "x",
    "source": "x",
    "destination": "y",
    "topic": "a",
    "filter": "a",
    "user": "somebody",
    "node": "forebay@localhost",
    "props": "k",
    "offset": "0",
    "group": "g",
    "key": "k",
    "client_id": "c",
    "trace": "t",
    "policy": "p",
    "component": "shovel",
    "pattern": "q.*",
    "flag": "quorum_queue",
    "parameter": "s",
    "limit": "max-queues",
    "connection": "none",
    "channel": "none (1)",
    "within": "1",
    "unit": "weeks",
    "port": "1",
    "protocol": "amqp",
    "password": "x",
    "version": "0",
    "name": "none.js",
}
QUERIES: Final = {
    "GET /api/forebay/queues/{vhost}/{queue}/offset": {"time_ms": "1"},
    "GET /api/forebay/retained/{vhost}/message": {"topic": "a"},
    "DELETE /api/forebay/retained/{vhost}/message": {"topic": "a"},
    "GET /api/forebay/explain": {"vhost": VHOST, "queue": "q", "offset": "0"},
    "GET /api/forebay/history": {"vhost": VHOST, "queue": "q", "offset": "0"},
    "POST /publish/{topic}": {"vhost": VHOST},
    "POST /publish": {"vhost": VHOST},
    "GET /subscribe/{filter}": {"vhost": VHOST},
    "POST /ack": {"vhost": VHOST},
}
BODIES: Final[dict[str, object]] = {
    "POST /publish": [{"topic": "a", "payload": ""}],
    "POST /ack": {"queue": "q", "offsets": [0]},
    "POST /api/forebay/queues/{vhost}/{queue}/settle": {},
    "POST /api/forebay/queues/{vhost}/{queue}/redeliver": {},
    "POST /api/forebay/queues/{vhost}/{queue}/move": {"exchange": "y"},
    "POST /api/forebay/groups/{vhost}/{queue}/{group}/seek": {"to": "first"},
    "PATCH /api/forebay/dead-letters/{vhost}/{queue}/{offset}": {},
    "PUT /api/cluster-name": {"name": "forebay"},
    "POST /api/definitions": {},
    "POST /api/all-configuration": {},
    "POST /api/definitions/{vhost}": {},
    "POST /api/queues/{vhost}/{queue}/get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
    "POST /api/queues/{vhost}/{queue}/actions": {"action": "sync"},
    "PUT /api/exchanges/{vhost}/{exchange}": {"type": "direct"},
    "POST /api/exchanges/{vhost}/{exchange}/publish": {
        "properties": {},
        "routing_key": "a",
        "payload": "",
        "payload_encoding": "string",
    },
    "POST /api/bindings/{vhost}/e/{source}/q/{queue}": {"routing_key": "k"},
    "POST /api/bindings/{vhost}/e/{source}/e/{destination}": {"routing_key": "k"},
    "POST /api/users/bulk-delete": {"users": []},
    "PUT /api/users/{user}": {"password": "p", "tags": ""},
    "PUT /api/permissions/{vhost}/{user}": NOTHING,
    "PUT /api/topic-permissions/{vhost}/{user}": {"exchange": "amq.topic", "write": "", "read": ""},
    "PUT /api/topic-permissions/{vhost}/{user}/{exchange}": {"exchange": "x", "write": "", "read": ""},
    "POST /api/forebay/policies/{vhost}/preview": {"name": "p", "pattern": "^none$"},
    "PUT /api/policies/{vhost}/{policy}": {"pattern": "^none$", "definition": {"max-length": 1}},
    "PUT /api/operator-policies/{vhost}/{policy}": {"pattern": "^none$", "definition": {"max-length": 1}},
    "PUT /api/parameters/{component}/{vhost}/{parameter}": {"value": {}},
    "PUT /api/global-parameters/{parameter}": {"value": {}},
    "PUT /api/vhost-limits/{vhost}/{limit}": {"value": 100},
    "PUT /api/user-limits/{user}/{limit}": {"value": 100},
}
ARGUMENTS: Final[dict[str, dict[str, object]]] = {
    "queue.move": {"vhost": VHOST, "queue": "q", "exchange": "y"},
    "config.reload": {},
    "exchange.declare": {"vhost": VHOST, "exchange": "x"},
    "exchange.delete": {"vhost": VHOST, "exchange": "x"},
    "binding.add": {"vhost": VHOST, "exchange": "x", "destination": "q"},
    "binding.delete": {"vhost": VHOST, "exchange": "x", "destination": "q"},
}
# An administrator who did these would take away what the others are asked with.
NOT_DONE: Final = {"DELETE /api/vhosts/{vhost}": ADMINS, "PUT /api/vhosts/{vhost}": ADMINS}
REFUSED: Final = (401, 403)
UNHEALTHY: Final = 503  # what a health check may answer


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("roles"), http="127.0.0.1:0") as broker:
        with client(broker, "guest") as http:
            assert http.put(f"/api/vhosts/{VHOST}").status_code == 201
            for name, (tag, permission) in ROLES.items():
                assert http.put(f"/api/users/{name}", json={"password": name, "tags": tag}).status_code == 201
                if permission is not None:
                    assert http.put(f"/api/permissions/{VHOST}/{name}", json=permission).status_code == 201
            prepare(http)
        yield broker


def client(broker: BrokerProcess, role: str) -> httpx.Client:
    auth = None if role == NOT_LOGGED_IN else (role, role)
    return httpx.Client(base_url=broker.http_url, auth=auth, timeout=60, verify=False)


@pytest.fixture(scope="module")
def clients(broker: BrokerProcess) -> Iterator[dict[str, httpx.Client]]:
    made = {role: client(broker, role) for role in ("guest", NOT_LOGGED_IN, *ROLES)}
    yield made
    for each in made.values():
        each.close()


def prepare(guest: httpx.Client) -> None:
    """Have everything be there that a request may name, and a message in the queue."""
    assert guest.put("/api/users/somebody", json=SOMEBODY).status_code in (201, 204)
    assert guest.put(f"/api/queues/{VHOST}/q", json={"durable": False}).status_code in (201, 204)
    for name in ("x", "y"):
        assert guest.put(f"/api/exchanges/{VHOST}/{name}", json={"type": "direct"}).status_code in (201, 204)
    for place in ("q/q", "e/y"):
        assert guest.post(f"/api/bindings/{VHOST}/e/x/{place}", json={"routing_key": "k"}).status_code == 201
    message = {"properties": {}, "routing_key": "k", "payload": "m", "payload_encoding": "string"}
    assert guest.post(f"/api/exchanges/{VHOST}/x/publish", json=message).json() == {"routed": True}


def send(http: httpx.Client, row: str) -> int:
    """The status of one request; of a stream of events only the head is awaited."""
    method, _, path = row.partition(" ")
    for name, value in NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path, row
    body = BODIES.get(row)
    with http.stream(method, path, params=QUERIES.get(row), json=body) as answer:
        return answer.status_code


def test_every_path_and_operation_is_in_the_table() -> None:
    rows = {f"{method} {route.path_format}" for route in all_routes().all for method in route.methods}
    rows = {row for row in rows if not row.startswith(("HEAD ", "POST /api/forebay/operations/"))}
    assert rows - WITHOUT_A_ROLE == set(TABLE)
    assert set(OPERATIONS_TABLE) <= set(OPERATIONS)


@pytest.mark.parametrize("row", TABLE)
def test_each_role_may_what_the_table_says(clients: dict[str, httpx.Client], row: str) -> None:
    changes = not row.startswith("GET ")
    if changes:
        prepare(clients["guest"])
    allowed: set[str] = set()
    for role in (NOT_LOGGED_IN, *ROLES):
        if role in NOT_DONE.get(row, ()):
            allowed.add(role)
            continue
        status = send(clients[role], row)
        assert status < 500 or status == UNHEALTHY, (row, role, status)
        if status not in REFUSED:
            allowed.add(role)
            if changes:
                prepare(clients["guest"])
    assert allowed == TABLE[row], row


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_role_may_run_what_the_table_says(clients: dict[str, httpx.Client], name: str) -> None:
    changes = OPERATIONS[name].changes
    if changes:
        prepare(clients["guest"])
    arguments = ARGUMENTS.get(name, {"vhost": VHOST, "queue": "q"})
    allowed = {"admin"}  # who is not asked, for he could do it
    for role in ROLES:
        if role != "admin":
            given = {key: each for key, each in arguments.items() if key in known_arguments(name)}
            status = clients[role].post(f"/api/forebay/operations/{name}", json=given).status_code
            assert status < 500, (name, role, status)
            if status not in REFUSED:
                allowed.add(role)
                if changes:
                    prepare(clients["guest"])
    assert allowed == OPERATIONS_TABLE.get(name, ADMINS), name


def known_arguments(name: str) -> set[str]:
    return {parameter.name for parameter in OPERATIONS[name].parameters}
