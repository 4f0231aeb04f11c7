"""A block of a queue's file that cannot be read: that queue says so to everybody who asks, and all else goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import SUBACK, connected, split_block, subscribe
from tests.crash.test_sync_error import SOURCE
from tests.preload import library
from tests.unit.cli.commands import Forebay
from tests.vhosts import OneVhost
from tests.waiting import until

QUEUES = (b"orders", b"stream", b"other")
COUNT = 4
FILL = b" " * 9000
IMPLEMENTATION_ERROR = 0x83


def body(number: int) -> bytes:
    return b"%d" % number + FILL


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a segment for each of the messages 0 to 3 of each queue."""
    folder = tmp_path / "data"
    opened = OneVhost(folder)
    opened.declare(b"orders")
    opened.declare(b"stream", x_queue_type="stream")
    opened.declare(b"other")
    for number in range(COUNT):
        for queue in QUEUES:
            opened.publish(b"", queue, body(number))
        opened.settle()
        opened.checkpoint()
        for _ in range(4):
            opened.flush()
            opened.housekeep()
    opened.stop()
    return folder


def segment(data: Path, queue: bytes, number: int) -> Path:
    return data / "queues" / str(1 + QUEUES.index(queue)) / f"{number:020d}.seg"


def damage(data: Path, queue: bytes, number: int) -> Path:
    """Change an octet of the block that has this message."""
    path = segment(data, queue, number)
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), b"\xff", 1000)
    return path


