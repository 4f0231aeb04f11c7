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
from forebay.broker.limits.hold_reasons import CHOKED
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.core.units import US_PER_MS
from forebay.management.cluster_words import waits_of
from forebay.message.shown import plain
from forebay.node.peer import split_name
from forebay.server.broker_view import BrokerView
from forebay.server.net import Connection

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


def open_connections(app: BrokerView, caller: Caller) -> list[Connection]:
    """Connections whose client has logged in and that the caller may see, in the order in which they came."""
    everything = is_monitor(caller)
    return [
        each
        for each in app.connections.values()
        if each.session is not None and (each.session.rights.user if everything else user_of(each) == caller.user)
    ]


def user_of(connection: Connection) -> str:
    """The user that has logged in; empty before."""
    return "" if connection.session is None else connection.session.rights.user


def may_see(caller: Caller, connection: Connection) -> bool:
    return is_monitor(caller) or user_of(connection) == caller.user


def find_connection(app: BrokerView, caller: Caller, name: str) -> Connection:
    """The connection of that name; RequestError: NOT_FOUND, REFUSED for a caller whose it is not."""
    for connection in app.connections.values():
        # The client's address first: the whole name costs more, and there may be thousands.
        if name.startswith(connection.peer) and connection.name == name and user_of(connection):
            if not may_see(caller, connection):
                raise RequestError(REFUSED, f"user '{caller.user}' may not see connection '{name}', which is another's")
            return connection
    raise RequestError(NOT_FOUND, f"connection: '{name}' does not exist")


# ---- what is known of them


def peer_fields(connection: Connection) -> dict[str, object]:
    """A connection's name and its client's address, as other objects refer to it."""
    host, port = peer_of(connection)
    return {"name": connection.name, "peer_host": host, "peer_port": port}


def peer_of(connection: Connection) -> tuple[str, int]:
    """The client's address and port; of a proxy that speaks for itself, nothing is known."""
    return split_name(connection.peer) if ":" in connection.peer else (connection.peer, 0)


def state_of(app: BrokerView, connection: Connection) -> str:
    """RabbitMQ's word for what a connection does: publishers may not be read for now."""
    if connection.closing:
        return "closing"
    if connection.holds & CHOKED:
        return "blocked"
    return "running"


def tls_fields(connection: Connection) -> dict[str, object]:
    """The encryption of a connection, and the names in its client's certificate."""
    tls = connection.transport.get_extra_info("ssl_object")
    if tls is None:
        return NO_TLS
    cipher, protocol, _ = tls.cipher() or ("", "", 0)
    fields: dict[str, object] = {**NO_TLS, "ssl": True, "ssl_protocol": tls.version() or protocol, "ssl_cipher": cipher}
    certificate = connection.transport.get_extra_info("peercert")
    if certificate:
        fields["peer_cert_subject"] = name_text(certificate.get("subject", ()))
        fields["peer_cert_issuer"] = name_text(certificate.get("issuer", ()))
        fields["peer_cert_validity"] = f"{certificate.get('notBefore', '')} - {certificate.get('notAfter', '')}"
    return fields


