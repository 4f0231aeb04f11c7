"""Adapters that let filters read a stored record: in a block, while it is published, or as a row of a table."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

import msgspec
from mypy_extensions import i64

from forebay.core.message import Properties
from forebay.core.units import US_PER_MS
from forebay.filter.subject import BODY_OCTETS_MAX, Subject
from forebay.log.block import Block
from forebay.message.formats.format import Format
from forebay.message.formats.table import HAS_SECTIONS, format_of
from forebay.message.properties import properties_of
from forebay.message.rendered import rendered, rendered_at

# Properties by number, because a filter reads them for every record and numbers compare fast.
QUEUE: Final = 1
OFFSET: Final = 2
EXCHANGE: Final = 3
ROUTING_KEY: Final = 4
TOPIC: Final = 5
PROTOCOL: Final = 6
QOS: Final = 7
STORED_MS: Final = 8
AGE_MS: Final = 9
OCTETS: Final = 10
DELIVERIES: Final = 11
FAILURES: Final = 12
STORED_LAST: Final = 12
PRIORITY: Final = 13
TIMESTAMP: Final = 14
EXPIRATION: Final = 15
MESSAGE_ID: Final = 16
CORRELATION_ID: Final = 17
CONTENT_TYPE: Final = 18
CONTENT_ENCODING: Final = 19
REPLY_TO: Final = 20
TYPE: Final = 21
USER_ID: Final = 22
APP_ID: Final = 23
PROPERTIES_LAST: Final = 23
DEATH_REASON: Final = 24
DEATH_QUEUE: Final = 25
DEATH_EXCHANGE: Final = 26
DEATH_ROUTING_KEY: Final = 27
DEATH_COUNT: Final = 28
DEATH_MS: Final = 29
FIRST_DEATH_REASON: Final = 30
FIRST_DEATH_QUEUE: Final = 31

NUMBERS: Final = {
    "queue": QUEUE,
    "offset": OFFSET,
    "exchange": EXCHANGE,
    "routing_key": ROUTING_KEY,
    "topic": TOPIC,
    "protocol": PROTOCOL,
    "qos": QOS,
    "stored_ms": STORED_MS,
    "age_ms": AGE_MS,
    "octets": OCTETS,
    "deliveries": DELIVERIES,
    "failures": FAILURES,
    "priority": PRIORITY,
    "timestamp": TIMESTAMP,
    "expiration": EXPIRATION,
    "message_id": MESSAGE_ID,
    "correlation_id": CORRELATION_ID,
    "content_type": CONTENT_TYPE,
    "content_encoding": CONTENT_ENCODING,
    "reply_to": REPLY_TO,
    "type": TYPE,
    "user_id": USER_ID,
    "app_id": APP_ID,
    "death_reason": DEATH_REASON,
    "death_queue": DEATH_QUEUE,
    "death_exchange": DEATH_EXCHANGE,
    "death_routing_key": DEATH_ROUTING_KEY,
    "death_count": DEATH_COUNT,
    "death_ms": DEATH_MS,
    "first_death_reason": FIRST_DEATH_REASON,
    "first_death_queue": FIRST_DEATH_QUEUE,
}
PROPERTY_NAMES: Final = [name for name, number in NUMBERS.items() if STORED_LAST < number <= PROPERTIES_LAST]
DEATH_NAMES: Final = [name for name, number in NUMBERS.items() if number > PROPERTIES_LAST]

# Names of a dead letter's marks, over MQTT and beside x-death.
MARKS: Final = {DEATH_REASON: "dlq-reason", DEATH_QUEUE: "dlq-queue", DEATH_MS: "dlq-time-ms"}
# Names of the last death's fields, in the first table of the header x-death (see `message/rendered.py`).
DEATHS: Final = {DEATH_REASON: "reason", DEATH_QUEUE: "queue", DEATH_EXCHANGE: "exchange", DEATH_COUNT: "count"}

JSON: Final = msgspec.json.Decoder()


class StoredSubject(Subject):
    """Base of all stored records that filters can read, wherever the parts of the record are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.said: Properties | None = None

    @abstractmethod
    def stored(self, number: i64) -> object:
        """Return the property with this number, up to STORED_LAST. It is stored outside of the record's properties."""

    @abstractmethod
    def read_properties(self) -> Properties:
        """Read the record's properties and headers."""

    @abstractmethod
    def read_body(self) -> bytes:
        """Read the record's body."""

    def property(self, name: str) -> object:
        number: i64 = NUMBERS[name]
        if number <= STORED_LAST:
            return self.stored(number)
        if number <= PROPERTIES_LAST:
            return stated_property(self.properties(), number)
        return death_property(self.properties(), number)

    def properties(self) -> Properties:
        """Return the record's properties and headers, decoded at the first call. Do not change them."""
        said = self.said
        if said is None:
            said = self.read_properties()
            self.said = said
        return said

    def header(self, name: str) -> object:
        return self.properties().header(name)

    def parse_body(self) -> object:
        body = self.read_body()
        if len(body) > BODY_OCTETS_MAX:
            self.is_cut = True
            return None
        try:
            return JSON.decode(body)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None


