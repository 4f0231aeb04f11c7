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
    PATH,
    TEXT,
    URL,
    boolean,
    integer,
    option,
)


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The options of files, listeners, definitions, telemetry and TLS."""

    # where
    data: str = option(
        "./data", TEXT, "The folder of the broker's files. Only one broker at a time uses it.", flag=True
    )
    amqp: str = option("127.0.0.1:5672", ADDRESS, "Listener for AMQP.", flag=True)
    mqtt: str = option("127.0.0.1:1883", ADDRESS, "Listener for MQTT.", flag=True)

    mqtt_websocket: str = option("127.0.0.1:8083", ADDRESS, "Listener for MQTT and AMQP over WebSocket.")
    mqtt_websocket_path: str = option("/mqtt", TEXT, "Path of MQTT over WebSocket; it begins with `/`.")
    mqtt_websocket_origins: list[str] = option(
        [], NAMES, "Origins whose pages may connect over WebSocket, besides the broker's own host; `*` allows any."
    )
    amqps: str = option("", ADDRESS, "Listener for AMQP over TLS.")
    mqtts: str = option("", ADDRESS, "Listener for MQTT over TLS.")
    mqtt_websocket_tls: str = option("", ADDRESS, "Listener for MQTT and AMQP over WebSocket and TLS.")
    proxy_protocol: bool = boolean(
        False, "Every connection to the AMQP and MQTT listeners begins with a PROXY header, version 1 or 2."
    )

    http: str = option("127.0.0.1:15672", ADDRESS, "Listener for the web page, the HTTP API and `/metrics`.", flag=True)
    https: str = option("", ADDRESS, "The same over TLS.")
    prometheus: str = option("127.0.0.1:15692", ADDRESS, "Listener for Prometheus: `/metrics` without a login.")
    http_cors_origins: list[str] = option(
        [], NAMES, "Origins whose pages may call the HTTP API with a password or a token; `*` allows any."
    )
    http_hosts: list[str] = option(
        [],
        NAMES,
        "Host names that HTTP requests may use, besides addresses, `localhost` and this machine's name; `*` "
        "allows any. While the list is empty, clients on other machines may use any name.",
        reloadable=True,
    )
    http_body_octets_max: int = integer(32 * MIB, "octets", 1 * KIB, GIB, "The longest body of an HTTP request.")
    http_head_octets_max: int = integer(
        64 * KIB,
        "octets",
        1 * KIB,
        16 * MIB,
        "The longest head of an HTTP request; each header field counts 32 octets more than its text.",
        reloadable=True,
    )
    http_requests_octets_max: int = integer(
        256 * MIB,
        "octets",
        1 * KIB,
        1024 * GIB,
        "Memory that all HTTP requests together may use; a request of up to 64 KiB is always taken.",
        reloadable=True,
    )
    http_request_timeout_ms: int = integer(
        60_000,
        "ms",
        10,
        10**7,
        "Time for a client to send the body of a request, and to read some of the answer. The head has "
        "`handshake_timeout_ms`.",
    )
    http_connections_max: int = integer(
        1000, "connections", 1, 10**6, "HTTP connections at one time, over all listeners.", reloadable=True
    )
    http_address_connections_max: int = integer(
        500, "connections", 1, 10**6, "HTTP connections from one address at one time.", reloadable=True
    )
    http_login_idle_s: int = integer(
        3600, "s", 1, 10**8, "A login of the web page ends after this time without a request.", reloadable=True
    )
    http_login_max_s: int = integer(
        12 * HOUR_S, "s", 1, 10**8, "A login of the web page ends after this time in any case.", reloadable=True
    )

    coap: str = option(
        "", ADDRESS, "Listener for CoAP over UDP, which has no encryption; see [CoAP](../how-to/coap-bridge.md)."
    )
    coap_requests_max: int = integer(
        1000, "requests", 1, 10**6, "CoAP requests under way at one time; others are answered 5.03.", reloadable=True
    )
    coap_exchanges_max: int = integer(
        100_000,
        "requests",
        1,
        10**7,
        "CoAP publishes that the broker remembers for 247 s, so that none is carried out twice; beyond it, it forgets "
        "the oldest. Each takes about half a KiB.",
    )
    coap_observations_max: int = integer(
        1000, "observations", 0, 10**6, "Observations by CoAP clients at one time.", reloadable=True
    )
    coap_address_observations_max: int = integer(
        100, "observations", 0, 10**6, "Observations by one CoAP client, an address and port.", reloadable=True
    )
    coap_octets_max: int = integer(
        64 * MIB,
        "octets",
        64 * KIB,
        GIB,
        "Memory of bodies that come in blocks and of notifications that wait, of all CoAP clients together.",
    )

    # definitions
    definitions_import_path: str = option(
        "",
        PATH,
        "Definitions that the broker imports at each start; see [definitions](../how-to/definitions.md).",
    )
    definitions_strict: bool = boolean(
        False, "Refuse to start if a part of these definitions cannot be in force, instead of leaving it out."
    )
    definitions_skip_if_unchanged: bool = boolean(
        False, "Skip that import when the definitions are the same as at the last start."
    )

    # telemetry
    otel_endpoint: str = option(
        "", URL, "Server that gets OpenTelemetry data as OTLP over HTTP, such as `http://HOST:4318`."
    )
    otel_service_name: str = option("forebay", TEXT, "The broker's service name in OpenTelemetry.")
    otel_metrics_interval_s: int = integer(
        60, "s", 0, 86_400, "Interval at which metrics go to `otel_endpoint`; 0 sends none."
    )
    otel_traces: bool = boolean(False, "Send spans for messages that carry a trace context.")
    otel_traces_per_million: int = integer(
        0, "messages", 0, 10**6, "Of a million messages without a trace context, so many start a trace here."
    )

    # TLS
    tls_certificate: str = option("", FILE, "The broker's certificate with its chain, PEM.", reloadable=True)
    tls_key: str = option("", FILE, "The private key, PEM. Empty: the key is in `tls_certificate`.", reloadable=True)
    tls_client_ca: str = option("", FILE, "Authorities that sign clients' certificates, PEM.", reloadable=True)
    tls_client_crl: str = option(
        "", FILE, "Revocation lists, PEM. A client with a revoked certificate is refused.", reloadable=True
    )
    tls_watch_s: int = integer(
        60,
        "s",
        0,
        86_400,
        "Interval at which the broker checks these files for changes; 0 checks only at a reload.",
        reloadable=True,
    )
    tls_client_auth: str = option(
        words.NONE,
        TEXT,
        "Clients show no certificate, may show one, or must.",
        choices=words.CLIENT_AUTHS,
        reloadable=True,
    )
    tls_minimum_version: str = option(
        words.TLS_1_2, TEXT, "The oldest TLS version that clients may use.", choices=words.TLS_VERSIONS, reloadable=True
    )
    tls_identity: str = option(
        words.NONE,
        TEXT,
        "The part of a client's certificate that is its user name if it sends none: common name, "
        "distinguished name, or a subject alternative name.",
        choices=words.IDENTITIES,
    )
