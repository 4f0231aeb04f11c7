#!/usr/bin/env python3
"""The longest step of a broker that one client's work causes: what every other client has to wait for, in CPU time.

usage: bench/turns.py [--only WORD]

A node is held in this process (`tests/node_rig.py`), without sockets. A step is what is done at one read, or one turn.
CPU time counts, so the figures hold beside other work. Run it with the Python of a compiled build. `bench/stalls.py`
measures the same from outside, as answers of a broker to bystanders.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stalls import every_pattern, near_topics

from forebay.broker.mqtt.client_session import Subscription
from forebay.core.message import MQTT, RETAIN
from tests.conformance.amqp091.raw import connect
from tests.conformance.amqp091.raw import publish as amqp_publish
from tests.conformance.mqtt.raw import publish, subscribe
from tests.mqtt_rig import MqttRig

LEVELS = 15
AWAY = 1_000_000  # numbers of connections that there are not
MILLISECONDS = 1000


class Steps:
    """The steps of one attack, each timed."""

    def __init__(self, rig: MqttRig) -> None:
        self.rig = rig
        self.times: list[float] = []
        gc.collect()

    def run(self, send: Callable[[bytes], None], octets: bytes) -> None:
        """Send octets in one read, and let the node make turns until it has nothing left to do."""
        self.take(lambda: send(octets))
        while self.rig.broker.is_due:
            self.take(self.rig.turn)

    def take(self, step: Callable[[], None]) -> None:
        """Take one step."""
        began = time.process_time()
        step()
        self.times.append((time.process_time() - began) * MILLISECONDS)


def matching_filters(rig: MqttRig, topics: int) -> Steps:
    """Publishes to topics that match up to 32,768 subscriptions of another client."""
    sink, source = rig.connected("sink"), rig.connected("source")
    filters = every_pattern(LEVELS)
    for at in range(0, len(filters), 500):
        sink.send(subscribe(1, *[(each, 0) for each in filters[at : at + 500]]))
        sink.granted()
    steps = Steps(rig)
    steps.run(source.send, b"".join(publish(topic, b"x") for topic in near_topics(LEVELS, topics)))
    return steps


def kept_sessions(rig: MqttRig, sessions: int, publishes: int) -> Steps:
    """Publishes to sessions whose clients are away."""
    clients = rig.vhost.clients
    for number in range(sessions):
        client = rig.vhost.sessions.attach(b"%d" % number, AWAY + number, False, 1000, None)
        clients.subscribe(client, Subscription(client, b"all", 1, rig.vhost.sessions.next_offset()))
        clients.detach(client, client.connection)
    rig.turn()
    source = rig.connected("source")
    steps = Steps(rig)
    steps.run(source.send, b"".join(publish("all", b"x", 1, number + 1) for number in range(publishes)))
    return steps


def many_filters(rig: MqttRig, filters: int) -> Steps:
    """A SUBSCRIBE of many filters."""
    client = rig.connected("client")
    steps = Steps(rig)
    steps.run(client.send, subscribe(1, *[(f"a/{number}", 0) for number in range(filters)]))
    return steps


def retained_messages(rig: MqttRig, topics: int) -> Steps:
    """A subscription to many topics with a retained message."""
    for number in range(topics):
        rig.vhost.retained.put(b"r/%d/x" % number, MQTT | RETAIN, b"", b"x", rig.clock.us)
    rig.turn()
    client = rig.connected("client")
    steps = Steps(rig)
    steps.run(client.send, subscribe(1, ("r/+/none", 0), ("r/#", 0)))
    return steps


def many_queues(rig: MqttRig, queues: int, publishes: int) -> Steps:
    """Publishes to many queues."""
    catalog = rig.vhost.catalog
    for number in range(queues):
        catalog.declare_queue(b"q%d" % number, False, False, False, {}, 0)
        catalog.bind(b"q%d" % number, b"amq.fanout", b"", {})
    with connect(rig) as raw:
        rig.settle()
        steps = Steps(rig)
        steps.run(raw.send, amqp_publish(1, "", b"x", "amq.fanout") * publishes)
    return steps


ATTACKS: dict[str, Callable[[MqttRig], Steps]] = {
    "PUBLISH, 1 topic, 32,768 matching filters": lambda rig: matching_filters(rig, 1),
    "PUBLISH, 16 topics, 32,768 matching filters": lambda rig: matching_filters(rig, 16),
    "PUBLISH, 121 topics, 32,768 matching filters": lambda rig: matching_filters(rig, 121),
    "PUBLISH, 50,000 kept sessions": lambda rig: kept_sessions(rig, 50_000, 1),
    "PUBLISH, 100 times 10,000 kept sessions": lambda rig: kept_sessions(rig, 10_000, 100),
    "SUBSCRIBE, 100,000 filters": lambda rig: many_filters(rig, 100_000),
    "SUBSCRIBE, 200,000 retained messages": lambda rig: retained_messages(rig, 200_000),
    "publish, 5,000 queues": lambda rig: many_queues(rig, 5_000, 1),
    "publish, 100 times 5,000 queues": lambda rig: many_queues(rig, 5_000, 100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="attacks with this word in their names")
    options = parser.parse_args()
    gc.disable()  # as the server collects: seldom, see server/system/heap.py
    print("| attack | steps | longest, ms | all, ms |\n|---|---:|---:|---:|", flush=True)
    for name, attack in ATTACKS.items():
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="forebay-turns-") as folder:
            rig = MqttRig(Path(folder))
            times = attack(rig).times
            rig.close()
        print(f"| {name} | {len(times)} | {max(times):.0f} | {sum(times):.0f} |", flush=True)


if __name__ == "__main__":
    main()