def name_text(name: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """A certificate's name as one text."""
    return ",".join(f"{key}={value}" for part in name for key, value in part)


LATE_US: Final = 500_000  # of a commit that other nodes do not have: less is said of nobody


def library_of(described: dict[str, object]) -> str:
    """The client's library and its version, as it says; empty where it says nothing."""
    properties = plain(described.get("client"))
    if not isinstance(properties, dict):
        return ""
    return " ".join(str(properties[name]) for name in ("product", "version") if properties.get(name))


def why_slow(app: BrokerView, connection: Connection) -> str:
    """The reason for which a connection is not read, or its client does not keep up; empty where there is none."""
    return app.holds.lasting(connection) or unconfirmed(app, connection)


def unconfirmed(app: BrokerView, connection: Connection) -> str:
    """The node of a cluster that the confirms of a connection wait for; empty where none do."""
    cluster, session = app.control.cluster, connection.session
    if cluster is None or session is None or app.histograms.replicating_us() < LATE_US:
        return ""
    if not any(each["unconfirmed"] for each in session.describe_channels()):
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
    properties = plain(described["client"])
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


def title_of(connection: Connection) -> str:
    """The name that a client gives itself, or else its addresses: as the page shows it."""
    session = connection.session
    if session is None:
        return connection.name
    described = session.describe()
    properties = plain(described.get("client"))
    title = properties.get("connection_name") if isinstance(properties, dict) else None
    return str(title or described.get("client_id") or connection.name)


def connection_fields(app: BrokerView, rates: RateSamples, asked: Windows, connection: Connection) -> dict[str, object]:
    """One connection."""
    session = connection.session
    assert session is not None, "only those with a session are shown"
    described = session.describe()
    host, port = peer_of(connection)
    local = connection.transport.get_extra_info("sockname") or ("", 0)
    octets = (connection.octets_received, connection.octets_sent)
    series = rates.connections.get(int(session.id))
    fields: dict[str, object] = {
        "name": connection.name,
        "node": own_node(app),
        "type": "network",
        "protocol": str(described["protocol"]).replace(".", "-"),
        "user": session.rights.user,
        "user_who_performed_action": session.rights.user,
        "vhost": session.rights.vhost,
        "host": local[0],
        "port": local[1],
        "peer_host": host,
        "peer_port": port,
        "connected_at": connection.opened_us // US_PER_MS,
        "state": state_of(app, connection),
        "recv_cnt": connection.reads,
        "send_cnt": connection.writes,
        "send_pend": connection.waiting_octets(),
        **rates.stats(series, CONNECTION, octets, asked.octets, 0, len(octets)),
        **tls_fields(connection),
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
    app: BrokerView, rates: RateSamples, asked: Windows, connections: list[Connection], wanted: Listing
) -> Response:
    def make(connection: Connection) -> dict[str, object]:
        return connection_fields(app, rates, asked, connection)

    def words_of(connection: Connection) -> str:
        assert connection.session is not None
        described, rights = connection.session.describe(), connection.session.rights
        protocol = str(described["protocol"])
        state = "slow" if why_slow(app, connection) else state_of(app, connection)
        return "\n".join((title_of(connection), rights.user, rights.vhost, protocol, state, library_of(described)))

    return await answer_list(connections, lambda connection: connection.name, make, wanted, title_of, words_of)


@router.get("/connections", responses=CONNECTIONS)
async def list_connections(app: Broker, caller: Manager, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """Open connections: all for a monitor, one's own for others."""
    return await answer_connections(app, rates, asked, open_connections(app, caller), wanted)


@router.get("/vhosts/{vhost:name}/connections", responses=CONNECTIONS)
async def list_connections_of_vhost(
    app: Broker, caller: Manager, rates: Sampled, vhost: VhostName, wanted: Wanted, asked: Asked
) -> Response:
    """Open connections in a vhost."""
    where = check_vhost(app, caller, vhost)
    own = [each for each in open_connections(app, caller) if each.session and each.session.vhost is where]
    return await answer_connections(app, rates, asked, own, wanted)


@router.get("/connections/username/{user:name}", responses=USER_CONNECTIONS)
async def list_connections_of_user(app: Broker, caller: Manager, user: UserName, wanted: Wanted) -> Response:
    """Open connections of a user, in short."""

    def make(connection: Connection) -> dict[str, object]:
        assert connection.session is not None
        return {"name": connection.name, "vhost": connection.session.rights.vhost, "user": user, "node": own_node(app)}

    own = [each for each in open_connections(app, caller) if user_of(each) == user]
    return await answer_list(own, lambda connection: connection.name, make, wanted)


@router.get("/connections/{connection:name}", responses=ONE_CONNECTION)
async def show_connection(
    app: Broker, caller: Manager, rates: Sampled, connection: ConnectionName, wanted: Wanted, asked: Asked
) -> Response:
    """One connection."""
    return answer_one(connection_fields(app, rates, asked, find_connection(app, caller, connection)), wanted)
