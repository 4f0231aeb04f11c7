"""Clients that merely go away, in the middle of whatever they do, are nobody's trouble but their own.

`FOREBAY_RUDE_SECONDS=30` is the long form; `FOREBAY_RUDE_SEED` has the clients do again what a run has printed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pika
import pytest

from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.process_figures import resident, targets
from tests.rude import (
    BULK,
    LIMITS,
    QUEUES,
    Crowd,
    Dialogue,
    Line,
    SecureLine,
    WebSocketLine,
    amqp_dialogue,
    blocks_dialogue,
    http_dialogue,
    mqtt_dialogue,
)
from tests.rude_amqp10 import amqp10_dialogue
from tests.waiting import until

BULK_RECORDS = 4_000
BULK_OCTETS = 4_000  # of each
CONNECTIONS_MIN = 30  # of a run of 5 s on a slow machine; a quick one has thousands
HANDLES_MORE_MAX = 4  # a segment or two may be new, or about to go
GROWTH_OCTETS_MAX = 96 << 20
OPTIONS: dict[str, object] = {
    "http": "127.0.0.1:0",
    "wal_octets_max": 4 << 20,
    "wal_chunk_octets": 1 << 20,
    "mqtt_max_mqueue_len": 100,
    "drain_timeout_ms": 1_000,  # that a client which does not read its goodbye keeps its socket
    "slow_reader_timeout_ms": 2_000,
}
PROTOCOLS: dict[str, tuple[str, list[Dialogue]]] = {
    "amqp": ("amqp", [amqp_dialogue]),
    "amqp10": ("amqp", [amqp10_dialogue]),
    "mqtt": ("mqtt", [mqtt_dialogue]),
    "blocks": ("amqp", [blocks_dialogue]),
    "tls": ("amqps", [amqp_dialogue, amqp10_dialogue, mqtt_dialogue, blocks_dialogue]),
    "websocket": ("mqtt_websocket", [mqtt_dialogue]),
    "amqp-websocket": ("mqtt_websocket", [amqp_dialogue, amqp10_dialogue]),
    "http": ("http", [http_dialogue]),
}


def prepare(broker: BrokerProcess) -> None:
    """The queues that all clients share, and one that is long enough to read in bulk, from files."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        for name in QUEUES:
            channel.queue_declare(name, durable=True, arguments=LIMITS)
        channel.queue_declare(BULK, durable=True)
        for _ in range(BULK_RECORDS):
            channel.basic_publish("", BULK, bytes(BULK_OCTETS))
        until(lambda: channel.queue_declare(BULK, passive=True).method.message_count == BULK_RECORDS)


def begin(broker: BrokerProcess, protocol: str, certificates: Certificates) -> Callable[[Random], Line]:
    """What makes a line for this protocol."""
    port = broker.port(PROTOCOLS[protocol][0])
    if protocol == "tls":
        return partial(SecureLine, port=port, context=certificates.client())
    if protocol == "websocket":
        return partial(WebSocketLine, port=port)
    if protocol == "amqp-websocket":
        return partial(WebSocketLine, port=port, protocol="amqp")
    return partial(Line, port=port)


def held(control: ControlClient) -> list[dict[str, object]]:
    """Queues of which a client still has something, and clients that are still there."""
    queues = [each for each in control.items("queue.list") if each["unacked"] or each["consumers"]]
    return queues + list(control.items("connection.list"))[1:]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_goes_away_rudely_leaves_nothing_behind(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, protocol: str
) -> None:
    certificates = Certificates(tmp_path / "certificates")
    broker = start_broker(**certificates.options(amqps="127.0.0.1:0", **OPTIONS))
    prepare(broker)
    before, open_before = resident(broker), len(targets(broker))
    crowd = Crowd(begin(broker, protocol, certificates), PROTOCOLS[protocol][1])
    print(f"FOREBAY_RUDE_SEED={crowd.seed}")
    crowd.run()
    print(protocol, crowd.counts.total(), dict(crowd.counts), crowd.refused)
    assert not crowd.refused
    assert crowd.counts.total() > CONNECTIONS_MIN
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        until(lambda: not held(control), lambda: str(held(control)))
    until(lambda: len(targets(broker)) <= open_before + HANDLES_MORE_MAX, lambda: str(targets(broker)))
    until(lambda: resident(broker) - before < GROWTH_OCTETS_MAX, lambda: f"{resident(broker)} octets, {before} before")
    print("memory", before >> 20, resident(broker) >> 20, "handles", open_before, len(targets(broker)))
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"work")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"work"
