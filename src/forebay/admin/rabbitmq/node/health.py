"""/api/health/checks: one question each, 200 for yes and 503 with the reason for no."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from starlette.responses import Response

from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import NodeName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import CHECK
from forebay.admin.rabbitmq.node.members import Nodes, check_node
from forebay.admin.rabbitmq.node.node import listeners, own_node
from forebay.admin.rights import Manager, check_vhost
from forebay.admin.web.fields import InPath
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, RequestError
from forebay.filter.pattern import Pattern
from forebay.filter.program import BadPattern
from forebay.queue.queue import QUORUM
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

UNHEALTHY: Final = 503
WITHIN_MAX: Final = 10_000
DAYS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}
PORT_MAX: Final = 65_535
QUEUES_MAX: Final = 100
TLS_SIGNS: Final = ("/tls", "/ssl", "+tls", "+ssl")
# Names by which RabbitMQ's tools ask for listeners that have another name in lists.
ALIASES: Final = {
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"), "amqp"),
    "amqps": "amqp/ssl",
    **dict.fromkeys(("mqtt3.1", "mqtt3.1.1", "mqtt31", "mqtt311", "mqtt3_1", "mqtt3_1_1"), "mqtt"),
    **dict.fromkeys(("mqtts", "mqtt+tls", "mqtt+ssl"), "mqtt/ssl"),
    **dict.fromkeys(("http1", "http1.1", "http_api", "management", "management_ui", "ui"), "http"),
    **dict.fromkeys(("webmqtt", "web-mqtt", "web_mqtt"), "http/web-mqtt"),
    **dict.fromkeys((f"{name}{sign}" for name in ("webmqtt", "web-mqtt") for sign in TLS_SIGNS), "https/web-mqtt"),
}

Within = Annotated[int, InPath(ge=0, le=WITHIN_MAX, description="How many of the units.")]
Unit = Annotated[str, InPath(description="days, weeks, months or years.")]
Port = Annotated[int, InPath(ge=0, le=PORT_MAX, description="A port.")]
Protocol = Annotated[
    str,
    InPath(description="A protocol, as /api/overview calls it: amqp, mqtt, http, ...; several with commas between."),
]
NamePattern = Annotated[str, InPath(description="A regular expression that names of queues match, percent-encoded.")]

router = RouteGroup(prefix="/api", tags=["health"])


def healthy(**fields: object) -> Response:
    return as_json({"status": "ok", **fields})


def unhealthy(reason: str, **fields: object) -> Response:
    return as_json({"status": "failed", "reason": reason, **fields}, UNHEALTHY)


def check_alarms(app: BrokerView, alarms: list[str]) -> Response:
    if not alarms:
        return healthy()
    node = own_node(app)
    reason = "resource alarm(s) in effect"
    fault = app.readings.disk_fault()
    if fault:
        reason += f": {fault}"
    return unhealthy(reason, alarms=[{"node": node, "resource": each} for each in alarms])


def check_in_sync(app: BrokerView) -> Response:
    """The check that messages are confirmed: in a cluster as many members in sync answer as must be."""
    cluster = app.control.cluster
    status = {} if cluster is None else cluster.status()
    if not status.get("too_few_in_sync"):
        return healthy()
    answering, least = status["answering"], status["min_in_sync"]
    assert isinstance(answering, list)
    reason = f"nothing is confirmed: {len(answering)} in sync answer, min_in_sync is {least}"
    return unhealthy(reason, answering=answering, min_in_sync=least)


def quorum_queues(
    app: BrokerView, vhosts: Iterable[Vhost] | None = None, pattern: Pattern | None = None
) -> list[dict[str, object]]:
    """Quorum queues by name, as RabbitMQ lists those that a check is about; of very many the first.

    vhosts   whose queues are meant; None: all
    pattern  that their names match; None: any
    """
    found: list[dict[str, object]] = []
    for vhost in app.vhosts.by_name.values() if vhosts is None else vhosts:
        for name, queue in vhost.catalog.queues.items():
            is_meant = queue.kind == QUORUM and (pattern is None or pattern.find(text(name)) is True)
            if is_meant and len(found) < QUEUES_MAX:
                readable = f"queue '{text(name)}' in vhost '{text(vhost.name)}'"
                fields: dict[str, object] = {
                    "name": text(name),
                    "virtual_host": text(vhost.name),
                    "readable_name": readable,
                }
                found.append({**fields, "type": "quorum"})
    return found


@router.get("/health/checks/alarms", responses=CHECK)
async def no_alarms(app: Broker, caller: Manager) -> Response:
    """Checks whether there is enough of everything, and every file can be read: no alarm is set."""
    return check_alarms(app, app.readings.alarm_names())


@router.get("/health/checks/local-alarms", responses=CHECK)
async def no_local_alarms(app: Broker, caller: Manager) -> Response:
    """The same of this node alone, which there is no other beside."""
    return check_alarms(app, app.readings.alarm_names())


@router.get("/health/checks/certificate-expiration/{within}/{unit:name}", responses=CHECK)
async def certificates_last(app: Broker, caller: Manager, within: Within, unit: Unit) -> Response:
    """Checks whether the certificate of the TLS listeners is valid for so long yet."""
    if unit not in DAYS:
        raise RequestError(INVALID, f"unit: '{unit}' is none of {', '.join(DAYS)}")
    until = app.certificate_expiry()
    if until is None or until > datetime.now(UTC) + timedelta(days=within * DAYS[unit]):
        return healthy()
    path = app.options.tls_certificate
    return unhealthy("Certificates expiring", expired=[{"certfile": path, "certfile_expires_on": [until.isoformat()]}])


@router.get("/health/checks/port-listener/{port}", responses=CHECK)
async def port_listens(app: Broker, caller: Manager, port: Port) -> Response:
    """Checks whether something listens on a port."""
    ports = [each["port"] for each in listeners(app)]
    if port in ports:
        return healthy(port=port)
    return unhealthy("No active listener", missing=port, ports=ports)


@router.get("/health/checks/protocol-listener/{protocol:name}", responses=CHECK)
async def protocol_listens(app: Broker, caller: Manager, protocol: Protocol) -> Response:
    """Checks whether something listens for a protocol, or for each of several."""
    protocols = sorted({str(each["protocol"]) for each in listeners(app)})
    asked = protocol.split(",")
    missing = [each for each in asked if ALIASES.get(each.lower(), each.lower()) not in protocols]
    if missing:
        return unhealthy("No active listener", missing=missing if len(asked) > 1 else protocol, protocols=protocols)
    return healthy(protocols=protocols) if len(asked) > 1 else healthy(protocol=protocol)


@router.get("/health/checks/virtual-hosts", responses=CHECK)
async def vhosts_run(app: Broker, caller: Manager) -> Response:
    """Checks whether all vhosts run: they do as long as the broker does, and it stops where a disk fails."""
    return healthy()


@router.get("/health/checks/node-is-quorum-critical", responses=CHECK)
async def is_not_critical(app: Broker, caller: Manager) -> Response:
    """Checks whether a node in sync may be stopped, and messages are confirmed all the same: any but the last few.

    Not asked of a single node. In a cluster the one that leads answers, for whichever node was asked.
    """
    cluster = app.control.cluster
    if cluster is None:
        return healthy(reason="single node cluster")
    status = cluster.status()
    answering, least = status["answering"], status["min_in_sync"]
    assert isinstance(answering, list)
    assert isinstance(least, int)
    if len(answering) > least:
        return healthy()
    reason = (
        f"There are queues that would lose their quorum if the target node is shut down: {len(answering)} nodes in "
    )
    reason += f"sync answer, and min_in_sync is {least}"
    return unhealthy(reason, queues=quorum_queues(app))


@router.get("/health/checks/metadata-store/initialized", responses=CHECK)
async def has_initialized(app: Broker, caller: Manager) -> Response:
    """Checks whether users, vhosts and all that is declared have been read: they are, before anybody is answered."""
    return healthy()


@router.get("/health/checks/metadata-store/initialized/with-data", responses=CHECK)
async def has_data(app: Broker, caller: Manager) -> Response:
    """Checks besides whether there is any vhost."""
    if app.vhosts.by_name:
        return healthy()
    return unhealthy("Metadata store has not yet been initialized: it reports to have no virtual hosts")


@router.get("/health/checks/quorum-queues-without-elected-leaders/all-vhosts", responses=CHECK)
async def quorum_queues_have_leaders(app: Broker, caller: Manager) -> Response:
    """Checks whether every quorum queue has a leader: all have the one that leads the cluster."""
    return check_leaders(app, None, "")


@router.get("/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern:name}", responses=CHECK)
async def matching_quorum_queues_have_leaders(app: Broker, caller: Manager, pattern: NamePattern) -> Response:
    """Checks whether every quorum queue whose name matches has a leader."""
    return check_leaders(app, None, pattern)


@router.get("/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost:name}", responses=CHECK)
async def quorum_queues_of_vhost_have_leaders(app: Broker, caller: Manager, vhost: VhostName) -> Response:
    """Checks whether every quorum queue of a vhost has a leader."""
    return check_leaders(app, [check_vhost(app, caller, vhost)], "")


@router.get(
    "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost:name}/pattern/{pattern:name}", responses=CHECK
)
async def matching_quorum_queues_of_vhost_have_leaders(
    app: Broker, caller: Manager, vhost: VhostName, pattern: NamePattern
) -> Response:
    """Checks whether every quorum queue of a vhost whose name matches has a leader."""
    return check_leaders(app, [check_vhost(app, caller, vhost)], pattern)


def check_leaders(app: BrokerView, vhosts: Iterable[Vhost] | None, pattern: str) -> Response:
    """The check that these queues have a leader; RequestError(INVALID) where the pattern is none.

    A leader that too few members in sync answer counts as none: RabbitMQ's steps down when it has no majority.
    """
    try:
        wanted = Pattern(pattern) if pattern else None
    except BadPattern as error:
        raise RequestError(INVALID, f"pattern: {pattern!r} is no regular expression: {error}") from None
    cluster = app.control.cluster
    status = {} if cluster is None else cluster.status()
    if cluster is None or (status["leader"] == cluster.node and not status["too_few_in_sync"]):
        return healthy()
    queues = quorum_queues(app, vhosts, wanted)
    return unhealthy("Detected quorum queues without an elected leader", queues=queues) if queues else healthy()


@router.get("/health/checks/reached-target-cluster-size", responses=CHECK)
async def has_all_members(app: Broker) -> Response:
    """Checks whether the cluster has as many running nodes as it is to have, `members`. No login is needed."""
    cluster = app.control.cluster
    if cluster is None:
        return healthy()
    online, target = len(Nodes(app).running), cluster.status()["members_max"]
    assert isinstance(target, int)
    if online >= target:
        return healthy()
    reason = f"target cluster size not reached: {online} of {target} nodes are online"
    return unhealthy(reason, online=online, target=target)


@router.get("/health/checks/is-in-service", responses=CHECK)
async def is_in_service(app: Broker) -> Response:
    """Checks whether the broker takes connections: it is not about to stop. No login is needed."""
    return unhealthy("the broker is about to stop") if app.leaving else healthy()


@router.get("/health/checks/below-node-connection-limit", responses=CHECK)
async def has_room_for_connections(app: Broker) -> Response:
    """Checks whether another connection would be taken. No login is needed."""
    most = app.options.connections_max
    found = app.readings.open_connections()
    if found < most:
        return healthy()
    return unhealthy("connections_max is reached", limit=most, connections=found)


@router.get("/health/checks/ready-to-serve-clients", responses=CHECK)
async def is_ready(app: Broker) -> Response:
    """Checks whether clients can connect and publish: it takes connections, there is enough of everything, and in a
    cluster enough nodes are in sync for messages to be confirmed. No login is needed."""
    room = check_alarms(app, app.readings.alarms())
    others = await is_in_service(app), await has_room_for_connections(app)
    for answer in (*others, room, check_in_sync(app)):
        if answer.status_code != 200:
            return answer
    return healthy()


@router.get("/healthchecks/node", responses=CHECK)
async def node_works(app: Broker, caller: Manager) -> Response:
    """Checks whether the node works, for tools that ask as RabbitMQ's did before each check was of one thing."""
    return check_alarms(app, app.readings.alarms())


@router.get("/healthchecks/node/{node:name}", responses=CHECK)
async def named_node_works(app: Broker, caller: Manager, node: NodeName) -> Response:
    """The same by the node's name."""
    check_node(app, node)
    if node not in Nodes(app).running:
        return unhealthy("nodedown")
    return check_alarms(app, app.readings.alarms())


@router.get("/aliveness-test/{vhost:name}", responses=CHECK)
async def is_alive(app: Broker, caller: Manager, vhost: VhostName) -> Response:
    """Checks whether a vhost works: what is done now comes to the disk."""
    check_vhost(app, caller, vhost)
    await app.on_disk()
    return healthy()
