"""A sync that fails, and one that does not come back: what is confirmed, and what goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import connected, publish
from tests.preload import library
from tests.waiting import pause, until

EXIT_STORAGE = 74
SOURCE = Path(__file__).with_name("sync.c")
PAGE = os.sysconf("SC_PAGE_SIZE")
PENDING_OCTETS_MAX = 64 << 20  # of node/back_pressure/pressure.py
SLACK_OCTETS = 64 << 20  # what sockets and blocks hold on top, several times over


@pytest.fixture
def start_on_odd_disk(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> Callable[[str, Path], BrokerProcess]:
    """Starts a broker whose disk fails, or hangs, while a file exists."""

    def start(variable: str, flag: Path) -> BrokerProcess:
        broker = start_broker(wrapper=["env", f"LD_PRELOAD={library(SOURCE, tmp_path)}", f"{variable}={flag}"])
        broker.wrapper = []  # its next start is on a sound disk
        return broker

    return start


@pytest.mark.parametrize(
    ("variable", "error"), [("FAIL_SYNC", "Input/output error"), ("FULL_SYNC", "No space left on device")]
)
def test_a_failed_sync_ends_the_broker_unconfirmed(
    start_on_odd_disk: Callable[[str, Path], BrokerProcess], tmp_path: Path, variable: str, error: str
) -> None:
    flag = tmp_path / "fail"
    broker = start_on_odd_disk(variable, flag)
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    for number in range(10):
        channel.basic_publish("", "q", b"%d" % number)
    flag.touch()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel.basic_publish("", "q", b"never confirmed")
    assert broker.wait() == EXIT_STORAGE
    assert "nothing more is confirmed" in broker.log_text()
    assert error in broker.log_text()

    broker.start()
    channel = open_channel(broker)
    bodies = []
    while (got := channel.basic_get("q", auto_ack=True))[0] is not None:
        bodies.append(got[2])
    # What was confirmed is there; what was not may be, the write itself having worked.
    assert bodies[:10] == [b"%d" % number for number in range(10)]
    assert bodies[10:] in ([], [b"never confirmed"])


def test_while_the_disk_hangs_nothing_is_confirmed_and_what_needs_no_disk_goes_on(
    start_on_odd_disk: Callable[[str, Path], BrokerProcess], tmp_path: Path
) -> None:
    flag = tmp_path / "hold"
    broker = start_on_odd_disk("HOLD_SYNC", flag)
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "kept")
    reader = connected(broker, "reader")
    reader.subscribe("live", qos=0)
    flag.touch()
    writer = connected(broker, "writer")
    writer.send(publish("kept", b"to be confirmed", qos=1, id=7))
    live = connected(broker, "live writer")
    for number in range(20):
        live.send(publish("live", b"%d" % number))
        assert reader.delivery().body == b"%d" % number
    assert channel.basic_get("q", auto_ack=False)[2] == b"to be confirmed"  # a work queue need not wait either

    writer.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        writer.packet()
    flood(broker)
    flag.unlink()
    writer.socket.settimeout(60)
    writer.acked(7)
    for each in (reader, writer, live):
        each.close()


def test_a_disk_that_takes_two_seconds_each_time_is_said_once_and_everything_is_confirmed(
    start_on_odd_disk: Callable[[str, Path], BrokerProcess], tmp_path: Path
) -> None:
    flag = tmp_path / "slow"
    broker = start_on_odd_disk("VERY_SLOW_SYNC", flag)
    open_channel(broker).queue_declare("q", durable=True)
    open_channel(broker).queue_bind("q", "amq.topic", "kept")
    reader = connected(broker, "reader")
    reader.subscribe("live", qos=0)
    writer = connected(broker, "writer")
    live = connected(broker, "live writer")
    flag.touch()
    for id in range(1, 4):
        writer.send(publish("kept", b"%d" % id, qos=1, id=id))
        live.send(publish("live", b"%d" % id))
        assert reader.delivery().body == b"%d" % id
        writer.acked(id)
    assert broker.log_text().count("has not answered within") == 1
    flag.unlink()
    until(lambda: "answers again" in broker.log_text())
    assert broker.log_text().count("has not answered within") == 1
    for each in (reader, writer, live):
        each.close()


def flood(broker: BrokerProcess) -> None:
    """Publish far more than there may be in hand; the broker stops reading it."""
    before = int(Path(f"/proc/{broker.pid}/statm").read_text(encoding="ascii").split()[1])
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0))
    channel = connection.channel()
    sent = [0]

    def publish_on() -> None:
        with suppress(pika.exceptions.AMQPError, OSError):
            while True:
                channel.basic_publish("", "q", bytes(65_536))
                sent[0] += 65_536

    threading.Thread(target=publish_on, daemon=True).start()
    last = -1
    while last != sent[0]:  # nobody tells that no more is read, and the system's own buffers take some
        last = sent[0]
        pause(1)
    after = int(Path(f"/proc/{broker.pid}/statm").read_text(encoding="ascii").split()[1])
    assert PENDING_OCTETS_MAX // 2 < sent[0] < PENDING_OCTETS_MAX + SLACK_OCTETS
    assert (after - before) * PAGE < 2 * PENDING_OCTETS_MAX + SLACK_OCTETS
