"""Queues and vhosts over their share: those who publish there are slowed down, and nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pika
import pika.exceptions
import pytest

from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.waiting import WAIT_S_MAX, until

BODY = b"x" * 8192
SHARE_OCTETS = 4 << 20
# Above the share come what one turn takes in, and each second one read of what the client has sent.
OVER_OCTETS = 24 << 20
DEADLINE_S = 60
REPEATED = 6  # each takes a second


class Flood:
    """A client that publishes to one queue for as long as the broker reads it."""

    def __init__(self, broker: BrokerProcess, queue: str, vhost: str = "/") -> None:
        self.told: list[str] = []
        self.sent = 0
        self.stop = False
        self.done = False
        self.connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", broker.amqp_port, virtual_host=vhost, heartbeat=0)
        )
        self.connection.add_on_connection_blocked_callback(lambda _, frame: self.told.append(frame.method.reason))
        self.connection.add_on_connection_unblocked_callback(lambda *_: self.told.append(""))
        self.channel = self.connection.channel()
        self.queue = queue
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        with suppress(pika.exceptions.AMQPError, OSError):
            while not self.stop:
                self.channel.basic_publish("", self.queue, BODY)
                self.sent += 1
                if self.sent % 16 == 0:
                    self.connection.process_data_events(0)  # only there are callbacks called
            while not self.done:
                self.connection.process_data_events(0.1)


@pytest.fixture
def ends() -> Iterator[list[Flood]]:
    floods: list[Flood] = []
    yield floods
    for flood in floods:
        flood.stop = True
        flood.done = True
        flood.thread.join(DEADLINE_S)
        assert not flood.thread.is_alive()


def held_octets(control: ControlClient, queue: str, vhost: str = "/") -> int:
    octets = control.run("queue.show", queue=queue, vhost=vhost)["octets"]
    assert isinstance(octets, int)
    return octets


def check_others_go_on(broker: BrokerProcess, queue: str, vhost: str = "/") -> None:
    """Another client's messages are confirmed and delivered as if nothing were."""
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, virtual_host=vhost)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True)
        for number in range(200):
            channel.basic_publish("", queue, b"%d" % number)
            assert channel.basic_get(queue, auto_ack=True)[2] == b"%d" % number


@pytest.mark.parametrize("durable", [True, False], ids=["disk", "memory"])
def test_a_queue_over_its_share_slows_down_its_publishers_alone(
    start_broker: Callable[..., BrokerProcess], ends: list[Flood], durable: bool
) -> None:
    memory = 400 << 20
    broker = start_broker(queue_octets_max=SHARE_OCTETS, memory_octets_max=memory, queue_memory_percent_max=1)
    channel = open_channel(broker)
    channel.queue_declare("full", durable=durable)
    flood = Flood(broker, "full")
    ends.append(flood)
    until(lambda: len(flood.told) > 0, "the publisher was never told")
    assert flood.told[0] == f"queue 'full' is over its share of {'disk' if durable else 'memory'}"
    check_others_go_on(broker, "other")
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        assert held_octets(control, "full") < SHARE_OCTETS + OVER_OCTETS
        (held,) = control.items("queue.explain", queue="full")
        assert held["reason"] == "queue_share" and held["queue"] == "full"
        (found,) = control.items("connection.explain", id=held["connection"])
        assert found["text"] == f"its publishes are held back: {flood.told[0]}"

    # Whoever takes messages out is not slowed down, and so makes room.
    flood.stop = True
    taken, wanted = 0, SHARE_OCTETS // len(BODY) // 2
    deadline = time.monotonic() + WAIT_S_MAX
    for _, _, body in channel.consume("full", inactivity_timeout=2, auto_ack=True):
        if body is not None:
            taken += 1
        elif taken > wanted or time.monotonic() > deadline:
            break
    assert taken > wanted
    until(lambda: flood.told[-1] == "", "it was never told to go on")


def test_a_consumer_that_publishes_what_it_takes_gets_through(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """On one connection: its acknowledgements stand behind its publishes, and are read all the same."""
    broker = start_broker(queue_octets_max=1 << 20)
    channel = open_channel(broker)
    channel.queue_declare("loop", durable=True)
    for _ in range(140):
        channel.basic_publish("", "loop", BODY)
    seen = 0
    for method, _, body in channel.consume("loop", inactivity_timeout=20):
        assert method is not None, "it is stuck"
        if seen < REPEATED:
            channel.basic_publish("", "loop", body)
        channel.basic_ack(method.delivery_tag)
        seen += 1
        if seen == 140 + REPEATED:
            break
    assert seen == 140 + REPEATED


def test_a_vhost_over_its_share_leaves_the_others_alone(
    start_broker: Callable[..., BrokerProcess], ends: list[Flood]
) -> None:
    broker = start_broker()
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        control.run("vhost.add", vhost="tenant", octets_max=SHARE_OCTETS)
        assert [each["octets_max"] for each in control.items("vhost.list")] == [-1, SHARE_OCTETS]
        control.run("queue.declare", vhost="tenant", queue="one")
        control.run("queue.declare", vhost="tenant", queue="two")
        floods = [Flood(broker, name, "tenant") for name in ("one", "two")]
        ends += floods
        until(lambda: all(flood.told for flood in floods), "the publishers were never told")
        assert floods[0].told[0] == "vhost 'tenant' is over its octets_max"
        check_others_go_on(broker, "other")
        for flood in floods:
            flood.stop = True
        control.run("queue.purge", vhost="tenant", queue="one")
        control.run("queue.purge", vhost="tenant", queue="two")
        until(lambda: all(flood.told[-1] == "" for flood in floods), "they were never told to go on")


def test_publishers_stop_before_the_disk_is_full(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(disk_free_min_octets=1 << 60)  # no disk has so much
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, blocked_connection_timeout=3)
    channel = pika.BlockingConnection(parameters).channel()
    channel.queue_declare("q", durable=True)
    until(lambda: "disk_free_min_octets" in broker.log_text(), "the broker never looked")
    channel.confirm_delivery()

    def publish() -> None:
        for _ in range(10_000):
            channel.basic_publish("", "q", BODY)

    with pytest.raises(pika.exceptions.ConnectionBlockedTimeout):
        publish()
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        control.run("queue.list")  # whoever does not publish is served