@final
class RecordSubject(StoredSubject):
    """One record of a queue's log.

    deliveries, failures  number of its earlier deliveries, and of those that failed
    """

    def __init__(
        self, queue: bytes, block: Block, index: i64, now_us: i64, deliveries: i64 = 0, failures: i64 = 0
    ) -> None:
        super().__init__()
        self.queue = queue
        self.block = block
        self.index: i64 = index
        self.now_us: i64 = now_us
        self.deliveries: i64 = deliveries
        self.failures: i64 = failures

    def offset(self) -> i64:
        """Return the record's offset in its queue's log."""
        return self.block.base + self.index

    def stored(self, number: i64) -> object:
        block = self.block
        index = self.index
        if number == ROUTING_KEY:
            return block.routing_key(index)
        if number == EXCHANGE:
            return block.exchange(index)
        if number == OFFSET:
            return int(block.base + index)
        if number == STORED_MS:
            return int(block.timestamp_us(index) // US_PER_MS)
        if number == AGE_MS:
            return int((self.now_us - block.timestamp_us(index)) // US_PER_MS)
        if number == OCTETS:
            if HAS_SECTIONS[int(block.format(index))]:
                return len(self.read_body())
            return int(block.body_span(index, 1))
        if number == DELIVERIES:
            return int(self.deliveries)
        if number == FAILURES:
            return int(self.failures)
        if number == QUEUE:
            return self.queue
        return address_property(number, format_of(block.format(index)), block.format(index), block.routing_key(index))

    def read_properties(self) -> Properties:
        block = self.block
        return properties_of(block.format(self.index), rendered_at(block, self.index))

    def parse_body(self) -> object:
        if self.block.body_span(self.index, 1) > BODY_OCTETS_MAX:
            self.is_cut = True  # tested before the body is copied
            return None
        return super().parse_body()

    def read_body(self) -> bytes:
        block = self.block
        return format_of(block.format(self.index)).payload(block.body(self.index))


@final
class PublishedSubject(StoredSubject):
    """A message that is being published and is in no queue yet: see `queue.declaration.arguments.LATER`."""

    def __init__(
        self, format: i64, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes, annotations: bytes
    ) -> None:
        super().__init__()
        self.annotations = annotations
        self.format: i64 = format
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded = properties
        self.content = body

    def is_of(self, format: i64, routing_key: bytes, properties: bytes, body: bytes) -> bool:
        """Return whether the subject was made of these very objects, so that several queues can share it."""
        return (
            self.content is body
            and self.encoded is properties
            and self.routing_key is routing_key
            and self.format == format
            and not self.annotations
        )

    def stored(self, number: i64) -> object:
        if number == ROUTING_KEY:
            return self.routing_key
        if number == EXCHANGE:
            return self.exchange
        if number == OCTETS:
            return len(self.read_body())
        if number in (TOPIC, PROTOCOL, QOS):
            return address_property(number, format_of(self.format), self.format, self.routing_key)
        return None

    def read_properties(self) -> Properties:
        return properties_of(self.format, rendered(self.format, self.encoded, self.annotations))

    def read_body(self) -> bytes:
        return format_of(self.format).payload(self.content)


def address_property(number: i64, format: Format, octet: i64, routing_key: bytes) -> object:
    """Return the property that follows from a record's format octet and its routing key."""
    if number == TOPIC:
        return format.topic(routing_key)
    if number == PROTOCOL:
        return format.name
    assert number == QOS, number
    return int(format.qos(octet))


def stated_property(properties: Properties, number: i64) -> object:
    """Return the property of this number, from PRIORITY to APP_ID, as the publisher set it."""
    if number == PRIORITY:
        return properties.priority
    if number == TIMESTAMP:
        return properties.timestamp_s
    if number == EXPIRATION:
        return properties.expiration_ms
    if number == MESSAGE_ID:
        return properties.message_id
    if number == CORRELATION_ID:
        return properties.correlation_id
    if number == CONTENT_TYPE:
        return properties.content_type
    if number == CONTENT_ENCODING:
        return properties.content_encoding
    if number == REPLY_TO:
        return properties.reply_to
    if number == TYPE:
        return properties.type
    if number == USER_ID:
        return properties.user_id
    assert number == APP_ID, number
    return properties.app_id


def death_property(properties: Properties, number: i64) -> object:
    """Return a property of a message's last or first death, or None if the message was never dead-lettered."""
    if number == FIRST_DEATH_REASON:
        return properties.header("x-first-death-reason")
    if number == FIRST_DEATH_QUEUE:
        return properties.header("x-first-death-queue")
    mark = MARKS.get(int(number))
    if mark is not None:
        said = properties.header(mark)
        if said is not None:
            return said
    deaths = properties.header("x-death")
    last = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(last, dict):
        return None
    if number == DEATH_MS:
        time_s = last.get("time")
        return time_s * 1000 if isinstance(time_s, int) else None
    if number == DEATH_ROUTING_KEY:
        keys = last.get("routing-keys")
        return keys[0] if isinstance(keys, list) and keys else None
    return last.get(DEATHS[int(number)])
