"""paho-mqtt as people use it, at versions 3.1.1 and 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V5, V311, WAIT_S, Client, client

VERSIONS = [pytest.param(V311, id="3.1.1"), pytest.param(V5, id="5")]
PAYLOADS = [
    pytest.param(b"", id="empty"),
    pytest.param(bytes(range(256)), id="binary"),
    pytest.param(bytes(range(256)) * 1200, id="300KB"),
]
BURST = 2000

each_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("receiver", VERSIONS)
@pytest.mark.parametrize("sender", VERSIONS)
def test_what_is_published_arrives_as_it_was(
    broker: BrokerProcess, sender: MQTTProtocolVersion, receiver: MQTTProtocolVersion, qos: int, payload: bytes
) -> None:
    topic = "a b/c.d/*/\N{LATIN SMALL LETTER U WITH DIAERESIS}//end"
    with client(broker, "sender", sender) as source, client(broker, "receiver", receiver) as sink:
        assert sink.subscribe(topic, qos).value == qos
        source.client.publish(topic, payload, qos).wait_for_publish(WAIT_S)
        message = sink.next()
        assert (message.topic, message.payload, message.qos) == (topic, payload, qos)
        assert not message.retain
        assert sink.is_quiet()


@each_version
def test_the_lower_qos_of_the_two_counts(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "c", version) as made:
        for qos in range(3):
            made.subscribe(f"at{qos}", qos)
        for qos in range(3):
            for granted in range(3):
                made.send(f"at{granted}", b"%d" % qos, qos)
                message = made.next()
                assert (message.payload, message.qos) == (b"%d" % qos, min(qos, granted))


@each_version
def test_wildcards(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "c", version) as made, client(broker, "p", version) as source:
        for topic in ("house/+/temperature", "garden/#"):
            assert not made.subscribe(topic).is_failure
        wanted = ["house/kitchen/temperature", "house//temperature", "garden", "garden/pond", "garden/pond/depth"]
        others = ["house/temperature", "house/a/b/temperature", "house/kitchen/humidity", "gardens/pond", "/garden"]
        for topic in others + wanted:
            source.publish(topic, topic.encode())
        got = [made.next() for _ in wanted]
        assert [message.topic for message in got] == wanted
        assert [message.payload.decode() for message in got] == wanted
        assert made.is_quiet()


@each_version
def test_overlapping_subscriptions_get_one_copy(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "c", version) as made:
        made.subscribe("a/#", 0)
        made.subscribe("a/+", 1)
        made.subscribe("a/b", 0)
        made.publish("a/b", b"x")
        message = made.next()
        assert (message.payload, message.qos) == (b"x", 1)
        assert made.is_quiet()


@each_version
def test_a_retained_message_is_for_those_who_come_later(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "early", version) as early:
        early.subscribe("lamps/#")
        early.send("lamps/1", b"on", retain=True)
        early.send("lamps/1", b"off", retain=True)
        early.send("lamps/2", b"dim", retain=True)
        assert [(message.payload, message.retain) for message in (early.next(), early.next(), early.next())] == [
            (b"on", False),
            (b"off", False),
            (b"dim", False),
        ]
        early.send("lamps/2", retain=True)
        with client(broker, "late", version) as late:
            late.subscribe("lamps/+", 2)
            message = late.next()
            assert (message.topic, message.payload, message.retain, message.qos) == ("lamps/1", b"off", True, 1)
            assert late.is_quiet()


@each_version
def test_a_retained_message_outlives_a_kill(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "early", version) as early:
        early.send("kept", b"old", 2, retain=True)
        early.send("kept", b"new", 1, retain=True)
        early.send("gone", b"x", 1, retain=True)
        early.send("gone", b"", 1, retain=True)
        broker.kill9()
    broker.start()
    with client(broker, "late", version) as late:
        late.subscribe("#")
        message = late.next()
        assert (message.topic, message.payload, message.retain) == ("kept", b"new", True)
        assert late.is_quiet()


@each_version
def test_a_will_may_be_retained(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "watcher", version) as watcher:
        watcher.subscribe("state/c")
        made = Client(broker, "c", version)
        made.client.will_set("state/c", b"offline", qos=1, retain=True)
        assert not made.connect()[0].is_failure
        made.cut()
        message = watcher.next()
        assert (message.payload, message.retain) == (b"offline", False)
    with client(broker, "late", version) as late:
        late.subscribe("state/c")
        assert late.next().retain


@each_version
def test_a_wrong_password_is_refused(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    made = Client(broker, "c", version, password="wrong")
    code, _flags, _properties = made.connect()
    made.end()
    assert code == ReasonCode(PacketTypes.CONNACK, "Bad user name or password" if version == V5 else "Not authorized")


@each_version
def test_a_will_is_published_when_the_connection_breaks(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "watcher", version) as watcher:
        watcher.subscribe("gone/#")
        made = Client(broker, "c", version)
        made.client.will_set("gone/c", b"\0farewell", qos=1)
        assert not made.connect()[0].is_failure
        made.cut()
        message = watcher.next()
        assert (message.topic, message.payload, message.qos) == ("gone/c", b"\0farewell", 1)
        assert not message.retain
        made.end()
        assert watcher.is_quiet()


@each_version
def test_a_clean_disconnect_leaves_nothing(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "watcher", version) as watcher:
        watcher.subscribe("gone/#")
        made = Client(broker, "c", version)
        made.client.will_set("gone/c", b"farewell", qos=1)
        assert not made.connect()[0].is_failure
        made.subscribe("a")
        made.end()
        assert not made.ended.get(timeout=WAIT_S).is_failure
        assert watcher.is_quiet()
        with client(broker, "c", version) as again:
            watcher.publish("a", b"x")
            assert again.is_quiet()


@each_version
def test_the_last_connection_of_a_client_identifier_wins(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "same", version) as first:
        first.subscribe("a")
        with client(broker, "same", version) as second:
            code = first.ended.get(timeout=WAIT_S)
            assert code.is_failure
            if version == V5:
                assert code == ReasonCode(PacketTypes.DISCONNECT, "Session taken over")
            second.subscribe("a")
            second.publish("a", b"x")
            assert second.next().payload == b"x"
            assert second.is_quiet()
            assert first.is_quiet()


@each_version
def test_pipelined_messages_arrive_once_and_in_order(
    start_broker: Callable[..., BrokerProcess], version: MQTTProtocolVersion
) -> None:
    broker = start_broker(mqtt_max_mqueue_len=0)  # the source may be faster than the sink
    with client(broker, "sink", version) as sink:
        sink.subscribe("numbers")
        source = Client(broker, "source", version)
        source.client.max_inflight_messages_set(500)
        assert not source.connect()[0].is_failure
        for number in range(BURST):
            source.client.publish("numbers", b"%d" % number, 1)
        codes = [source.acked.get(timeout=WAIT_S) for _ in range(BURST)]
        assert not any(code.is_failure for code in codes)
        assert [int(sink.next().payload) for _ in range(BURST)] == list(range(BURST))
        assert sink.is_quiet()
        source.end()


@each_version
def test_pipelined_messages_at_qos_2_arrive_once_and_in_order(
    broker: BrokerProcess, version: MQTTProtocolVersion
) -> None:
    with client(broker, "sink", version) as sink, client(broker, "source", version) as source:
        sink.subscribe("numbers", 2)
        for number in range(200):
            source.client.publish("numbers", b"%d" % number, 2)
        messages = [sink.next() for _ in range(200)]
        assert [(int(message.payload), message.qos) for message in messages] == [(each, 2) for each in range(200)]
        for _ in range(200):
            assert not source.acked.get(timeout=WAIT_S).is_failure
        assert sink.is_quiet()


def test_properties_pass_through(broker: BrokerProcess) -> None:
    with client(broker, "sink") as sink, client(broker, "source") as source:
        sink.subscribe("a")
        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = [("colour", "red"), ("colour", "blue"), ("", "\N{SNOWMAN}")]
        properties.ContentType = "application/json"
        properties.CorrelationData = b"\0\xff\1"
        properties.ResponseTopic = "answers/1"
        properties.MessageExpiryInterval = 60
        properties.PayloadFormatIndicator = 1
        source.client.publish("a", b"{}", 1, properties=properties)
        found: Any = sink.next().properties
        assert found.UserProperty == properties.UserProperty
        assert found.ContentType == "application/json"
        assert found.CorrelationData == b"\0\xff\1"
        assert found.ResponseTopic == "answers/1"
        assert 0 < found.MessageExpiryInterval <= 60
        assert found.PayloadFormatIndicator == 1


@each_version
def test_unsubscribe_stops_delivery(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    with client(broker, "sink", version) as sink, client(broker, "source", version) as source:
        sink.subscribe("a/#")
        sink.subscribe("b")
        source.publish("a/1", b"1")
        assert sink.next().payload == b"1"
        sink.client.unsubscribe("a/#")
        codes = sink.dropped.get(timeout=WAIT_S)
        assert not any(code.is_failure for code in codes)
        source.publish("a/1", b"2")
        source.publish("b", b"3")
        assert sink.next().payload == b"3"
        assert sink.is_quiet()
