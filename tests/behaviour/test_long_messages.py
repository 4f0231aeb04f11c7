"""Messages of 100 MiB come out as they went in, whichever way, and others are served meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from threading import Thread

import pytest

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import Raw, connected

OCTETS = 100 << 20
ROOM = {"message_octets_max": OCTETS, "mqtt_packet_octets_max": OCTETS + (1 << 20)}
BODY = os.urandom(1 << 20) * (OCTETS >> 20)


class Bystander:
    """Asks all the time, and counts the answers."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.answers = 0
        self.done = False
        self.thread = Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.done:
            self.raw.send(b"\xc0\0")
            assert self.raw.read(2) == b"\xd0\0"
            self.answers += 1

    def stop(self) -> int:
        """How many answers there were."""
        self.done = True
        self.thread.join()
        return self.answers


@pytest.mark.parametrize("durable", [False, True])
def test_a_long_message_goes_through_a_queue(start_broker: Callable[..., BrokerProcess], durable: bool) -> None:
    broker = start_broker(**ROOM)
    channel = open_channel(broker)
    channel.queue_declare("q", durable=durable)
    with closing(connected(broker, "bystander")) as raw:
        bystander = Bystander(raw)
        channel.basic_publish("", "q", BODY)
        _, _, body = channel.basic_get("q", auto_ack=True)
        assert bystander.stop() > 10
    assert body == BODY


def test_a_long_message_goes_to_a_subscriber(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(**ROOM)
    with closing(connected(broker, "sink")) as sink, closing(connected(broker, "source")) as source:
        sink.subscribe("long/+", qos=1)
        with closing(connected(broker, "bystander")) as raw:
            bystander = Bystander(raw)
            source.publish("long/a", BODY)
            found = sink.delivery()
            assert bystander.stop() > 10
        assert (found.topic, found.body == BODY) == ("long/a", True)
