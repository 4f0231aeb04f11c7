"""Clients that stop reading: the broker's memory stays bounded, others go on, and reading again brings the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.blocks import BlockClient
from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.block_reads import blocks_of
from tests.broker_process import BrokerProcess
from tests.conformance.amqp091.raw import connect as amqp_connect
from tests.conformance.mqtt.raw import Raw, connect, connected, publish, subscribe, will
from tests.waiting import until

BODY = b"x" * 65_536
COUNT = 1600  # 100 MiB
CACHE_OCTETS = 4 << 20
BUFFER_OCTETS = 1 << 20
# What a turn may hand out at once, what a connection may have waiting, the cache, and the same again for slack.
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


def test_where_too_much_waits_for_all_slow_clients_the_worst_is_ended(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(send_buffer_octets_max=8 << 20, send_buffers_octets_max=12 << 20)
    fill(broker, "q", 700)
    with ExitStack() as slow:
        for _ in range(3):
            slow.enter_context(amqp_connect(broker)).consume("q")
        until(lambda: "for all together more than" in broker.log_text(), "the end of the slowest")
        with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
            protocols = [each["protocol"] for each in control.items("connection.list")]
    assert 1 <= protocols.count("AMQP 0-9-1") - 1 < 3  # one publishes
