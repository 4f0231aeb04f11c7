"""Messages through a broker that is held in one process: what `instructions.py` has counted.

python bench/held_load.py CASE COUNT
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from forebay.node.node import Node
from tests.conformance.amqp091 import raw as amqp091
from tests.conformance.mqtt import raw as mqtt
from tests.node_rig import Counted, NodeRig

BATCH = 25  # messages of one turn


class Held(NodeRig):
    """A node whose files are as large as a user's."""

    def make_node(self) -> Node:
        return Node(self.options, self.disk, self.clock, Counted())


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
