"""Options of places, the first part: files, listeners, and what is seen of a broker."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.core import option_names as words
from forebay.core.option_table import (
    ADDRESS,
    FILE,
    GIB,
    HOUR_S,
    KIB,
    MIB,
    NAMES,
    PATTERN,
    TEXT,
    boolean,
    integer,
    option,
)


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The options of files, listeners, definitions, telemetry and TLS."""

    # where
    data: str = option("./data", TEXT, "Folder of the broker's files; one broker at a time.", flag=True)
    amqp: str = option("127.0.0.1:5672", ADDRESS, "Where AMQP clients connect.", flag=True)
    mqtt: str = option("127.0.0.1:1883", ADDRESS, "Where MQTT clients connect.", flag=True)

    mqtt_websocket: str = option("127.0.0.1:8083", ADDRESS, "Where MQTT clients connect over WebSocket.")
    mqtt_websocket_path: str = option("/mqtt", TEXT, "Path of the WebSocket listeners.")
    mqtt_websocket_origins: list[str] = option(
        [], NAMES, "Origins whose pages may connect over WebSocket, beside our own host's; `*` for any."
    )
    amqps: str = option("", ADDRESS, "Where AMQP clients connect over TLS.")
    mqtts: str = option("", ADDRESS, "Where MQTT clients connect over TLS.")
    mqtt_websocket_tls: str = option("", ADDRESS, "Where MQTT clients connect over WebSocket and TLS.")
    proxy_protocol: bool = boolean(False, "Whether every connection begins with a PROXY header, version 1 or 2.")

    http: str = option(
        "127.0.0.1:15672", ADDRESS, "Where the web page and the HTTP API are, and Prometheus asks.", flag=True
    )
    https: str = option("", ADDRESS, "The same over TLS.")
    prometheus: str = option("127.0.0.1:15692", ADDRESS, "Where Prometheus asks for metrics, without a login.")
    http_cors_origins: list[str] = option(
        [], NAMES, "Origins whose pages may call the HTTP API with a password or a token; `*` for any."
    )
    http_hosts: list[str] = option(
        [],
        NAMES,
        "Names under which HTTP is answered, beside addresses, `localhost` and this machine's; `*` for any. While "
        "there are none, clients on other machines may use any name.",
        reloadable=True,
    )
    http_body_octets_max: int = integer(32 * MIB, "octets", 1 * KIB, GIB, "The longest body of an HTTP request.")
    http_head_octets_max: int = integer(
        64 * KIB,
        "octets",
        1 * KIB,
        16 * MIB,
        "The longest head of an HTTP request; each of its fields takes 32 octets besides.",
        reloadable=True,
    )
    http_requests_octets_max: int = integer(
        256 * MIB,
        "octets",
        1 * KIB,
        1024 * GIB,
        "What all HTTP requests together may hold in memory; one of 64 KiB is taken in any case.",
        reloadable=True,
    )
    http_request_timeout_ms: int = integer(
        60_000,
        "ms",
        10,
        10**7,
        "How long the body of an HTTP request may take, and a client to read anything of the answer; the head has "
        "`handshake_timeout_ms`.",
    )
    http_connections_max: int = integer(
        1000, "connections", 1, 10**6, "HTTP connections at one time, over all listeners.", reloadable=True
    )
    http_address_connections_max: int = integer(
        500, "connections", 1, 10**6, "HTTP connections from one address at one time.", reloadable=True
    )
    http_login_idle_s: int = integer(
        3600, "s", 1, 10**8, "When a login of the web page that nobody uses ends.", reloadable=True
    )
    http_login_max_s: int = integer(
        12 * HOUR_S, "s", 1, 10**8, "When a login of the web page ends in any case.", reloadable=True
    )

    # definitions
    definitions_import_path: str = option(
        "",
        FILE,
        "A file of definitions, or a folder of them, that is taken in at each start; docs/how-to/definitions.md.",
    )
    definitions_skip_if_unchanged: bool = boolean(
        False, "Whether it is left alone at a start where it is as it was at the one before."
    )

    # telemetry
    otel_endpoint: str = option(
        "", PATTERN, "Where OpenTelemetry's data is sent, as OTLP over HTTP: `http://HOST:4318`; empty for nowhere."
    )
    otel_service_name: str = option("forebay", TEXT, "What the broker is called there.")
    otel_metrics_interval_s: int = integer(60, "s", 0, 86_400, "How often metrics are sent there; 0: never.")
    otel_traces: bool = boolean(False, "Whether spans are sent there of messages that bring a trace context.")
    otel_traces_per_million: int = integer(
        0, "messages", 0, 10**6, "Of a million messages without a trace context, how many get one here."
    )

    # TLS
    tls_certificate: str = option("", FILE, "The broker's certificate and its chain, PEM.", reloadable=True)
    tls_key: str = option(
        "", FILE, "Its private key, PEM; without it the key stands in `tls_certificate`.", reloadable=True
    )
    tls_client_ca: str = option(
        "", FILE, "Certificates that clients' certificates must come from, PEM.", reloadable=True
    )
    tls_client_crl: str = option(
        "", FILE, "Lists of revoked certificates, PEM: clients that show one are refused.", reloadable=True
    )
    tls_watch_s: int = integer(
        60,
        "s",
        0,
        86_400,
        "How often is looked whether these files have changed; 0: only when the broker is told to.",
        reloadable=True,
    )
    tls_client_auth: str = option(
        words.NONE, TEXT, "Whether clients show a certificate.", choices=words.CLIENT_AUTHS, reloadable=True
    )
    tls_minimum_version: str = option(
        words.TLS_1_2, TEXT, "The oldest version of TLS spoken.", choices=words.TLS_VERSIONS, reloadable=True
    )
    tls_identity: str = option(
        words.NONE,
        TEXT,
        "Who a client is that shows a certificate and sends no user name: what of it is the name, or nobody.",
        choices=words.IDENTITIES,
    )
