"""A file system that is frozen under a broker: what goes on, what is said of it, and that nothing confirmed is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import requests

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import connected, publish
from tests.frozen_disk import LoopDisk, loop_disk
from tests.waiting import until

SAID = "has not answered within disk_answer_timeout_ms="
OVER = "answers again"
BLOCKED = "waiting for the disk, which does not answer"
EXIT_STORAGE = 74
WAIT_S = 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """To be asked for before brokers, which go first then."""
    with loop_disk(tmp_path / "loop") as made:
        yield made


def url(broker: BrokerProcess, path: str) -> str:
    return f"http://127.0.0.1:{broker.port('http')}{path}"


def get(broker: BrokerProcess, path: str) -> requests.Response:
    return requests.get(url(broker, path), auth=("guest", "guest"), timeout=WAIT_S)


def is_silent(client: object, seconds: float) -> bool:
    """True if a client of `raw` hears nothing for so long."""
    client.socket.settimeout(seconds)  # type: ignore[attr-defined]
    try:
        client.packet()  # type: ignore[attr-defined]
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(WAIT_S)  # type: ignore[attr-defined]
    return False


def test_a_frozen_disk_stops_confirms_and_nothing_else(
    disk: LoopDisk, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(data=disk.folder / "data", http="127.0.0.1:0", disk_answer_timeout_ms=300)
    channel = open_channel(broker)
    told: list[str] = []
    channel.connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    channel.connection.add_on_connection_unblocked_callback(lambda *_: told.append("goes on"))
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "kept")
    reader = connected(broker, "reader")
    reader.subscribe("live", qos=0)
    channel.basic_publish("", "q", b"of a publisher, who is told")
    assert channel.basic_get("q", auto_ack=True)[0] is not None
    writer = connected(broker, "writer")
    assert writer.publish("kept", b"before") == 0
    assert get(broker, "/health").status_code == 200
    disk.freeze()
    try:
        writer.send(publish("kept", b"to be confirmed", qos=1, id=7))
        live = connected(broker, "live writer")
        for number in range(20):
            live.send(publish("live", b"%d" % number))
            assert reader.delivery().body == b"%d" % number
        assert channel.basic_get("q", auto_ack=False)[2] == b"before"  # from memory
        assert channel.basic_get("q", auto_ack=False)[2] == b"to be confirmed"
        until(lambda: SAID in broker.log_text() and told, meanwhile=partial(channel.connection.process_data_events, 0))
        assert told == [BLOCKED]
        health = get(broker, "/health")
        assert health.status_code == 503 and SAID in health.json()["reason"]
        assert get(broker, "/metrics").status_code == 200
        check = get(broker, "/api/health/checks/local-alarms")
        assert check.status_code == 503 and SAID in check.json()["reason"]
        assert get(broker, "/api/nodes").json()[0]["disk_free_alarm"]
        assert is_silent(writer, 0.3)
    finally:
        disk.thaw()
    writer.acked(7)
    until(lambda: len(told) > 1, meanwhile=partial(channel.connection.process_data_events, 0))
    assert told == [BLOCKED, "goes on"]
    until(lambda: get(broker, "/health").status_code == 200)
    until(lambda: OVER in broker.log_text())  # a thread writes it
    assert broker.log_text().count(SAID) == 1 and broker.log_text().count(OVER) == 1
    for each in (reader, writer, live):
        each.close()


def test_a_flood_on_a_frozen_disk_leaves_the_loop_free(
    disk: LoopDisk, start_broker: Callable[..., BrokerProcess]
) -> None:
    """Beyond the room that is reserved, and the length at which a file of the log is full."""
    broker = start_broker(
        data=disk.folder / "data",
        http="127.0.0.1:0",
        disk_answer_timeout_ms=300,
        wal_octets_max=4 << 20,
        wal_chunk_octets=256 << 10,
        settle_margin_octets=64 << 10,
    )
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "kept")
    channel.queue_declare("gone", durable=True)
    writer = connected(broker, "writer")
    reader = connected(broker, "reader")
    reader.subscribe("live", qos=0)
    live = connected(broker, "live writer")
    disk.freeze()
    try:
        for id in range(1, 400):
            writer.send(publish("kept", bytes(32 << 10), qos=1, id=id))
            if id % 20 == 0:
                live.send(publish("live", b"%d" % id))
                assert reader.delivery().body == b"%d" % id
        until(lambda: SAID in broker.log_text())
        assert get(broker, "/health").status_code == 503
        live.send(publish("live", b"still"))
        assert reader.delivery().body == b"still"
    finally:
        disk.thaw()
    for id in range(1, 400):
        writer.acked(id)
    broker.kill9()
    broker.start()
    assert open_channel(broker).queue_declare("q", passive=True).method.message_count == 399


def test_a_stop_does_not_wait_for_a_frozen_disk_for_ever(
    disk: LoopDisk, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(data=disk.folder / "data", disk_answer_timeout_ms=300, drain_timeout_ms=500)
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "kept")
    writer = connected(broker, "writer")
    assert writer.publish("kept", b"before") == 0
    disk.freeze()
    try:
        writer.send(publish("kept", b"never confirmed", qos=1, id=7))
        until(lambda: SAID in broker.log_text())
        os.kill(broker.pid, signal.SIGTERM)
        until(lambda: "the files are left as they are" in broker.log_text())
    finally:
        disk.thaw()
    assert broker.wait() == EXIT_STORAGE
    broker.start()
    assert open_channel(broker).basic_get("q", auto_ack=True)[2] == b"before"


def test_a_folder_of_the_log_that_hangs_stops_nobody(
    disk: LoopDisk, start_broker: Callable[..., BrokerProcess]
) -> None:
    log = disk.folder / "broker.log"
    audit = disk.folder / "audit.log"
    broker = start_broker(log_file=str(log), log_level="debug", log_events=["*"], audit_log=str(audit))
    channel = open_channel(broker)
    disk.freeze()
    try:
        for number in range(20):
            channel.queue_declare(f"q{number}", durable=True)
            connected(broker, f"client {number}").close()
            assert "q19" not in audit.read_text(encoding="utf-8")
    finally:
        disk.thaw()
    until(lambda: "q19" in audit.read_text(encoding="utf-8"))
    until(lambda: "client 19" in log.read_text(encoding="utf-8"))
