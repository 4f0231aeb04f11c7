"""Deliveries over AMQP that say where they come from: to consumers that ask for it, or to all, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess

FOREBAY = {
    "x-forebay-message-id": "q:0",
    "x-forebay-group-id": "",
    "x-forebay-queue": "q",
    "x-forebay-offset": 0,
}
FLUXMQ = {"message-id": "q:0", "group-id": "", "queue": "q", "offset": "0"}


def filled(broker: BrokerProcess, kind: str = "classic", count: int = 1, **properties: Any) -> BlockingChannel:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    for number in range(count):
        channel.basic_publish("", "q", b"%d" % number, pika.BasicProperties(**properties))
    channel.basic_qos(prefetch_count=10)
    return channel


def take(channel: BlockingChannel, count: int = 1, **arguments: object) -> list[pika.BasicProperties]:
    """The properties of the next messages, which stay unacknowledged."""
    names = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    found: list[pika.BasicProperties] = []
    for _, properties, _ in channel.consume("q", arguments=names, inactivity_timeout=10):
        assert properties is not None, f"only {len(found)} came"
        found.append(properties)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize(
    ("style", "headers", "message_id"), [("forebay", FOREBAY, None), ("fluxmq", FLUXMQ, "q:0"), ("none", None, None)]
)
def test_a_consumer_asks_for_them(
    broker: BrokerProcess, style: str, headers: dict[str, object] | None, message_id: str | None
) -> None:
    channel = filled(broker)
    (found,) = take(channel, delivery_headers=style)
    assert (found.headers, found.message_id) == (headers, message_id)
    channel.connection.close()
    (found,) = take(filled(broker, count=0))
    assert found.headers is None, "nobody else has them"


@pytest.mark.parametrize(("style", "headers"), [("forebay", FOREBAY), ("fluxmq", FLUXMQ), ("none", None)])
def test_all_have_them_by_the_option_unless_they_say_otherwise(
    start_broker: Callable[..., BrokerProcess], style: str, headers: dict[str, object] | None
) -> None:
    broker = start_broker(amqp_delivery_headers=style)
    channel = filled(broker)
    method, properties, _ = channel.basic_get("q")
    assert properties.headers == headers
    channel.basic_ack(method.delivery_tag)
    channel.basic_publish("", "q", b"1")
    (found,) = take(channel, delivery_headers="forebay")
    assert found.headers == {**FOREBAY, "x-forebay-message-id": "q:1", "x-forebay-offset": 1}
    channel.cancel()
    channel.basic_nack(0, multiple=True)
    _, properties, _ = channel.basic_get("q")
    assert set(properties.headers or {}) == set(headers or {})


def returned(broker: BrokerProcess, arguments: dict[str, object]) -> None:
    """A queue with a message that came back once, published with a header of its own."""
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.basic_publish("", "q", b"0", pika.BasicProperties(headers={"own": 1}))
    method, _, _ = channel.basic_get("q")
    channel.basic_reject(method.delivery_tag, requeue=True)
    channel.connection.close()


def got(broker: BrokerProcess, **asked: Any) -> list[dict[str, object]]:
    """The headers of the message for who gets it, and then for a consumer that asks for something."""
    channel = open_channel(broker)
    method, properties, _ = channel.basic_get("q")
    assert method.redelivered
    channel.basic_nack(method.delivery_tag)
    (found,) = take(channel, **asked)
    channel.connection.close()
    return [properties.headers, found.headers]


@pytest.mark.parametrize("arguments", [{}, {"x-delivery-limit": -1}, {"x-max-priority": 3}])
def test_a_classic_queue_that_counts_nothing_adds_no_counts(
    broker: BrokerProcess, arguments: dict[str, object]
) -> None:
    """As with RabbitMQ: who compares headers sees what was published."""
    returned(broker, arguments)
    assert got(broker) == [{"own": 1}, {"own": 1}]
    assert got(broker, delivery_headers="forebay")[1] == {"own": 1, **FOREBAY}


@pytest.mark.parametrize(
    ("arguments", "failures"), [({"x-queue-type": "quorum"}, (1, 1)), ({"x-delivery-limit": 5}, (1, 2))]
)
def test_a_queue_that_counts_says_it(
    broker: BrokerProcess, arguments: dict[str, object], failures: tuple[int, int]
) -> None:
    returned(broker, arguments)
    expected = [
        {"own": 1, "x-delivery-count": failed, "x-acquired-count": at + 1} for at, failed in enumerate(failures)
    ]
    assert got(broker) == expected


def test_a_policy_has_a_queue_count(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as http:
        policy = {"pattern": "^q$", "definition": {"delivery-limit": 5}}
        http.put("/api/policies/%2F/limit", json=policy).raise_for_status()
    returned(broker, {})
    assert got(broker)[0] == {"own": 1, "x-delivery-count": 1, "x-acquired-count": 1}


@pytest.mark.parametrize("style", ["none", "forebay"])
def test_a_consumer_asks_for_counts(broker: BrokerProcess, style: str) -> None:
    returned(broker, {})
    told = {"own": 1, "x-delivery-count": 2, "x-acquired-count": 2, **(FOREBAY if style == "forebay" else {})}
    assert got(broker, delivery_counts=True, delivery_headers=style) == [{"own": 1}, told]


def test_a_message_that_the_http_api_has_shown_comes_as_it_was_published(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(http="127.0.0.1:0")
    channel = filled(broker, headers={"own": 1})
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as http:
        wanted = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        for was_shown in (False, True):
            (shown,) = http.post("/api/queues/%2F/q/get", json=wanted).json()
            assert (shown["redelivered"], shown["properties"]["headers"]) == (was_shown, {"own": 1})
    assert take(channel)[0].headers == {"own": 1}


def test_what_the_publisher_wrote_stays_but_for_these_names(broker: BrokerProcess) -> None:
    own = {"x-forebay-queue": "mine", "queue": "mine", "other": [1]}
    channel = filled(broker, headers=own, message_id="m-7", content_type="text/plain")
    (found,) = take(channel, delivery_headers="forebay")
    assert found.headers == {"queue": "mine", "other": [1], **FOREBAY}
    assert (found.message_id, found.content_type) == ("m-7", "text/plain")
    channel.cancel()
    channel.connection.close()
    (found,) = take(filled(broker, count=0), delivery_headers="fluxmq")
    assert {name: found.headers[name] for name in FLUXMQ} == FLUXMQ
    assert found.headers["x-forebay-queue"] == "mine"
    assert (found.message_id, found.content_type) == ("m-7", "text/plain")


def test_each_message_of_a_stream_and_of_a_group(broker: BrokerProcess) -> None:
    channel = filled(broker, "stream", 5)
    found = take(channel, 5, delivery_headers="forebay", consumer_group="g")
    for offset, properties in enumerate(found):
        told = dict(properties.headers)
        assert told.pop("x-stream-timestamp") > 0
        assert told == {
            "x-stream-offset": offset,
            "x-forebay-message-id": f"q:{offset}",
            "x-forebay-group-id": "g",
            "x-forebay-queue": "q",
            "x-forebay-offset": offset,
        }
    channel.connection.close()
    (alone,) = take(filled(broker, "stream", 0), delivery_headers="forebay", stream_offset="first")
    assert "x-forebay-group-id" not in alone.headers


def test_headers_that_leave_no_room_in_a_frame_are_left_out(broker: BrokerProcess) -> None:
    filled(broker, headers={"long": "x" * 5000}, content_type="text/plain").connection.close()
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, frame_max=4096)
    channel = pika.BlockingConnection(parameters).channel()
    (found,) = take(channel, delivery_headers="forebay")
    assert (found.headers, found.content_type) == (FOREBAY, "text/plain")


@pytest.mark.parametrize("style", ["rabbitmq", "", 1, True, ["forebay"]])
def test_another_style_is_refused_by_name(broker: BrokerProcess, style: object) -> None:
    channel = filled(broker)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-delivery-headers") as refused:
        channel.basic_consume("q", lambda *_: None, arguments={"x-delivery-headers": style})
    assert refused.value.reply_code == 406
    if isinstance(style, str):
        assert "is none of none, forebay, fluxmq" in refused.value.reply_text
