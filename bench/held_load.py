"""Messages through a broker that is held in one process: what `instructions.py` has counted.

python bench/held_load.py CASE COUNT
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from forebay.log.store import Store
from forebay.node.wanted import store_options
from tests.conformance.amqp091 import raw as amqp091
from tests.conformance.mqtt import raw as mqtt
from tests.node_rig import Line, NodeRig

BATCH = 25  # messages of one turn
PREFETCH = 300
CONSUMERS = 10  # that share a queue
DELIVER = b"\x00\x3c\x00\x3c"  # class and method; bodies have no such octets


class Held(NodeRig):
    """A node whose files are as large as a user's."""

    def make_store(self) -> Store:
        return Store(self.disk, self.clock, store_options(self.options))


def amqp(rig: NodeRig, octets: int, count: int) -> None:
    """Publish with confirms, and consume with acknowledgements."""
    with amqp091.connect(rig) as source, amqp091.connect(rig) as sink:
        source.declare("q")
        source.confirm()
        sink.consume("q")
        batch = amqp091.publish(1, "q", b"x" * octets) * BATCH
        for upto in range(BATCH, count + 1, BATCH):
            source.send(batch)
            source.confirmed(upto)
            for tag in range(upto - BATCH + 1, upto + 1):
                assert sink.delivery()[0] == tag
            sink.settle(amqp091.ACK, upto, 1)


class Workers:
    """Consumers that share a queue, each on a connection of its own, and acknowledge what came in each turn."""

    def __init__(self, rig: NodeRig) -> None:
        self.rig = rig
        self.open = ExitStack()
        self.sinks = [self.open.enter_context(amqp091.connect(rig)) for _ in range(CONSUMERS)]
        self.tags = [0] * CONSUMERS
        for sink in self.sinks:
            sink.prefetch(PREFETCH)
            sink.consume("q")

    def take(self) -> int:
        """Acknowledge all that has come; how many messages that were."""
        self.rig.settle()
        came = 0
        for at, sink in enumerate(self.sinks):
            line = sink.socket
            assert isinstance(line, Line)
            count = (sink.rest + line.sent).count(DELIVER)
            sink.rest = b""
            line.sent.clear()
            if count:
                self.tags[at] += count
                sink.settle(amqp091.ACK, self.tags[at], 1)
            came += count
        return came


def shared(rig: NodeRig, batch: int, count: int) -> None:
    """Publish so many a turn to a queue that several consumers share."""
    with amqp091.connect(rig) as source:
        source.declare("q")
        source.confirm()
        workers = Workers(rig)
        octets = amqp091.publish(1, "q", b"x" * 64) * batch
        came = 0
        for upto in range(batch, count + 1, batch):
            source.send(octets)
            source.confirmed(upto)
            came += workers.take()
        while came < count:
            came += workers.take()


def backlog(rig: NodeRig, count: int) -> None:
    """Have several consumers share what waits in a queue."""
    with amqp091.connect(rig) as source:
        source.declare("q")
        source.confirm()
        octets = amqp091.publish(1, "q", b"x" * 64) * 250
        for upto in range(250, count + 1, 250):
            source.send(octets)
            source.confirmed(upto)
        workers = Workers(rig)
        came = 0
        while came < count:
            came += workers.take()


def stream(rig: NodeRig, views: int, count: int, has_filters: bool = False) -> None:
    """Publish with confirms to a stream of which there are so many views, whose filters, if any, take nothing."""
    with amqp091.connect(rig) as source:
        source.declare("q", arguments={"x-queue-type": "stream"})
        for number in range(views):
            filter: dict[str, object] = {"x-filter": f"routing_key = 'k{number}'"} if has_filters else {}
            source.declare(f"v{number}", arguments={"x-source": "q", **filter})
        source.confirm()
        batch = amqp091.publish(1, "q", b"x" * 64) * BATCH
        for upto in range(BATCH, count + 1, BATCH):
            source.send(batch)
            source.confirmed(upto)


def topic(rig: NodeRig, qos: int, octets: int, count: int) -> None:
    """Publish with a QoS to one subscriber."""
    source, sink = mqtt.connected(rig, "source"), mqtt.connected(rig, "sink")
    sink.subscribe("t", qos=qos)
    batch = b"".join(mqtt.publish("t", b"x" * octets, qos, at + 1 if qos else 0) for at in range(BATCH))
    for _ in range(count // BATCH):
        source.send(batch)
        for at in range(BATCH if qos else 0):
            source.acked(at + 1)
        for _ in range(BATCH):
            came = sink.delivery()
            if qos:
                sink.send(mqtt.puback(came.id))


CASES: dict[str, Callable[[NodeRig, int], None]] = {
    "amqp-64": lambda rig, count: amqp(rig, 64, count),
    "amqp-1024": lambda rig, count: amqp(rig, 1024, count),
    "amqp-shared-25": lambda rig, count: shared(rig, 25, count),
    "amqp-shared-100": lambda rig, count: shared(rig, 100, count),
    "amqp-shared-500": lambda rig, count: shared(rig, 500, count),
    "amqp-backlog": backlog,
    "amqp-stream": lambda rig, count: stream(rig, 0, count),
    "amqp-views-10": lambda rig, count: stream(rig, 10, count),
    "amqp-views-10-filtered": lambda rig, count: stream(rig, 10, count, has_filters=True),
    "mqtt-qos0-64": lambda rig, count: topic(rig, 0, 64, count),
    "mqtt-qos1-64": lambda rig, count: topic(rig, 1, 64, count),
}


def main() -> None:
    name, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        rig = Held(Path(folder))
        CASES[name](rig, count)
        rig.settle()


if __name__ == "__main__":
    main()
