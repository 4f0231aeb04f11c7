"""Dead letters as clients of both protocols meet them: where they come out, what they say, and reading them again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client
from tests.waiting import until, until_past

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
WAIT_S = 20
KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])
Message = tuple[str, pika.BasicProperties, bytes]


def get(channel: BlockingChannel, queue: str) -> Message:
    """The next message of a queue, which comes some time."""
    found: list[Message] = []

    def is_there() -> bool:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append((method.routing_key, properties, body))
        return method is not None

    until(is_there, f"a message in {queue}")
    return found[0]


def declare(channel: BlockingChannel, name: str, kind: str = "classic", **arguments: object) -> None:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **given})


@KINDS
def test_what_is_rejected_comes_out_at_the_other_end(broker: BrokerProcess, kind: str) -> None:
    channel = open_channel(broker)
    declare(channel, "dead")
    declare(channel, "q", kind, **TO_DEAD)
    channel.basic_publish("", "q", b"0", pika.BasicProperties(headers={"colour": "red"}, message_id="m"))
    method, _, _ = channel.basic_get("q")
    channel.basic_reject(method.delivery_tag, requeue=False)
    key, said, body = get(channel, "dead")
    assert (key, body, said.message_id, said.headers["colour"]) == ("dead", b"0", "m", "red")
    death = said.headers["x-death"][0]
    assert (death["queue"], death["reason"], death["count"], death["routing-keys"]) == ("q", "rejected", 1, ["q"])
    assert said.headers["x-first-death-queue"] == "q"


@KINDS
def test_what_expires_comes_out_though_nobody_consumes(broker: BrokerProcess, kind: str) -> None:
    channel = open_channel(broker)
    declare(channel, "dead")
    declare(channel, "q", kind, **TO_DEAD)
    channel.basic_publish("", "q", b"0", pika.BasicProperties(expiration="50"))
    _, said, _ = get(channel, "dead")
    assert said.expiration is None
    assert said.headers["x-death"][0]["original-expiration"] == "50"


@KINDS
def test_what_a_lost_consumer_held_too_often_comes_out(broker: BrokerProcess, kind: str) -> None:
    channel = open_channel(broker)
    declare(channel, "dead")
    declare(channel, "q", kind, x_delivery_limit=2, **TO_DEAD)
    channel.basic_publish("", "q", b"0")
    for _ in range(3):
        reader = open_channel(broker)
        until(lambda reader=reader: reader.basic_get("q")[0])  # type: ignore[misc]
        reader.connection.close()
    _, said, _ = get(channel, "dead")
    assert said.headers["x-death"][0]["reason"] == "delivery_limit"
    assert said.headers["dlq-deliveries"] == 3


def test_two_queues_retry_after_a_while_without_a_program(broker: BrokerProcess) -> None:
    """A rejection is in the circle each time: so it is none, as with RabbitMQ."""
    channel = open_channel(broker)
    declare(channel, "work", x_dead_letter_exchange="", x_dead_letter_routing_key="later")
    declare(channel, "later", x_dead_letter_exchange="", x_dead_letter_routing_key="work", x_message_ttl=50)
    channel.basic_publish("", "work", b"0")
    for attempt in range(1, 4):
        deadline = time.monotonic() + WAIT_S
        method = None
        while method is None:
            assert time.monotonic() < deadline
            method, said, _ = channel.basic_get("work")
        if attempt > 1:
            counts = {(each["queue"], each["reason"]): each["count"] for each in said.headers["x-death"]}
            assert counts == {("work", "rejected"): attempt - 1, ("later", "expired"): attempt - 1}
        channel.basic_nack(method.delivery_tag, requeue=False)


def test_dead_letters_reach_subscribers_of_mqtt(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel, "q", x_dead_letter_exchange="amq.topic", x_dead_letter_routing_key="dead.letters")
    with client(broker, "reader") as reader:
        reader.subscribe("dead/letters")
        channel.basic_publish("", "q", b"0")
        method, _, _ = channel.basic_get("q")
        channel.basic_reject(method.delivery_tag, requeue=False)
        assert reader.next().payload == b"0"


def test_a_dead_letter_queue_is_read_as_a_stream_as_long_as_nobody_settles(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel, "dead")
    declare(channel, "q", x_max_length=0, **TO_DEAD)
    for number in range(5):
        channel.basic_publish("", "q", b"%d" % number)
    deadline = time.monotonic() + WAIT_S
    while channel.queue_declare("dead", passive=True).method.message_count < 5:
        assert time.monotonic() < deadline

    def read(count: int) -> list[bytes]:
        reader = open_channel(broker)
        reader.basic_qos(prefetch_count=100)
        found: list[bytes] = []
        for method, _, body in reader.consume("dead", arguments={"x-stream-offset": "first"}, inactivity_timeout=1):
            if method is None:
                assert time.monotonic() < deadline
                if len(found) >= count:
                    break
                continue
            reader.basic_ack(method.delivery_tag)
            found.append(body)
        reader.connection.close()
        return found

    assert read(5) == read(5) == [b"0", b"1", b"2", b"3", b"4"]
    for _ in range(2):
        get(channel, "dead")
    assert read(3) == [b"2", b"3", b"4"]


def test_dead_letters_of_a_queue_that_keeps_wait_for_their_target(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    channel = open_channel(broker)
    channel.exchange_declare("dlx", "direct", durable=True)
    declare(
        channel,
        "q",
        x_message_ttl=10,
        x_dead_letter_exchange="dlx",
        x_dead_letter_strategy="at-least-once",
        x_overflow="reject-publish",
    )
    for number in range(100):
        channel.basic_publish("", "q", b"%d" % number)
    until_past(time.time() + 0.01)
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    declare(channel, "dead")
    channel.queue_bind("dead", "dlx", "q")
    assert [get(channel, "dead")[2] for _ in range(100)] == [b"%d" % number for number in range(100)]
    assert channel.queue_declare("q", passive=True).method.message_count == 0
