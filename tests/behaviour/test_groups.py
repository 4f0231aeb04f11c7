"""Groups that are deleted and moved while rude consumers come and go."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

import pika
import pika.exceptions

from forebay.client.control import ControlClient
from forebay.core.errors import RequestError
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V311, client
from tests.waiting import until

MESSAGES = 50
TIMES = 15
CONSUMERS = 3
GROUP = {"x-consumer-group": "g"}
RESET = struct.pack("ii", 1, 0)


class Rude(threading.Thread):
    """A consumer that joins the group again and again, acknowledges some, and is gone without a word."""

    def __init__(self, broker: BrokerProcess, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.stop = stop
        self.times = 0

    def run(self) -> None:
        while not self.stop.is_set():
            parameters = pika.ConnectionParameters("127.0.0.1", self.broker.amqp_port)
            connection = pika.BlockingConnection(parameters)
            channel = connection.channel()
            channel.basic_qos(prefetch_count=7)
            try:
                for method, _, _ in channel.consume("q", arguments=GROUP, inactivity_timeout=0.02):
                    if method is None or method.delivery_tag == 7:
                        break
                    if method.delivery_tag == 3:
                        channel.basic_ack(3, multiple=True)
            except pika.exceptions.AMQPError:
                continue
            sock = connection._impl._transport._sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            sock.close()
            self.times += 1


def connect(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def test_a_group_is_deleted_and_moved_under_consumers_that_vanish(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    assert channel.basic_get("q")[0] is None  # the queue's own group is there
    for number in range(MESSAGES):
        channel.basic_publish("", "q", b"%d" % number)
    stop = threading.Event()
    consumers = [Rude(broker, stop) for _ in range(CONSUMERS)]
    for each in consumers:
        each.start()
    with connect(broker) as control:
        for _ in range(TIMES):
            until(lambda: [each for each in control.items("group.list", queue="q") if each["group"] == "g"])
            for operation, given in (("group.seek", {"to": "first"}), ("group.delete", {"if_unused": False})):
                with suppress(RequestError):  # it is not there just now
                    control.run(operation, queue="q", group="g", **given)
        stop.set()
        for each in consumers:
            each.join(60)
            assert each.times
        until(lambda: not list(control.items("consumer.list", queue="q")), "all are gone")
        control.run("group.delete", queue="q", group="g") if len(list(control.items("group.list"))) > 1 else None
        (own,) = control.items("group.list", queue="q")
        assert (own["group"], own["ready"], own["leased"]) == ("", MESSAGES, 0)
    got = [channel.basic_get("q", auto_ack=True)[2] for _ in range(MESSAGES)]
    assert got == [b"%d" % number for number in range(MESSAGES)]
    assert channel.basic_get("q")[0] is None


def test_a_consumer_over_mqtt_is_told_that_its_group_is_gone(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    with client(broker, "sensor") as reader, connect(broker) as control:
        assert not reader.subscribe("$queue/q", consumer_group="g").is_failure
        channel.basic_publish("", "q", b"x")
        assert reader.next().payload == b"x"
        control.run("group.delete", queue="q", group="g", if_unused=False)
        assert reader.ended.get(timeout=60).is_failure
        assert list(control.items("group.list", queue="q")) == []
    assert channel.basic_get("q")[2] == b"x", "it is kept for who consumes next"


def test_a_client_of_mqtt_gets_anew_what_its_group_is_moved_back_to(broker: BrokerProcess) -> None:
    """It acknowledges all that it was given: what it held then is late, and keeps no packet identifier."""
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    with client(broker, "g-1", V311, manual_ack=True) as reader, connect(broker) as control:
        assert not reader.subscribe("$queue/q").is_failure
        for number in range(3):
            channel.basic_publish("", "q", b"%d" % number)
        first = [reader.next() for _ in range(3)]
        assert control.run("group.seek", queue="q", group="g", to="1") == {"offset": 1}
        again = [reader.next() for _ in range(2)]
        assert [each.payload for each in again] == [b"1", b"2"]
        for message in [*first, *again]:
            reader.client.ack(message.mid, message.qos)
        until(lambda: control.run("queue.show", queue="q")["start"] == 3, "all is settled")
        channel.basic_publish("", "q", b"3")
        assert reader.next().payload == b"3"
