"""A work queue that can be rewound: what was settled is delivered once more, to whoever administers asks for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from forebay.core.errors import RequestError
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V5, client
from tests.waiting import until

COUNT = 20
MARK = "x-redelivered-at"


def declare(channel: BlockingChannel, type: str = "classic", **arguments: object) -> None:
    """Declare the durable queue q with further arguments, and fill it with numbers, all of which are settled."""
    given = {"x-queue-type": type, **{key.replace("_", "-"): value for key, value in arguments.items()}}
    channel.queue_declare("q", durable=True, arguments=given)
    for number in range(COUNT):
        properties = pika.BasicProperties(headers={"n": number})
        channel.basic_publish("", "q", b"%d" % number, properties)
    assert [int(body) for _, body in take(channel, COUNT)] == list(range(COUNT))


def take(channel: BlockingChannel, count: int, acks: bool = True) -> list[tuple[pika.BasicProperties, bytes]]:
    """Get so many messages, and settle them."""
    found = []
    for _ in range(count):
        method, properties, body = channel.basic_get("q")
        assert method is not None
        found.append((properties, body))
        if acks:
            channel.basic_ack(method.delivery_tag)
    return found


def control_of(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


@pytest.mark.parametrize("type", ["classic", "quorum"])
def test_settled_messages_are_delivered_once_more_and_outlive_a_kill(broker: BrokerProcess, type: str) -> None:
    channel = open_channel(broker)
    declare(channel, type, x_retain="7d")
    assert channel.basic_get("q")[0] is None
    with control_of(broker) as control:
        answer = control.run(
            "queue.redeliver", queue="q", where="header.n >= 5 AND header.n < 15", since="3", until="12"
        )
        assert answer["done"] == 7
    for number, (properties, body) in zip(range(5, 8), take(channel, 3), strict=True):
        assert int(body) == number and int((properties.headers or {})[MARK]) > 1_700_000_000_000
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    left = take(channel, channel.queue_declare("q", passive=True).method.message_count)
    numbers = [int(body) for _, body in left]
    assert numbers[-4:] == list(range(8, 12))
    assert set(numbers[:-4]) <= {5, 6, 7}, "an acknowledgement that no confirm followed may be lost"
    assert all(MARK in (properties.headers or {}) for properties, _ in left)
    channel.basic_publish("", "q", b"new")
    ((properties, body),) = take(channel, 1)
    assert body == b"new" and MARK not in (properties.headers or {})


def test_redeliveries_over_mqtt_say_so(broker: BrokerProcess) -> None:
    declare(open_channel(broker), x_retain_length=1000)
    with client(broker, "reader", V5) as reader:
        reader.subscribe("$queue/q", 1)
        with control_of(broker) as control:
            assert control.run("queue.redeliver", queue="q", until="2")["done"] == 2
        for number in range(2):
            message = reader.next()
            assert int(message.payload) == number
            assert MARK in str(message.properties)


def test_only_what_is_retained_comes_again(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel)
    with control_of(broker) as control:
        with pytest.raises(RequestError, match=r"queue 'q' keeps nothing that its consumers have settled.*x-retain"):
            control.run("queue.redeliver", queue="q")
        channel.queue_delete("q")
        declare(channel, x_retain_length=8)
        until(lambda: control.run("queue.show", queue="q")["kept"] == COUNT - 8, "the others are given up")
        assert control.run("queue.redeliver", queue="q")["done"] == 8
    assert [int(body) for _, body in take(channel, 8)] == list(range(COUNT - 8, COUNT))


def test_a_policy_retains(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    with control_of(broker) as control:
        control.run("policy.set", policy="rewind", pattern="^q$", definition={"retain": "1h"})
        declare(channel)
        assert control.run("queue.redeliver", queue="q", since="18")["done"] == 2
        assert len(take(channel, 2)) == 2
        control.run("policy.clear", policy="rewind")
        with pytest.raises(RequestError, match="keeps nothing"):
            control.run("queue.redeliver", queue="q")


@pytest.mark.parametrize(
    ("arguments", "durable", "exclusive", "fault"),
    [
        ({"x-retain": "soon"}, True, False, "soon.* is no age"),
        ({"x-retain-bytes": 0}, True, False, "x-retain-bytes"),
        ({"x-retain": "7d"}, False, False, "only a durable queue"),
        ({"x-retain": "7d"}, True, True, "only a durable queue"),
        ({"x-retain": "7d", "x-queue-type": "stream"}, True, False, "x-retain"),
    ],
)
def test_what_cannot_retain_is_refused_by_name(
    broker: BrokerProcess, arguments: dict[str, object], durable: bool, exclusive: bool, fault: str
) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=fault):
        open_channel(broker).queue_declare("q", durable=durable, exclusive=exclusive, arguments=arguments)


def test_the_command_line_redelivers(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel, x_retain="1h")
    where = ["--where", "header.n < 3", "--json", "--yes", "--server", f"127.0.0.1:{broker.amqp_port}"]
    command = [sys.executable, "-m", "forebay", "queue", "redeliver", "q", *where]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == {"done": 3, "held": 0}
    assert len(take(channel, 3)) == 3


def test_six_rude_consumers_lose_nothing_that_comes_again(broker: BrokerProcess) -> None:
    """Consumers that vanish with redeliveries in hand: each comes until it is settled, and none twice after that."""
    channel = open_channel(broker)
    declare(channel, x_retain="1h")
    with control_of(broker) as control:
        assert control.run("queue.redeliver", queue="q")["done"] == COUNT
    for _ in range(6):
        rude = open_channel(broker)
        assert len(take(rude, 5, acks=False)) == 5
        rude.connection._impl._transport._sock.close()
    until(lambda: channel.queue_declare("q", passive=True).method.message_count == COUNT, "all of them are back")
    assert sorted(int(body) for _, body in take(channel, COUNT)) == list(range(COUNT))
    assert channel.basic_get("q")[0] is None
