"""/api/connections: who is connected, in RabbitMQ's words."""

from __future__ import annotations

from typing import Annotated, Final

from starlette.responses import Response

from forebay.admin.caller import Caller
from forebay.admin.http.paging import Listing, Wanted, answer_list, answer_one
from forebay.admin.http.paths import UserName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import CONNECTIONS, ONE_CONNECTION, USER_CONNECTIONS
from forebay.admin.rabbitmq.node.node import own_node
from forebay.admin.rights import Manager, check_vhost, is_monitor
from forebay.admin.samples.rates import CONNECTION, RateSamples
from forebay.admin.samples.samples import Windows
from forebay.admin.samples.windows import Asked, Sampled
from forebay.admin.web.fields import InPath
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.core.units import US_PER_MS
from forebay.management.cluster_words import waits_of
from forebay.node.peer import split_name
from forebay.server.broker_view import BrokerView
from forebay.server.connection_reader import ConnectionReading, TlsReading

NO_TLS: Final[dict[str, object]] = {
    "ssl": False,
    "ssl_protocol": None,
    "ssl_cipher": None,
    "peer_cert_subject": None,
    "peer_cert_issuer": None,
    "peer_cert_validity": None,
}
ConnectionName = Annotated[
    str, InPath(description="The connection's name: `127.0.0.1:50000 -> 127.0.0.1:5672`, encoded.")
]

router = RouteGroup(prefix="/api", tags=["connections"])


# ---- which there are


def open_connections(app: BrokerView, caller: Caller, vhost: int | None = None) -> list[int]:
    """Connections whose client has logged in and that the caller may see, in the order in which they came.

    vhost  in the vhost of that number alone
    """
    return app.clients.ids("" if is_monitor(caller) else caller.user, vhost)


def find_connection(app: BrokerView, caller: Caller, name: str) -> int:
    """The connection of that name; RequestError: NOT_FOUND, REFUSED for a caller whose it is not."""
    id = app.clients.find(name)
    if id is None:
        raise RequestError(NOT_FOUND, f"connection: '{name}' does not exist")
    if not is_monitor(caller) and app.clients.user(id) != caller.user:
        raise RequestError(REFUSED, f"user '{caller.user}' may not see connection '{name}', which is another's")
    return id


# ---- what is known of them


def peer_fields(app: BrokerView, id: int) -> dict[str, object]:
    """A connection's name and its client's address, as other objects refer to it."""
    host, port = peer_of(app.clients.peer(id))
    return {"name": app.clients.name(id), "peer_host": host, "peer_port": port}


def peer_of(peer: str) -> tuple[str, int]:
    """The client's address and port; of a proxy that speaks for itself, nothing is known."""
    return split_name(peer) if ":" in peer else (peer, 0)


def state_of(connection: ConnectionReading) -> str:
    """RabbitMQ's word for what a connection does: publishers may not be read for now."""
    if connection.is_closing:
        return "closing"
    if connection.is_blocked:
        return "blocked"
    return "running"


def tls_fields(tls: TlsReading | None) -> dict[str, object]:
    """The encryption of a connection, and the names in its client's certificate."""
    if tls is None:
        return NO_TLS
    return {
        "ssl": True,
        "ssl_protocol": tls.version,
        "ssl_cipher": tls.cipher,
        "peer_cert_subject": tls.subject,
        "peer_cert_issuer": tls.issuer,
        "peer_cert_validity": tls.validity,
    }


LATE_US: Final = 500_000  # of a commit that other nodes do not have: less is said of nobody


def library_of(described: dict[str, object]) -> str:
    """The client's library and its version, as it says; empty where it says nothing."""
    properties = described.get("client")
    if not isinstance(properties, dict):
        return ""
    return " ".join(str(properties[name]) for name in ("product", "version") if properties.get(name))


def why_slow(app: BrokerView, connection: ConnectionReading) -> str:
    """The reason for which a connection is not read, or its client does not keep up; empty where there is none."""
    return connection.held or unconfirmed(app, connection)


def unconfirmed(app: BrokerView, connection: ConnectionReading) -> str:
    """The node of a cluster that the confirms of a connection wait for; empty where none do."""
    cluster = app.control.cluster
    if cluster is None or app.histograms.replicating_us() < LATE_US:
        return ""
    if not any(each["unconfirmed"] for each in connection.counts.channels):
        return ""
    waits = waits_of(cluster.status())
    return f"its confirms wait: {waits}" if waits else ""


def mqtt_fields(described: dict[str, object]) -> dict[str, object]:
    """The fields that only connections of MQTT have."""
    session = {key: described[key] for key in ("durable", "subscriptions", "waiting", "dropped") if key in described}
    named = {"client_id": described.get("client_id", "")}  # none yet, or none any more
    return {
        "client_properties": named,
        "timeout": described["keep_alive_s"],
        "auth_mechanism": "none",
        "variable_map": named,
        "channel_max": 0,
        "channels": 0,
        "frame_max": 0,
        "forebay": {"session": session, "inflight": described["inflight"]},
    }


