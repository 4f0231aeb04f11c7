"""Blocks that cannot be read, below every part of a vhost: it says so and keeps them, and all else goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.broker.internal_log import DELAYED_LOG, RETAINED_LOG, SESSIONS_LOG
from forebay.core.errors import DAMAGED, DamagedBlock
from forebay.core.message import MQTT, RETAIN
from tests.conformance.mqtt.raw import publish
from tests.mqtt_rig import MqttRig
from tests.vhosts import OneVhost

FILL = b" " * 5000  # so long that each message has a segment of its own
SECOND_US = 1_000_000


def to_segments(opened: OneVhost) -> None:
    """Have all that is published in segments."""
    opened.settle()
    opened.checkpoint()
    for _ in range(4):
        opened.flush()
        opened.housekeep()
    assert len(opened.store.wals) == 1


def spoil(folder: Path, log: int, first: int) -> None:
    """Change an octet of the segment that begins with this offset, or change it back."""
    path = folder / "queues" / str(log) / f"{first:020d}.seg"
    with path.open("r+b") as file:
        octet = os.pread(file.fileno(), 1, 1000)
        os.pwrite(file.fileno(), bytes([octet[0] ^ 0x40]), 1000)


def filled(folder: Path, **arguments: object) -> OneVhost:
    """A queue with the messages 0 to 3."""
    opened = OneVhost(folder)
    opened.declare(b"dead")
    opened.declare(b"q", **arguments)
    for number in range(4):
        opened.publish(b"", b"q", b"%d" % number + FILL)
        to_segments(opened)
    return opened


def given(opened: OneVhost, queue: bytes = b"q") -> list[int]:
    """The bodies that can be got of a queue, until it is refused."""
    found: list[int] = []
    while True:
        delivery = opened.vhost.consumers.get(queue, 1, 1, True)
        opened.turn()
        if delivery is None:
            return found
        found.append(int(delivery.block.body(delivery.index).split()[0]))


def refused(ask: Callable[[], object]) -> DamagedBlock:
    with pytest.raises(DamagedBlock) as error:
        ask()
    assert error.value.reason == DAMAGED
    return error.value


ARGUMENTS: list[dict[str, object]] = [
    {},
    {"x_max_priority": 3},
    {"x_message_ttl": 3_600_000},
    {"x_max_length": 100},
    {"x_max_length_bytes": 100_000},
    {"x_max_length": 100, "x_overflow": "reject-publish"},
    {"x_max_length_bytes": 100_000, "x_overflow": "reject-publish"},
    {"x_queue_type": "quorum"},
    {"x_single_active_consumer": True},
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_a_queue_of_any_kind_says_so_and_loses_nothing_else(tmp_path: Path, arguments: dict[str, object]) -> None:
    opened = filled(tmp_path, **arguments)
    opened.restart()  # no block is in memory
    spoil(tmp_path, 2, 1)
    opened.restart()
    consumer = opened.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 0, {}, True)
    deliveries = opened.deliveries()
    opened.later(1000)
    assert [each.lease is not None for each in deliveries] in ([True], [])  # an ordered queue has to see all of them
    assert opened.cancelled == [consumer]
    assert "queue 'q' is damaged" in consumer.lost
    refused(lambda: opened.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 0, {}))
    opened.publish(b"", b"q", b"4" + FILL)
    opened.publish(b"", b"dead", b"other")
    opened.settle()
    opened.vhost.session_closed(1)
    opened.settle()
    assert given_others(opened) == ["other"]

    spoil(tmp_path, 2, 1)
    opened.restart()
    assert opened.kept(b"q") == [b"%d" % number + FILL for number in range(5)]
    opened.close()


def given_others(opened: OneVhost) -> list[str]:
    delivery = opened.vhost.consumers.get(b"dead", 2, 1, True)
    assert delivery is not None
    return [delivery.block.body(delivery.index).decode()]


def test_what_was_out_returns_though_it_cannot_be_read(tmp_path: Path) -> None:
    """A nack into an ordered queue has to know the message's priority."""
    opened = filled(tmp_path, x_max_priority=3)
    lease = opened.held(b"q")
    to_segments(opened)
    spoil(tmp_path, 2, 0)
    log = opened.vhost.catalog.queue(b"q").log
    for block in list(log.cached.values()):
        del log.cached[int(block.base)]
        log.cache.removed(log, block)
    assert opened.vhost.settling.nack(lease, lease.first, lease.count, 0) == lease.count
    opened.settle()
    assert "queue 'q' is damaged" in refused(lambda: opened.vhost.consumers.get(b"q", 1, 1, False)).text
    spoil(tmp_path, 2, 0)
    refused(
        lambda: opened.vhost.consumers.get(b"q", 1, 1, False)
    )  # where it waits among the others the next start finds out
    opened.restart()
    assert given(opened) == [0, 1, 2, 3]
    opened.close()


