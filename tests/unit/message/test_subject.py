"""What filters and people see of a stored message."""

from __future__ import annotations

import pytest

from forebay.core.message import AMQP091, MQTT, Properties
from forebay.filter.parser import parse
from forebay.filter.subject import PROPERTIES
from forebay.log.block import BlockWriter
from forebay.message.formats.table import format_of
from forebay.message.shown import plain, record_shown
from forebay.message.subject import RecordSubject

STORED_US = 1_700_000_000_000_000
DEATH = {
    "count": 2,
    "reason": "rejected",
    "queue": "orders",
    "time": 1_699_999_999,
    "exchange": "shop",
    "routing-keys": ["order.new", "other"],
}


def subject(format: int, exchange: bytes, key: bytes, properties: Properties, body: bytes) -> RecordSubject:
    writer = BlockWriter()
    writer.append(format, exchange, key, format_of(format).encode(properties), body)
    block = writer.seal(40, STORED_US, True)
    return RecordSubject(b"q", block, 0, STORED_US + 5_000_000, 3, 1)


def amqp() -> RecordSubject:
    properties = Properties()
    properties.priority = 5
    properties.message_id = "m"
    properties.timestamp_s = 77
    properties.expiration_ms = 60_000
    properties.correlation_id = b"c\xff"
    properties.content_type = "application/json"
    properties.headers = [("x-death", [DEATH, {"reason": "expired"}]), ("n", 1), ("x-first-death-queue", "first")]
    return subject(AMQP091, b"shop", b"order.new", properties, b'{"a": {"b": [1, 2]}}')


def mqtt() -> RecordSubject:
    properties = Properties()
    properties.reply_to = "answers"
    properties.headers = [("n", "1"), ("dlq-reason", "broken"), ("dlq-queue", "orders"), ("dlq-time-ms", "1234")]
    return subject(MQTT | 2 << 4, b"amq.topic", b"order/new", properties, b"\xff\xfe")


@pytest.mark.parametrize(
    "where",
    [
        "queue = 'q' AND offset = 40 AND exchange = 'shop' AND routing_key = 'order.new' AND topic = 'order/new'",
        "protocol = 'amqp091' AND qos = 1 AND stored_ms = 1700000000000 AND age_ms = 5000 AND octets = 20",
        "deliveries = 3 AND failures = 1 AND priority = 5 AND timestamp = 77 AND expiration = 60000",
        "message_id = 'm' AND content_type BEGINS WITH 'application/' AND correlation_id IS NOT NULL",
        "header.n = 1 AND /a/b = 2 AND header.x-death[1]/reason = 'expired'",
        "death_reason = 'rejected' AND death_queue = 'orders' AND death_exchange = 'shop' AND death_count = 2",
        "death_routing_key = 'order.new' AND death_ms = 1699999999000 AND first_death_queue = 'first'",
        "first_death_reason IS NULL AND user_id IS NULL AND app_id IS NULL AND type IS NULL AND reply_to IS NULL",
    ],
)
def test_a_message_of_amqp(where: str) -> None:
    assert parse(where).matches(amqp())


@pytest.mark.parametrize(
    "where",
    [
        "protocol = 'mqtt' AND qos = 2 AND topic = 'order/new' AND routing_key = 'order/new' AND reply_to = 'answers'",
        "header.n = 1 AND /a IS NULL AND octets = 2",
        "death_reason = 'broken' AND death_queue = 'orders' AND death_ms = 1234 AND death_count IS NULL",
    ],
)
def test_a_message_of_mqtt(where: str) -> None:
    assert parse(where).matches(mqtt())


def test_every_fact_has_an_answer() -> None:
    nameless = subject(AMQP091, b"", b"", Properties(), b"")
    for each in (amqp(), mqtt(), nameless):
        for name in PROPERTIES:
            each.property(name)
    assert nameless.property("death_reason") is None


def test_a_message_is_shown() -> None:
    shown = record_shown(amqp(), 10)
    assert (shown["body"], shown["is_cut"], shown["octets"]) == ('{"a": {"b"', True, 20)
    assert shown["headers"] == {"x-death": [DEATH, {"reason": "expired"}], "n": 1, "x-first-death-queue": "first"}
    assert shown["properties"] == {
        "priority": 5,
        "timestamp": 77,
        "expiration": 60_000,
        "message_id": "m",
        "correlation_id": "c\\xff",
        "content_type": "application/json",
    }
    assert shown["death"] == {
        "death_reason": "rejected",
        "death_queue": "orders",
        "death_exchange": "shop",
        "death_routing_key": "order.new",
        "death_count": 2,
        "death_ms": 1_699_999_999_000,
        "first_death_queue": "first",
    }
    assert (record_shown(mqtt(), 10)["body_base64"], record_shown(mqtt(), 10)["is_cut"]) == ("//4=", False)


def test_values_become_what_json_can_say() -> None:
    value = {"a": [b"\xff", 1.5, float("inf"), None, True], b"b": {1: 2}}
    assert plain(value) == {"a": ["\\xff", 1.5, "inf", None, True], "b": {"1": 2}}
