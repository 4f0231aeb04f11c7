"""Topic names, topic filters and what matches in MQTT 3.1.1 (sections 1.5.3 and 4.7)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import V311
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v311.old import connected, publish, subscribe

TOPICS = [
    "",
    "/",
    "a",
    "A",
    "a/",
    "/a",
    "a/b",
    "a//b",
    "a/b/c",
    " a",
    "a ",
    "a.b",
    "é",
    "e\u0301",
    "\ufeffa",
    "*",
    "a*",
]
# Below a first level of the test's own.
MATCHES = {
    "/#": ["", *[f"/{topic}" for topic in TOPICS]],
    "/+": ["/", "/a", "/A", "/ a", "/a ", "/a.b", "/é", "/e\u0301", "/\ufeffa", "/*", "/a*"],
    "/+/+": ["//", "/a/", "//a", "/a/b"],
    "/a/+": ["/a/", "/a/b"],
    "/a/#": ["/a", "/a/", "/a/b", "/a//b", "/a/b/c"],
    "/+/b": ["/a/b"],
    "/+/+/b": ["/a//b"],
    "/a/+/c": ["/a/b/c"],
    "/a": ["/a"],
    "/é": ["/é"],
    "/\ufeffa": ["/\ufeffa"],
    "/*": ["/*"],
    "/a//b": ["/a//b"],
}


@statement(
    "MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.3-4", "MQTT-3.8.3-2", "MQTT-3.3.2-3", "MQTT-1.5.3-3", version=V311
)  # fmt: skip
@pytest.mark.parametrize("filter", MATCHES)
def test_mqtt3_4_7_3_4_a_filter_matches_its_topics_and_no_others(broker: AnyBroker, own: str, filter: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(own + filter, qos=0)
    publisher = connected(broker, f"{own} publisher")
    topics = ["", *[f"/{topic}" for topic in TOPICS]]
    for topic in topics:
        publisher.publish(own + topic, topic.encode())
    expected = [own + topic for topic in topics if topic in MATCHES[filter]]
    assert [raw.delivery().topic for _ in expected] == expected
    raw.quiet()


@statement("MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.3-1", version=V311)
@pytest.mark.parametrize("filter", ["", "a#", "a/#/b", "#/", "##", "/a#", "a+", "+a", "a/b+/c", "a/++", "+#", "#+"])
def test_mqtt3_4_7_1_2_filters_that_none_are_refused(broker: AnyBroker, own: str, filter: str) -> None:
    raw = connected(broker, own)
    raw.send(subscribe(1, (filter, 0)))
    assert raw.granted() == [0x80]


@statement("MQTT-4.7.3-1", version=V311)
def test_mqtt3_4_7_3_1_an_empty_topic_name_closes_the_connection(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.send(publish("", b"x", 1))
    assert raw.ended()


@statement("MQTT-1.5.3-1", "MQTT-1.5.3-2", "MQTT-3.3.2-1", "MQTT-4.7.3-2", version=V311)
@pytest.mark.parametrize(
    "topic", [b"\xff", b"a/\xed\xa0\x80", b"\xed\xbf\xbf", b"\xc0\x80", b"\xf8\x88\x80\x80", b"a\0b"]
)
def test_mqtt3_1_5_3_1_topic_names_are_utf_8_without_nul(broker: AnyBroker, own: str, topic: bytes) -> None:
    raw = connected(broker, own)
    raw.send(publish(topic, b"x", 1))
    assert raw.ended()


@statement("MQTT-1.5.3-3", "MQTT-4.7.3-4", version=V311)
def test_mqtt3_1_5_3_3_a_zero_width_no_break_space_is_not_stripped(broker: AnyBroker, own: str) -> None:
    plain, marked = connected(broker, f"{own} plain"), connected(broker, f"{own} marked")
    plain.subscribe(own)
    marked.subscribe(f"\ufeff{own}")
    publisher = connected(broker, own)
    publisher.publish(f"\ufeff{own}", b"marked")
    publisher.publish(own, b"plain")
    for raw, topic, body in ((marked, f"\ufeff{own}", b"marked"), (plain, own, b"plain")):
        found = raw.delivery()
        assert (found.topic, found.body) == (topic, body)
        raw.quiet()


@statement("MQTT-4.7.3-3", version=V311)
@pytest.mark.parametrize("octets", [1, 255, 256, 32_768, 65_535])
def test_mqtt3_4_7_3_3_topics_of_any_length(broker: AnyBroker, own: str, octets: int) -> None:
    topic = own.ljust(octets, "x")[:octets]
    raw = connected(broker, own)
    raw.subscribe(topic, qos=0)
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(topic, b"x")
    assert raw.delivery().topic == topic