def amqp_fields(described: dict[str, object]) -> dict[str, object]:
    """The fields that only connections of AMQP have."""
    properties = described["client"]
    fields: dict[str, object] = {
        "client_properties": properties,
        "timeout": described["heartbeat_s"],
        "auth_mechanism": described["mechanism"],
        "channel_max": described["channels_max"],
        "channels": described["channels"],
        "frame_max": described["frame_octets_max"],
    }
    if isinstance(properties, dict) and "connection_name" in properties:
        fields["user_provided_name"] = properties["connection_name"]
    return fields


def title_of(connection: ConnectionReading) -> str:
    """The name that a client gives itself, or else its addresses: as the page shows it."""
    properties = connection.described.get("client")
    title = properties.get("connection_name") if isinstance(properties, dict) else None
    return str(title or connection.described.get("client_id") or connection.name)


def connection_fields(
    app: BrokerView, rates: RateSamples, asked: Windows, connection: ConnectionReading
) -> dict[str, object]:
    """One connection."""
    described, counts = connection.described, connection.counts
    host, port = peer_of(connection.peer)
    octets = (counts.octets_received, counts.octets_sent)
    series = rates.connections.get(counts.id)
    fields: dict[str, object] = {
        "name": connection.name,
        "node": own_node(app),
        "type": "network",
        "protocol": str(described["protocol"]).replace(".", "-"),
        "user": counts.user,
        "user_who_performed_action": counts.user,
        "vhost": connection.vhost,
        "host": connection.local[0],
        "port": connection.local[1],
        "peer_host": host,
        "peer_port": port,
        "connected_at": connection.opened_us // US_PER_MS,
        "state": state_of(connection),
        "recv_cnt": counts.reads,
        "send_cnt": counts.writes,
        "send_pend": counts.waiting_octets,
        **rates.stats(series, CONNECTION, octets, asked.octets, 0, len(octets)),
        **tls_fields(connection.tls),
    }
    if "keep_alive_s" in described:
        fields.update(mqtt_fields(described))
    elif "client" in described:
        fields.update(amqp_fields(described))
    else:
        named = {"client_id": described["client_id"]} if "client_id" in described else {}
        fields.update({"client_properties": named, "channels": 0, "timeout": 0, "auth_mechanism": "none"})
    own = fields.get("forebay")
    fields["forebay"] = {
        **(own if isinstance(own, dict) else {}),
        "title": title_of(connection),
        "client": library_of(described),
        "protocol": described["protocol"],
        "why": why_slow(app, connection),
    }
    return fields


# ---- routes


async def answer_connections(
    app: BrokerView, rates: RateSamples, asked: Windows, connections: list[int], wanted: Listing
) -> Response:
    def make(id: int) -> dict[str, object] | None:
        connection = app.clients.read(id)
        return None if connection is None else connection_fields(app, rates, asked, connection)

    def title(id: int) -> str:
        connection = app.clients.read(id)
        return "" if connection is None else title_of(connection)

    def words_of(id: int) -> str:
        connection = app.clients.read(id)
        if connection is None:
            return ""
        described = connection.described
        protocol = str(described["protocol"])
        state = "slow" if why_slow(app, connection) else state_of(connection)
        words = (title_of(connection), connection.counts.user, connection.vhost, protocol, state, library_of(described))
        return "\n".join(words)

    return await answer_list(connections, app.clients.name, make, wanted, title, words_of)


@router.get("/connections", responses=CONNECTIONS)
async def list_connections(app: Broker, caller: Manager, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """Open connections: all for a monitor, one's own for others."""
    return await answer_connections(app, rates, asked, open_connections(app, caller), wanted)


@router.get("/vhosts/{vhost:name}/connections", responses=CONNECTIONS)
async def list_connections_of_vhost(
    app: Broker, caller: Manager, rates: Sampled, vhost: VhostName, wanted: Wanted, asked: Asked
) -> Response:
    """Open connections in a vhost."""
    own = open_connections(app, caller, int(check_vhost(app, caller, vhost).number))
    return await answer_connections(app, rates, asked, own, wanted)


@router.get("/connections/username/{user:name}", responses=USER_CONNECTIONS)
async def list_connections_of_user(app: Broker, caller: Manager, user: UserName, wanted: Wanted) -> Response:
    """Open connections of a user, in short."""

    def make(id: int) -> dict[str, object] | None:
        connection = app.clients.read(id)
        if connection is None:
            return None
        return {"name": connection.name, "vhost": connection.vhost, "user": user, "node": own_node(app)}

    own = [id for id in open_connections(app, caller) if app.clients.user(id) == user]
    return await answer_list(own, app.clients.name, make, wanted)


@router.get("/connections/{connection:name}", responses=ONE_CONNECTION)
async def show_connection(
    app: Broker, caller: Manager, rates: Sampled, connection: ConnectionName, wanted: Wanted, asked: Asked
) -> Response:
    """One connection."""
    found = read_connection(app, find_connection(app, caller, connection))
    return answer_one(connection_fields(app, rates, asked, found), wanted)


def read_connection(app: BrokerView, id: int) -> ConnectionReading:
    """Return what is known of a connection that has just been found."""
    found = app.clients.read(id)
    assert found is not None, "nothing happens between a search and a reading"
    return found
