"""The one node that this broker is, as RabbitMQ's API tells of nodes."""

from __future__ import annotations

import os
import platform
import resource
import socket
from typing import Final

from forebay import __version__
from forebay.admin.samples.rates import NODE as NODE_FIELDS
from forebay.admin.samples.rates import RateSamples
from forebay.admin.samples.samples import Windows
from forebay.core.option_table import split_address
from forebay.core.units import US_PER_MS
from forebay.routing.kinds import KINDS
from forebay.server.broker_view import BrokerView
from forebay.session.amqp091.sasl import MECHANISMS

SPOKEN_VERSION: Final = "4.0.5"  # the version of RabbitMQ whose API this is; tools decide by it what they may ask
RATES_MODE: Final = "basic"
# Listeners by their options, as RabbitMQ calls their protocols.
PROTOCOLS: Final = {
    "amqp": "amqp",
    "amqps": "amqp/ssl",
    "mqtt": "mqtt",
    "mqtts": "mqtt/ssl",
    "mqtt_websocket": "http/web-mqtt",
    "mqtt_websocket_tls": "https/web-mqtt",
    "http": "http",
    "https": "https",
    "prometheus": "http/prometheus",
}
KIND_NOTES: Final = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent hashing exchange",
    "x-delayed-message": "Delayed message exchange",
}
MECHANISM_NOTES: Final = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "SASL EXTERNAL: the client's certificate says who it is",
}

HOST: Final = socket.gethostname()
PREFIX: Final = "forebay@"
NODE: Final = PREFIX + HOST  # of a broker that stands alone


def exchange_types() -> list[dict[str, object]]:
    """The kinds of exchanges that clients may declare."""
    names = [kind.decode() for kind in KINDS]
    return [{"name": name, "description": KIND_NOTES.get(name, name), "enabled": True} for name in names]


def own_node(app: BrokerView) -> str:
    """The node that answers: in a cluster the one that leads."""
    cluster = app.control.cluster
    return NODE if cluster is None else PREFIX + cluster.node


def listeners(app: BrokerView) -> list[dict[str, object]]:
    """The addresses at which the broker listens, and their protocols."""
    own = own_node(app)
    found: list[dict[str, object]] = []
    for option, address in app.addresses.items():
        host, port = split_address(address)
        protocol = PROTOCOLS.get(option, option)
        found.append({"node": own, "protocol": protocol, "ip_address": host.strip("[]"), "port": port})
    return found


def contexts(app: BrokerView) -> list[dict[str, object]]:
    """The addresses at which HTTP is answered."""
    return [
        {
            "node": each["node"],
            "description": "forebay",
            "path": "/",
            "ip": each["ip_address"],
            "port": str(each["port"]),
            "protocol": each["protocol"],
            "ssl_opts": [],
        }
        for each in listeners(app)
        if each["protocol"] in {"http", "https"}
    ]


def node_fields(app: BrokerView, rates: RateSamples, asked: Windows) -> dict[str, object]:
    """The node: what it is, what it uses, and how much of that there is."""
    intake = app.readings.intake(app.now_us())
    usage = rates.usage.numbers(rates.usage.traffic())
    descriptors_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    threads_max, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    started_us = app.readings.clients().started_us
    return {
        "name": own_node(app),
        "type": "disc",
        "running": True,
        "being_drained": app.leaving,
        "os_pid": str(os.getpid()),
        "uptime": (app.clock.now_us() - started_us) // US_PER_MS,
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "rates_mode": RATES_MODE,
        "mem_limit": app.options.memory_octets_max,
        "mem_alarm": intake.low_memory,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": app.options.disk_free_min_octets,
        "disk_free_alarm": intake.low_disk,
        "fd_total": descriptors_max,
        "sockets_total": app.options.connections_max,
        "proc_total": threads_max if threads_max != resource.RLIM_INFINITY else 1 << 20,
        "partitions": [],
        "cluster_links": [],
        "net_ticktime": 60,
        "log_files": ["stderr"],
        "db_dir": app.folder.path,
        "config_files": [],
        "enabled_plugins": [],
        "exchange_types": exchange_types(),
        "auth_mechanisms": auth_mechanisms(),
        "applications": [
            {"name": "forebay", "description": "The broker", "version": __version__},
            {"name": "python", "description": platform.python_implementation(), "version": platform.python_version()},
        ],
        "contexts": contexts(app),
        **rates.stats(rates.node, NODE_FIELDS, usage, asked.node, 0, len(usage)),
    }


def auth_mechanisms() -> list[dict[str, object]]:
    """The mechanisms by which AMQP clients may log in."""
    names = [*MECHANISMS.decode().split(), "EXTERNAL"]
    return [{"name": name, "description": MECHANISM_NOTES.get(name, name), "enabled": True} for name in names]
