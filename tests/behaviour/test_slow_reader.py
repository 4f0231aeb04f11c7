"""Clients that stop reading: the broker's memory stays bounded, others go on, and reading again brings the rest."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.blocks import BlockClient
from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.blocks import blocks_of
from tests.broker_process import BrokerProcess
from tests.conformance.amqp091.raw import connect as amqp_connect
from tests.conformance.mqtt.raw import DISCONNECT, Raw, connect, connected, publish, subscribe, will
from tests.waiting import until

BODY = b"x" * 65_536
COUNT = 1600  # 100 MiB
CACHE_OCTETS = 4 << 20
BUFFER_OCTETS = 1 << 20
# What a turn may deliver at once, what a connection may have waiting, the cache, and the same again for slack.
GROWTH_OCTETS_MAX = 2 * (CACHE_OCTETS + BUFFER_OCTETS + (4 << 20)) + (16 << 20)
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_consumer_that_does_not_read_costs_a_bounded_buffer(
    start_broker: Callable[..., BrokerProcess], no_ack: bool
) -> None:
    broker = start_broker(cache_octets_max=CACHE_OCTETS, send_buffer_octets_max=BUFFER_OCTETS)
    slow = open_channel(broker)
    slow.queue_declare("q", durable=True)
    bodies: list[int] = []

    def take(
        channel: BlockingChannel, method: pika.spec.Basic.Deliver, _properties: pika.BasicProperties, body: bytes
    ) -> None:
        bodies.append(int(body[:8]))
        if not no_ack:
            channel.basic_ack(method.delivery_tag)

    slow.basic_consume("q", take, auto_ack=no_ack)  # no prefetch limit; and from here on nothing is read
    publisher = open_channel(broker)
    before = resident(broker)
    for number in range(COUNT):
        publisher.basic_publish("", "q", b"%08d" % number + BODY)
    assert resident(broker) - before < GROWTH_OCTETS_MAX

    publisher.queue_declare("other", durable=True)
    publisher.basic_publish("", "other", b"goes on")
    assert publisher.basic_get("other", auto_ack=True)[2] == b"goes on"

    until(lambda: len(bodies) >= COUNT, meanwhile=lambda: slow.connection.process_data_events(0.1))
    assert bodies == list(range(COUNT))


def test_a_client_that_is_let_go_and_does_not_read_is_cut_off(start_broker: Callable[..., BrokerProcess]) -> None:
    """Its last octets are never taken, and all the same what it held returns and its will is published."""
    broker = start_broker(drain_timeout_ms=500)
    channel = open_channel(broker)
    channel.queue_declare("wills", durable=True)
    channel.queue_bind("wills", "amq.topic", "will")
    slow = Raw(broker)
    slow.send(connect("slow", beat=1, will=will("will", b"gone"), will_flags=4), subscribe(1, ("flood", 0)))
    slow.read(4)  # from here on it neither reads nor sends
    publisher = connected(broker, "publisher")
    for _ in range(32):
        publisher.send(publish("flood", bytes(1 << 20)))
    assert until(lambda: channel.basic_get("wills", auto_ack=True)[2]) == b"gone"
    slow.close()
    publisher.close()


def test_a_reader_of_blocks_that_does_not_read_costs_nothing(start_broker: Callable[..., BrokerProcess]) -> None:
    """Segments are sent from their files: while a client does not take them, nothing of them is in memory."""
    broker = start_broker(wal_octets_max=8 << 20, wal_chunk_octets=1 << 20, cache_octets_max=CACHE_OCTETS)
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    count = 600
    for number in range(count):
        channel.basic_publish("", "q", b"%08d" % number + BODY)
    until(lambda: broker.octets_in_segments() >= count * len(BODY) // 2, "most of the log in segments")

    def bodies(client: BlockClient) -> Iterator[bytes]:
        for fetched in client.fetch("q", 0, count):
            for block in blocks_of(fetched.blocks):
                yield from (block.body(at) for at in range(int(block.count)))

    address = f"127.0.0.1:{broker.amqp_port}"
    before = resident(broker)
    slow = [BlockClient.connect(address, "guest", "guest") for _ in range(20)]
    begun = [bodies(client) for client in slow]
    for reader in begun:
        assert next(reader)[:8] == b"00000000"
    with BlockClient.connect(address, "guest", "guest") as quick:
        assert [int(body[:8]) for body in bodies(quick)] == list(range(count))
        assert resident(broker) - before < GROWTH_OCTETS_MAX
        assert [int(body[:8]) for body in begun[0]] == list(range(1, count))
        slow[1].close()  # in the middle of an answer
        channel.queue_delete("q")
        assert list(quick.queues()) == []
        broker.restart()  # while 18 clients do not read
    for client in slow:
        client.close()


def fill(broker: BrokerProcess, queue: str, count: int) -> BlockingChannel:
    channel = open_channel(broker)
    channel.queue_declare(queue, durable=True)
    for number in range(count):
        channel.basic_publish("", queue, b"%08d" % number + BODY)
    return channel


def test_a_client_that_does_not_read_for_too_long_is_ended_and_others_get_what_it_held(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(send_buffer_octets_max=64 << 10, slow_reader_timeout_ms=1000)
    count = 200
    channel = fill(broker, "q", count)
    with amqp_connect(broker) as slow:
        slow.consume("q")  # and from here on it reads nothing
        got: set[int] = set()
        for method, _, body in channel.consume("q", inactivity_timeout=30):
            assert method is not None, "what the slow client holds never came back"
            got.add(int(body[:8]))
            channel.basic_ack(method.delivery_tag)
            if len(got) == count:
                break
    assert "it has not read for 1 s" in broker.log_text()


STALLED = 40
ALL_OCTETS = 16 << 20
SENT_OCTETS = 160 << 20
ALL_LIMITED = {"send_buffers_octets_max": ALL_OCTETS, "cache_octets_max": CACHE_OCTETS}
# What waits, once more while it is on its way, and what a turn brings.
HELD_GROWTH_MAX = 2 * ALL_OCTETS + (24 << 20)


def waiting_octets(broker: BrokerProcess) -> int:
    text = httpx.get(f"{broker.http_url}/metrics", auth=("guest", "guest"), timeout=60).text
    return int(
        float(next(line for line in text.splitlines() if line.startswith("forebay_send_buffer_bytes")).split()[1])
    )


@pytest.mark.parametrize("is_shared", [True, False])
def test_what_waits_for_many_that_do_not_read_is_held_at_their_limit(
    start_broker: Callable[..., BrokerProcess], is_shared: bool
) -> None:
    """At QoS 0, where nothing but its reader holds a message up; a reader beside them gets all it can take."""
    broker = start_broker(http="127.0.0.1:0", **ALL_LIMITED)
    with ExitStack() as stack:
        stalled = [stack.enter_context(closing(connected(broker, f"s{number}"))) for number in range(STALLED)]
        for number, raw in enumerate(stalled):
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.send(subscribe(1, ("all" if is_shared else f"of/{number}", 0)))
            raw.read(6)  # from here on it reads nothing
        reader = stack.enter_context(closing(connected(broker, "reader")))
        reader.send(subscribe(1, ("#", 0)))
        reader.read(6)
        publisher = stack.enter_context(closing(connected(broker, "publisher")))
        before = resident(broker)
        topics = ["all"] if is_shared else [f"of/{number}" for number in range(STALLED)]
        turn = b"".join(publish(topic, bytes(5000)) for topic in topics)
        taking = Thread(target=drain, args=(reader.socket,))
        taking.start()
        most = 0
        for _ in range(SENT_OCTETS // len(turn)):
            publisher.send(turn)
            most = max(most, resident(broker) - before)
        assert waiting_octets(broker) <= ALL_OCTETS
        assert most < HELD_GROWTH_MAX
        publisher.send(publish("all", b"the last"), DISCONNECT)
        taking.join(60)
        assert not taking.is_alive(), "the reader did not get the last message"
    assert "ended: " not in broker.log_text()


def drain(taken: socket.socket) -> None:
    """Read until the last message has come."""
    end = b""
    while b"the last" not in end:
        octets = taken.recv(1 << 20)
        assert octets, "the broker has ended the reader"
        end = end[-8:] + octets


def test_readers_over_http_that_do_not_read_are_held_as_well(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0", **ALL_LIMITED)
    head = b"GET /subscribe/all HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(STALLED):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port("http")), 60))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.sendall(head)
            assert raw.recv(100).startswith(b"HTTP/1.1 200")
        publisher = stack.enter_context(closing(connected(broker, "publisher")))
        before = resident(broker)
        most = 0
        turn = publish("all", bytes(5000)) * 10
        for _ in range(SENT_OCTETS // len(turn) // 4):
            publisher.send(turn)
            most = max(most, resident(broker) - before)
        assert waiting_octets(broker) <= ALL_OCTETS
        assert most < HELD_GROWTH_MAX


def test_consumers_that_do_not_read_share_what_may_wait(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0", send_buffer_octets_max=8 << 20, **ALL_LIMITED)
    publisher = fill(broker, "q", 900)
    with ExitStack() as slow:
        for _ in range(6):
            slow.enter_context(amqp_connect(broker)).consume("q")
        until(lambda: waiting_octets(broker) > ALL_OCTETS // 2, "much that waits")
        for _ in range(5):
            assert waiting_octets(broker) <= ALL_OCTETS
        with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
            protocols = [each["protocol"] for each in control.items("connection.list")]
    assert publisher.is_open
    assert protocols.count("AMQP 0.9.1") == 1 + 6  # one publishes, and nobody is ended


def test_where_one_message_is_too_much_for_all_that_do_not_read_the_worst_is_ended(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """Shares are held by giving nothing more: what has been written stays."""
    broker = start_broker(send_buffers_octets_max=12 << 20)
    with ExitStack() as stack:
        for number in range(3):
            raw = stack.enter_context(closing(connected(broker, f"s{number}")))
            raw.send(subscribe(1, ("big", 1)))
            raw.read(6)
        publisher = stack.enter_context(closing(connected(broker, "publisher")))
        publisher.send(publish("big", bytes(10 << 20), 1))
        until(lambda: "for all together more than" in broker.log_text(), "the end of the slowest")
        with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
            clients = [each.get("client_id") for each in control.items("connection.list")]
    assert 1 <= sum(str(client).startswith("s") for client in clients) < 3