def test_dead_letters_wait_until_they_can_be_read(tmp_path: Path) -> None:
    opened = filled(tmp_path, x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=1000)
    spoil(tmp_path, 2, 1)
    opened.restart()
    opened.later(2000)
    opened.later(2000)
    assert [each.split()[0] for each in opened.kept(b"dead")] == [b"0"]
    spoil(tmp_path, 2, 1)
    opened.restart()
    opened.later(2000)
    assert [each.split()[0] for each in opened.kept(b"dead")] == [b"0", b"1", b"2", b"3"]
    opened.close()


def test_a_purge_ends_it(tmp_path: Path) -> None:
    for name, arguments in enumerate(ARGUMENTS):
        folder = tmp_path / str(name)
        opened = filled(folder, **arguments)
        spoil(folder, 2, 0)
        opened.restart()
        opened.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 0, {}, True)
        opened.turn()
        assert opened.cancelled
        opened.vhost.session_closed(1)
        opened.vhost.upkeep.purge(b"q")
        opened.publish(b"", b"q", b"9" + FILL)
        opened.settle()
        assert [int(each.split()[0]) for each in opened.kept(b"q")] == [9]
        consumer = opened.vhost.consumers.consume(b"q", 2, 1, b"c", False, False, 0, {}, True)
        assert (len(opened.deliveries()), consumer.lost) == (1, "")
        assert opened.store.logs.damages() == []
        opened.close()


def test_other_retained_messages_are_given(tmp_path: Path) -> None:
    opened = OneVhost(tmp_path)
    for number in range(3):
        opened.vhost.retained.put(b"t/%d" % number, MQTT | RETAIN, b"", b"%d" % number + FILL, opened.clock.us)
        to_segments(opened)

    def topics() -> list[bytes]:
        opened.vhost.retained.log.cached.clear()
        return [each.topic for each in opened.vhost.retained.matching(b"t/#", opened.clock.us)]

    spoil(tmp_path, RETAINED_LOG, 1)
    assert topics() == [b"t/0", b"t/2"]
    opened.restart()
    assert topics() == [b"t/0", b"t/2"]
    to_segments(opened)
    assert [each.base for each in opened.store.logs.damages()] == [1]
    spoil(tmp_path, RETAINED_LOG, 1)
    opened.restart()
    assert topics() == [b"t/0", b"t/1", b"t/2"]
    opened.close()


def test_other_delayed_messages_come(tmp_path: Path) -> None:
    opened = OneVhost(tmp_path)
    for number in range(3):
        due_us = opened.clock.us + (10 + number) * SECOND_US
        opened.vhost.delayed.put(b"", due_us, MQTT | 16, b"a/b", b"", b"%d" % number + FILL)
        to_segments(opened)

    def due(seconds: int) -> list[bytes]:
        opened.vhost.delayed.log.cached.clear()
        opened.clock.us += seconds * SECOND_US
        found = [each.body[:1] for each in opened.vhost.delayed.due(opened.clock.us, 10)]
        opened.settle()
        return found

    spoil(tmp_path, DELAYED_LOG, 1)
    assert due(11) == [b"0"]
    opened.restart()
    assert [each.body[:1] for each in opened.vhost.delayed.listed(9)] == [b"2"]
    assert due(60) == [b"2"]
    spoil(tmp_path, DELAYED_LOG, 1)
    opened.restart()
    assert due(0) == [b"1"]
    opened.close()


def test_a_session_gets_what_can_be_read_of_its_backlog(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    rig.durable("reader").subscribe("t/#")
    rig.crash()
    writer = rig.connected("writer")
    for number in range(3):
        writer.send(publish("t/x", b"%d" % number + FILL, 1, 1))
        writer.acked()
        for _ in range(4):
            rig.checkpoint()
            rig.flush()
            rig.housekeep()
    spoil(tmp_path, SESSIONS_LOG, 1)
    rig.crash()
    reader = rig.durable("reader", present=True)
    assert [reader.delivery().body[:1] for _ in range(2)] == [b"0", b"2"]
    rig.close()
