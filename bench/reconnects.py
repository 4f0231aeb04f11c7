#!/usr/bin/env python3
"""Thousands of MQTT clients that reconnect beside a publisher at full speed, through a broker held in one process.

usage: PYTHONPATH=. bench/reconnects.py [--clients 5000] [--turns 2000]     with the forebay that Python finds

Each of the clients has a subscription of its own, to a topic on which nobody publishes. In each turn some of them lose
their connections, connect again and subscribe again; then the publisher sends 25 messages of 64 octets on 25 topics,
which one more client has subscribed to with a wildcard. Prints, for the same number of turns with 0, 1 and 5 reconnects
in each: CPU of a published message (all that comes between its octets and those of its delivery), CPU of a
reconnect, and the messages that the publisher gets through in a second of the processor, reconnects included.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path

from forebay.broker.publish import router
from tests.conformance.mqtt.raw import publish
from tests.mqtt_rig import MqttRig, RigClient
from tests.node_rig import Line

BATCH = 25  # messages of one turn, each on a topic of its own
WARM_TURNS = 20
RECONNECTS = (0, 1, 5)  # of one turn
BODY = b"x" * 64
MICROSECOND_NS = 1000


class Reconnecting:
    """The clients that come and go, and the one that gets what is published."""

    def __init__(self, rig: MqttRig, count: int) -> None:
        self.rig = rig
        self.next = 0
        self.sink = rig.connected("sink")
        self.sink.subscribe("load/#")
        self.clients = [self.connected(number) for number in range(count)]

    def connected(self, number: int) -> RigClient:
        """A client with its subscription."""
        client = self.rig.connected(f"client-{number}")
        client.subscribe(f"of/{number}/#")
        self.rig.lines[:] = self.rig.lines[:1]  # none of the others has octets that wait to be read
        return client

    def reconnect(self, count: int) -> None:
        """Let so many lose their connections, and come back."""
        for _ in range(count):
            number = self.next
            self.next = (number + 1) % len(self.clients)
            self.clients[number].vanish()
            self.clients[number] = self.connected(number)


def measure(clients: Reconnecting, source: Line, octets: bytes, turns: int, reconnects: int) -> str:
    """Publish for so many turns; a row of the table."""
    rig = clients.rig
    sink = clients.sink.line
    publishing = reconnecting = 0
    for _ in range(turns):
        began = time.process_time_ns()
        clients.reconnect(reconnects)
        between = time.process_time_ns()
        source.sendall(octets)
        rig.turn()
        publishing += time.process_time_ns() - between
        reconnecting += between - began
        assert sink.sent.count(BODY) == BATCH
        sink.sent.clear()
    messages = turns * BATCH
    each = publishing / messages / MICROSECOND_NS
    back = f"{reconnecting / (turns * reconnects) / MICROSECOND_NS:,.0f}" if reconnects else "-"
    rate = messages / (publishing + reconnecting) * 1e9
    return f"| {reconnects} | {each:.2f} | {back} | {rate:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--turns", type=int, default=2000)
    given = parser.parse_args()
    print(f"{'interpreted' if router.__file__.endswith('.py') else 'compiled'}, {given.clients:,} clients", flush=True)
    octets = b"".join(publish(f"load/{at}", BODY) for at in range(BATCH))
    with tempfile.TemporaryDirectory() as folder:
        rig = MqttRig(Path(folder))
        source = rig.connected("source").line
        clients = Reconnecting(rig, given.clients)
        gc.collect()
        gc.freeze()
        measure(clients, source, octets, WARM_TURNS, 1)
        print("| reconnects a turn | µs a message | µs a reconnect | messages/s |")
        for reconnects in RECONNECTS:
            print(measure(clients, source, octets, given.turns, reconnects), flush=True)


if __name__ == "__main__":
    main()
