"""A thousand connections come, work and go, and the process is as it was."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from tests.conformance.amqp091 import raw
from tests.conformance.mqtt.raw import connect, publish, subscribe
from tests.fuzz import amqp, blocks
from tests.fuzz.held import Held
from tests.fuzz.upkeep import of_connections

FIRST: Final = 200  # connections, after which everything that is made once is there
CONNECTIONS: Final = 1000
OWN_QUEUE: Final = (
    raw.method(1, raw.QUEUE_DECLARE, b"\0\0" + raw.short("own") + b"\x0c" + raw.table())
    + raw.method(1, raw.CONSUME, amqp.consume("own", "t"))
    + raw.publish(1, "own", b"held") * 3
    + raw.method(1, raw.PUBLISH, b"\0\0")[:-3]
)
HALF: Final = publish("a/b", b"x", 2, 9) + publish("a/b", b"y", 1, 10)[:-1]
ROUNDS: Final = 12
OBJECTS_MORE: Final = 50
OCTETS_MORE: Final = 8 << 10


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def come_and_go(rig: Held, connections: int) -> None:
    """Log in, leave something unfinished, and be gone; in no protocol is anything kept of it."""
    chance = Random(1)
    for number in range(connections):
        line = rig.connect("amqp" if number % 3 == 0 else "mqtt")
        if number % 3 == 0:
            line.put(amqp.login() + OWN_QUEUE)
        elif number % 3 == 1:
            line.put(connect(f"c{number}", 5) + subscribe(1, ("a/#", 1), ("$share/g/b", 1)) + HALF)
        else:
            line.put(blocks.login() + blocks.ask("ends", queues={}, wait_ms=30_000) + b"\x09\0\0\0\x01")
        rig.settle()
        if chance.random() < 0.3:
            line.stuff()
        line.close()
        rig.settle()
        rig.said.clear()
    rig.wait(2)
    assert not of_connections(rig.broker)


def test_a_thousand_connections_leave_nothing(traced: None) -> None:
    """Threads that other tests have left behind in this process may make objects meanwhile: not each time."""
    rig = Held()
    come_and_go(rig, FIRST)
    assert any(is_left_as_it_was(rig) for _ in range(ROUNDS))
    rig.close()


def is_left_as_it_was(rig: Held) -> bool:
    gc.collect()
    objects, octets = len(gc.get_objects()), tracemalloc.get_traced_memory()[0]
    come_and_go(rig, CONNECTIONS)
    gc.collect()
    more_objects, more_octets = len(gc.get_objects()) - objects, tracemalloc.get_traced_memory()[0] - octets
    return more_objects < OBJECTS_MORE and more_octets < OCTETS_MORE