def got_until_cancelled(channel: BlockingChannel, queue: str, **arguments: object) -> list[int]:
    """The numbers of the messages that a consumer is given before the broker cancels it."""
    found: list[int] = []
    cancelled: list[object] = []

    def take(channel: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        found.append(int(body.split()[0]))
        channel.basic_ack(method.delivery_tag or 0)

    channel.basic_qos(prefetch_count=100)
    channel.add_on_cancel_callback(cancelled.append)
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.basic_consume(queue, take, arguments=given)
    until(lambda: bool(cancelled), meanwhile=lambda: channel.connection.process_data_events(0.05))
    return found


def refused(broker: BrokerProcess, ask: Callable[[BlockingChannel], object]) -> tuple[int, str]:
    """Code and text with which a channel ends."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        ask(open_channel(broker))
    return closed.value.reply_code, closed.value.reply_text


def all_of(channel: BlockingChannel, queue: str) -> list[int]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        assert got[2] is not None
        found.append(int(got[2].split()[0]))
    return found


def test_the_queue_says_so_and_all_else_goes_on(start_broker: Callable[..., BrokerProcess], data: Path) -> None:
    path = damage(data, b"orders", 1)
    broker = start_broker(data=data)
    channel = open_channel(broker)
    assert got_until_cancelled(channel, "orders") == [0]
    for ask in (
        lambda channel: channel.basic_get("orders"),
        lambda channel: channel.basic_consume("orders", lambda *_: None),
    ):
        code, text = refused(broker, ask)
        assert code == 406
        where = f"queue 'orders' is damaged: {path}: at octet 40: queue 1, offsets 1 to 1: "
        assert text.removeprefix("PRECONDITION_FAILED - ").startswith(where[:200])
    assert all_of(channel, "other") == [0, 1, 2, 3]
    for queue in ("orders", "other"):
        channel.basic_publish("", queue, body(4))
    assert all_of(channel, "other") == [4]
    until(lambda: "everything else goes on" in broker.log_text())

    client = connected(broker, "reader")
    client.send(subscribe(1, ("$queue/orders", 1)))
    properties, codes = split_block(client.expect(SUBACK)[2:])
    assert list(codes) == [IMPLEMENTATION_ERROR]
    assert b"is damaged" in properties
    client.close()

    channel.queue_purge("orders")
    channel.basic_publish("", "orders", body(5))
    assert all_of(channel, "orders") == [5]


def test_readers_of_a_stream_go_on_behind_it(start_broker: Callable[..., BrokerProcess], data: Path) -> None:
    damage(data, b"stream", 1)
    broker = start_broker(data=data)
    channel = open_channel(broker)
    assert got_until_cancelled(channel, "stream", x_stream_offset=0) == [0]
    found: list[int] = []

    def take(channel: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        found.append(int(body.split()[0]))
        channel.basic_ack(method.delivery_tag or 0)

    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume("stream", take, arguments={"x-stream-offset": 2})
    channel.basic_publish("", "stream", body(4))
    until(lambda: found == [2, 3, 4], meanwhile=lambda: channel.connection.process_data_events(0.05))


def test_an_alarm_is_set_until_it_is_over(start_broker: Callable[..., BrokerProcess], data: Path) -> None:
    path = damage(data, b"orders", 1)
    events = ["queue.damaged", "alarm.*"]
    broker = start_broker(data=data, http="127.0.0.1:0", events=events)
    channel = open_channel(broker)
    assert got_until_cancelled(channel, "orders") == [0]
    forebay = Forebay(broker)
    until(lambda: forebay.run("status").returncode == 1)
    said = forebay.run("status").stdout
    assert "alarms     messages cannot be read; forebay log repair mends it while the broker is stopped" in said
    assert f"damaged    queue orders of vhost /, 1 to 1: {path} at octet 40: " in said
    (found,) = json.loads(forebay.run("status", "--json").stdout)["damages"]
    assert (found["queue"], found["first"], found["last"], found["file"]) == ("orders", 1, 1, str(path))

    with httpx.Client(base_url=f"{broker.http_url}/api", auth=("guest", "guest")) as http:
        answer = http.get("/health/checks/alarms")
        assert (answer.status_code, answer.json()["alarms"][0]["resource"]) == (503, "damage")
        assert http.get("/health/checks/ready-to-serve-clients").status_code == 200
        assert http.get(f"{broker.http_url}/ready").json() == {"status": "degraded"}
        assert "forebay_damaged_blocks 1" in http.get(f"{broker.http_url}/metrics").text
        explained = {at: http.get("/forebay/explain", params={"queue": "orders", "offset": at}).json() for at in (1, 2)}
        assert explained[1]["found"][0]["state"] == "damaged"
        assert str(path) in explained[1]["found"][0]["summary"]
        reasons = {each["code"]: each for each in explained[2]["found"][0]["reasons"]}
        assert (reasons["behind_damage"]["first"], reasons["behind_damage"]["file"]) == (1, str(path))
        browsed = http.get("/forebay/queues/%2F/orders/messages", params={"from": 1})
        assert browsed.status_code == 503
        assert str(path) in browsed.json()["reason"]

    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=10)
    heard: list[bytes] = []
    channel.basic_consume("$events", lambda *got: heard.append(got[3]), arguments={"x-stream-offset": "first"})
    until(lambda: len(heard) >= 2, meanwhile=lambda: channel.connection.process_data_events(0.05))
    assert any(b'"queue.damaged"' in each and b'"queue":"orders"' in each for each in heard)
    assert any(b'"alarm.set"' in each and b'"alarm":"damage"' in each for each in heard)

    open_channel(broker).queue_purge("orders")
    until(lambda: forebay.run("status").returncode == 0)


def test_what_the_disk_gives_again_is_delivered(start_broker: Callable[..., BrokerProcess], data: Path) -> None:
    flag = data.parent / "fail"
    broker = start_broker(data=data, wrapper=["env", f"LD_PRELOAD={library(SOURCE, data.parent)}", f"FAIL_READ={flag}"])
    flag.touch()
    channel = open_channel(broker)
    assert got_until_cancelled(channel, "orders") == []
    assert "Input/output error" in refused(broker, lambda channel: channel.basic_get("orders"))[1]
    until(lambda: "everything else goes on" in broker.log_text())
    flag.unlink()
    assert all_of(open_channel(broker), "orders") == [0, 1, 2, 3]
    until(lambda: "over, as it can be read" in broker.log_text())


def test_a_damaged_index_keeps_one_queue_from_going_on(start_broker: Callable[..., BrokerProcess], data: Path) -> None:
    path = segment(data, b"orders", 1)
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), b"\xff", path.stat().st_size - 60)
    broker = start_broker(data=data)
    assert got_until_cancelled(open_channel(broker), "orders") == [0]
    channel = open_channel(broker)
    assert all_of(channel, "other") == [0, 1, 2, 3]
    text = f"{path}: at octet 0: queue 1, offsets 1 to 1: the segment's index is damaged"
    until(lambda: text in broker.log_text())
    broker.restart()
    assert all_of(open_channel(broker), "other") == []
