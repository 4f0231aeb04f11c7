"""A full disk: publishers are told, consumers go on, and it ends when there is room again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import V311, connected, publish
from tests.conformance.mqtt.statements import statement
from tests.waiting import until

DISK = "24m"
BODY = b"x" * 16_384
QUOTA_EXCEEDED = 0x97


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with very little room; to be asked for before brokers, which go first then."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert mounted.returncode == 0, f"this test mounts a small file system and needs to be root: {mounted.stderr}"
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def publish_until_refused(channel: BlockingChannel) -> int:
    """Publish until the broker says no; how many it took."""
    for accepted in range(10_000):
        try:
            channel.basic_publish("", "q", BODY + b"%d" % accepted)
        except pika.exceptions.NackError:
            return accepted
    raise AssertionError("the disk never was full")


def test_disk_full_refuses_publishers_and_recovers(
    small_disk: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(
        data=small_disk,
        disk_free_min_octets=0,
        wal_octets_max=8 << 20,
        wal_chunk_octets=1 << 20,
        settle_margin_octets=1 << 18,
    )
    channel = open_channel(broker)
    told: list[str] = []
    channel.connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    channel.connection.add_on_connection_unblocked_callback(lambda *_: told.append("there is room"))
    channel.queue_declare("q", durable=True)
    accepted = publish_until_refused(channel)
    assert 200 < accepted < 2000
    serve = partial(channel.connection.process_data_events, 0.01)
    until(lambda: "no room" in broker.log_text() and told, meanwhile=serve)
    assert told == ["low on disk"]

    # Consumers go on: everything accepted is there, in order, and settles.
    other = open_channel(broker)
    for number in range(accepted):
        frame, _, body = other.basic_get("q")
        assert frame is not None and body == BODY + b"%d" % number
        other.basic_ack(frame.delivery_tag)
    assert other.basic_get("q")[0] is None

    # What was settled made room.
    def is_taken() -> bool:
        try:
            channel.basic_publish("", "q", b"again")
        except pika.exceptions.NackError:
            return False
        return True

    until(is_taken, "room after everything was settled", meanwhile=serve)
    until(lambda: len(told) > 1, meanwhile=serve)
    assert told == ["low on disk", "there is room"]
    broker.kill9()
    broker.start()
    last = open_channel(broker)
    bodies = []
    while (got := last.basic_get("q", auto_ack=True))[0] is not None:
        bodies.append(got[2])
    assert b"again" in bodies


@statement("MQTT-4.8.0-2", version=V311)
def test_disk_full_is_told_to_mqtt_publishers_by_code(
    small_disk: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(data=small_disk, disk_free_min_octets=0, wal_octets_max=8 << 20, wal_chunk_octets=1 << 20)
    open_channel(broker).queue_declare("q", durable=True)
    publisher = connected(broker, "publisher")
    codes: list[int] = []
    while not codes or (codes[-1] == 0 and len(codes) < 10_000):
        codes.append(publisher.publish("$queue/q/x", BODY))
    assert codes[-1] == QUOTA_EXCEEDED
    assert set(codes[:-1]) == {0}
    assert 200 < len(codes) < 2000
    # A client of 3.1.1 cannot be told: it gets no PUBACK, and the connection ends.
    old = connected(broker, "old", V311)
    old.send(publish("$queue/q/x", BODY, 1, 7, V311))
    assert old.ended()
    publisher.close()
    old.close()
