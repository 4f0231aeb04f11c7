"""A stored record as filters see it, and as it is shown to people."""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from forebay.core.errors import PeerError
from forebay.core.message import AMQP091, FORMAT_MASK, MQTT, QOS_MASK, QOS_SHIFT, Properties
from forebay.filter.subject import FACTS, Subject
from forebay.log.block import Block
from forebay.routing.topic_trie import swap_key
from forebay.wire.convert import decode

PROTOCOLS: Final = {AMQP091: "amqp091", MQTT: "mqtt"}
PROPERTIES: Final = {
    "priority": "priority",
    "timestamp": "timestamp_s",
    "expiration": "expiration_ms",
    "message_id": "message_id",
    "correlation_id": "correlation_id",
    "content_type": "content_type",
    "content_encoding": "content_encoding",
    "reply_to": "reply_to",
    "type": "type",
    "user_id": "user_id",
    "app_id": "app_id",
}
# What the last death says, in the first table of the header x-death (see `broker/dead_letters`).
DEATHS: Final = {
    "death_reason": "reason",
    "death_queue": "queue",
    "death_exchange": "exchange",
    "death_count": "count",
}
FIRST_DEATHS: Final = {"first_death_reason": "x-first-death-reason", "first_death_queue": "x-first-death-queue"}
# What a dead letter says in its marks, over MQTT and beside x-death.
MARKS: Final = {"death_reason": "dlq-reason", "death_queue": "dlq-queue", "death_ms": "dlq-time-ms"}
DEATH_FACTS: Final = tuple(name for name in FACTS if name.startswith(("death_", "first_death_")))
MICROSECONDS: Final = 1000


class RecordSubject(Subject):
    """One record of a queue's log.

    deliveries, failures  how often it was handed out before, and failed
    """

    def __init__(
        self, queue: bytes, block: Block, index: int, now_us: int, deliveries: int = 0, failures: int = 0
    ) -> None:
        super().__init__()
        self.queue = queue
        self.block = block
        self.index = index
        self.now_us = now_us
        self.deliveries = deliveries
        self.failures = failures
        self._properties: Properties | None = None

    @property
    def format(self) -> int:
        """Protocol in which it was published."""
        return int(self.block.format(self.index)) & FORMAT_MASK

    @property
    def properties(self) -> Properties:
        """Its properties and headers, decoded at the first call."""
        if self._properties is None:
            try:
                self._properties = decode(self.format, self.block.properties(self.index))
            except PeerError:  # they were checked when they came; by rules that have changed since
                self._properties = Properties()
        return self._properties

    def fact(self, name: str) -> object:
        if name in PROPERTIES:
            value: object = getattr(self.properties, PROPERTIES[name])
            return value
        if name in DEATH_FACTS:
            return self.death(name)
        return self.stored_fact(name)

    def stored_fact(self, name: str) -> object:
        """What the log itself says of it."""
        block, index = self.block, self.index
        if name == "queue":
            return self.queue
        if name == "offset":
            return int(block.base) + index
        if name == "exchange":
            return block.exchange(index)
        if name == "routing_key":
            return block.routing_key(index)
        if name == "topic":
            key = block.routing_key(index)
            return key if self.format == MQTT else swap_key(key)
        if name == "protocol":
            return PROTOCOLS.get(self.format)
        if name == "qos":
            return (int(block.format(index)) & QOS_MASK) >> QOS_SHIFT if self.format == MQTT else 1
        if name == "stored_ms":
            return int(block.timestamp_us(index)) // MICROSECONDS
        if name == "age_ms":
            return (self.now_us - int(block.timestamp_us(index))) // MICROSECONDS
        if name == "octets":
            return int(block.body_span(index, 1))
        if name == "deliveries":
            return self.deliveries
        assert name == "failures", name
        return self.failures

    def death(self, name: str) -> object:
        """What it says of its last or first death; None of a message that never died."""
        if name in FIRST_DEATHS:
            return self.header(FIRST_DEATHS[name])
        if name in MARKS:
            mark = self.header(MARKS[name])
            if mark is not None:
                return mark
        deaths = self.header("x-death")
        last = deaths[0] if isinstance(deaths, list) and deaths else None
        if not isinstance(last, dict):
            return None
        if name == "death_ms":
            time_s = last.get("time")
            return time_s * 1000 if isinstance(time_s, int) else None
        if name == "death_routing_key":
            keys = last.get("routing-keys")
            return keys[0] if isinstance(keys, list) and keys else None
        return last.get(DEATHS[name])

    def header(self, name: str) -> object:
        return self.properties.header(name)

    def parse_body(self) -> object:
        try:
            return msgspec.json.decode(self.block.body(self.index))
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None

    def shown(self, body_octets_max: int) -> dict[str, object]:
        """The message for people and programs: all that it says of itself, and of its body at most so many octets.

        A body that is text stands under `body`, any other in base64 under `body_base64`.
        """
        shown: dict[str, object] = {}
        for name in ("offset", "exchange", "routing_key", "protocol", "stored_ms", "octets", "deliveries", "failures"):
            shown[name] = plain(self.fact(name))
        properties = {name: plain(self.fact(name)) for name in PROPERTIES if self.fact(name) is not None}
        shown["properties"] = properties
        shown["headers"] = {key: plain(value) for key, value in self.properties.headers}
        death = {name: plain(self.death(name)) for name in DEATH_FACTS if self.death(name) is not None}
        if death:
            shown["death"] = death
        body = self.block.body(self.index)[:body_octets_max]
        try:
            shown["body"] = body.decode()
        except UnicodeDecodeError:
            shown["body_base64"] = base64.b64encode(body).decode()
        shown["is_cut"] = len(body) < int(self.block.body_span(self.index, 1))
        return shown


def plain(value: object) -> object:
    """A value as JSON can say it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and value - value == 0.0:
        return value
    return str(value)
