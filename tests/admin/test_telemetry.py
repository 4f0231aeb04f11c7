"""OpenTelemetry: spans of messages and metrics, as a receiver of OTLP over HTTP gets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.clients import mqtt
from tests.admin.otlp import Receiver, values_of
from tests.broker_process import BrokerProcess, running
from tests.waiting import until

SPAN = "00f067aa0ba902b7"


def trace_of(number: int) -> str:
    return f"4bf92f3577b34da6a3ce929d0e0e{number:04x}"


def parent_of(number: int, flags: str = "01") -> str:
    return f"00-{trace_of(number)}-{SPAN}-{flags}"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture(scope="module")
def broker(receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(
        tmp_path_factory.mktemp("traced"),
        otel_endpoint=receiver.url,
        otel_service_name="orders-broker",
        otel_metrics_interval_s=1,
        otel_traces=True,
    ) as made:
        yield made


@contextmanager
def channel_of(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    yield connection.channel()
    connection.close()


def names(receiver: Receiver, number: int) -> list[str]:
    return [span.name.split()[0] for span in receiver.of_trace(trace_of(number))]


def test_an_amqp_message_s_way_is_one_trace(broker: BrokerProcess, receiver: Receiver) -> None:
    headers = {"other": 1, "traceparent": parent_of(1), "tracestate": "vendor=abc"}
    with channel_of(broker) as channel:
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"12345", pika.BasicProperties(headers=headers))
        channel.basic_publish("", "orders", b"untraced")
        got = channel.consume("orders")
        method, properties, _ = next(got)
        assert properties.headers == headers
        channel.basic_ack(method.delivery_tag)
        channel.cancel()
    until(lambda: len(receiver.of_trace(trace_of(1))) == 4)
    spans = {span.name: span for span in receiver.of_trace(trace_of(1))}
    assert set(spans) == {"publish orders", "queued orders", "deliver orders", "settle orders"}
    published, queued = spans["publish orders"], spans["queued orders"]
    delivered, settled = spans["deliver orders"], spans["settle orders"]
    assert published.parent_span_id.hex() == SPAN
    assert queued.parent_span_id == published.span_id
    assert delivered.parent_span_id == queued.span_id
    assert settled.parent_span_id == delivered.span_id
    assert len({span.span_id for span in spans.values()}) == 4
    assert all(span.trace_state == "vendor=abc" for span in spans.values())
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans.values())
    assert queued.end_time_unix_nano <= settled.end_time_unix_nano
    facts = values_of(published.attributes)
    assert facts["messaging.system"] == "forebay"
    assert facts["messaging.destination.name"] == "orders"
    assert facts["messaging.operation.type"] == "send"
    assert facts["messaging.message.body.size"] == 5
    assert facts["messaging.forebay.vhost"] == "/"
    assert values_of(settled.attributes)["messaging.forebay.outcome"] == "settled"
    assert receiver.resources[-1]["service.name"] == "orders-broker"


def test_what_is_returned_is_queued_again(broker: BrokerProcess, receiver: Receiver) -> None:
    with channel_of(broker) as channel:
        channel.queue_declare("again")
        channel.basic_publish("", "again", b"x", pika.BasicProperties(headers={"traceparent": parent_of(2)}))
        deliveries = channel.consume("again")
        method, _, _ = next(deliveries)
        channel.basic_nack(method.delivery_tag, requeue=True)
        method, _, _ = next(deliveries)
        assert method.redelivered
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.cancel()
    until(lambda: len(receiver.of_trace(trace_of(2))) == 7)
    found = receiver.of_trace(trace_of(2))
    outcomes = [
        values_of(span.attributes)["messaging.forebay.outcome"] for span in found if span.name == "settle again"
    ]
    assert outcomes == ["returned", "settled"]
    times = [values_of(span.attributes)["messaging.forebay.delivery"] for span in found if span.name == "deliver again"]
    assert times == [1, 2]


def test_mqtt_s_user_properties_carry_it_too(broker: BrokerProcess, receiver: Receiver) -> None:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("a", "b"), ("traceparent", parent_of(3))]
    with mqtt(broker, "subscriber") as subscriber, mqtt(broker, "publisher") as publisher:
        heard: list[object] = []

        def hear(_client: object, _data: object, message: MQTTMessage) -> None:
            heard.append(getattr(message.properties, "UserProperty", None))

        subscriber.on_message = hear
        subscribed: list[object] = []
        subscriber.on_subscribe = lambda *answer: subscribed.append(answer)
        subscriber.subscribe("sensors/#", 1)
        until(lambda: subscribed)
        publisher.publish("sensors/7", b"x", 1, properties=properties).wait_for_publish(60)
        until(lambda: heard)
        assert heard == [[("a", "b"), ("traceparent", parent_of(3))]]
    until(lambda: names(receiver, 3) == ["deliver"])
    span = receiver.of_trace(trace_of(3))[0]
    assert span.name == "deliver sensors/7"
    assert span.parent_span_id.hex() == SPAN


def test_a_topic_s_message_is_traced_into_a_queue(broker: BrokerProcess, receiver: Receiver) -> None:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("traceparent", parent_of(4))]
    with channel_of(broker) as channel, mqtt(broker, "publisher") as publisher:
        channel.queue_declare("captured")
        channel.queue_bind("captured", "amq.topic", "captured.#")
        publisher.publish("captured/1", b"x", 1, properties=properties).wait_for_publish(60)
        until(lambda: channel.basic_get("captured", auto_ack=True)[0])
    until(lambda: names(receiver, 4) == ["publish"])


@pytest.mark.parametrize("value", [parent_of(5, "00"), "00-zz-yy-01", "00-" + "0" * 32 + f"-{SPAN}-01", 17, "x" * 9000])
def test_what_is_not_sampled_or_is_no_context_is_not_traced(
    broker: BrokerProcess, receiver: Receiver, value: object
) -> None:
    before = len(receiver.spans)
    with channel_of(broker) as channel:
        channel.queue_declare("plain")
        channel.basic_publish("", "plain", b"x", pika.BasicProperties(headers={"traceparent": value}))
        channel.basic_publish("", "plain", b"x", pika.BasicProperties(headers={"traceparent": parent_of(6)}))
        assert channel.basic_get("plain", auto_ack=True)[0]
        assert channel.basic_get("plain", auto_ack=True)[0]
        channel.queue_delete("plain")
    until(lambda: len(receiver.spans) > before)
    assert {span.trace_id.hex() for span in receiver.spans[before:]} == {trace_of(6)}


def test_metrics_come_under_both_names(broker: BrokerProcess, receiver: Receiver) -> None:
    with mqtt(broker, "counted") as client:
        client.publish("counted/x", b"12345", 1).wait_for_publish(60)
        until(lambda: receiver.metrics.get(("mqtt.messages.received.total",), 0) >= 1)
        until(lambda: receiver.metrics.get(("mqtt.connections.current",), 0) >= 1)
        assert receiver.metrics[("forebay_mqtt_messages_received_total",)] >= 1
    assert ("rabbitmq_queue_messages_ready",) in receiver.metrics
    assert ("forebay_vhost_messages_ready", "/") in receiver.metrics
    assert ("forebay_turn_duration_seconds", "0.99") in receiver.metrics


def test_by_the_ratio_of_the_options_traces_begin_here(tmp_path: Path) -> None:
    with Receiver() as receiver:
        broker = BrokerProcess(tmp_path, otel_endpoint=receiver.url, otel_traces=True, otel_traces_per_million=500_000)
        broker.start()
        try:
            with channel_of(broker) as channel:
                channel.queue_declare("half")
                for _ in range(10):
                    channel.basic_publish("", "half", b"x")
            broker.stop()  # what is left is sent at the end
            published = [span for span in receiver.spans if span.name == "publish half"]
            assert len(published) == 5
            assert len({span.trace_id for span in published}) == 5
            assert all(not span.parent_span_id for span in published)
            broker.finish()
        finally:
            broker.abandon()


def test_an_address_must_be_one_of_http(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, otel_endpoint="127.0.0.1:4317")
    broker.launch()
    try:
        assert broker.wait() == 2
        assert "otel_endpoint: '127.0.0.1:4317' must begin with http:// or https://" in broker.log_text()
    finally:
        broker.abandon()


def test_a_receiver_that_is_down_holds_nothing_up(tmp_path: Path) -> None:
    with Receiver() as receiver:
        receiver.down = True
        broker = BrokerProcess(
            tmp_path, otel_endpoint=receiver.url, otel_traces=True, otel_traces_per_million=1_000_000
        )
        broker.start()
        try:
            with channel_of(broker) as channel:
                channel.confirm_delivery()
                channel.queue_declare("unsent")
                for _ in range(5000):
                    channel.basic_publish("", "unsent", b"x")
                assert channel.queue_declare("unsent", passive=True).method.message_count == 5000
            broker.stop()
            broker.finish()
        finally:
            broker.abandon()
