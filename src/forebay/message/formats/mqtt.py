"""MQTT: `properties` are the property block of a PUBLISH without its length, and `body` is the payload.

The block of a 3.1.1 client is empty. User properties are headers.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import INVALID, PeerError
from forebay.core.message import (
    AMQP_SECTIONS,
    FORMAT_MASK,
    MQTT,
    PLAIN_BODY,
    QOS_MASK,
    QOS_SHIFT,
    RETAIN,
    Properties,
)
from forebay.message.deaths import (
    DEATH_HEADERS,
    FIRST_DEATH,
    LAST_DEATH,
    MARKS,
    X_DEATH,
    Deaths,
    death_fields,
    mark_headers,
)
from forebay.message.formats.format import Format
from forebay.message.requests import PublishRequests
from forebay.routing.exchange import text
from forebay.routing.topic_trie import swap_key
from forebay.wire.amqp091.properties import cut_key
from forebay.wire.mqtt.codes import PUBLISH
from forebay.wire.mqtt.properties import (
    LONG,
    MESSAGE_EXPIRY,
    SECTIONS_TYPE,
    USER_PROPERTY,
    Property,
    check_properties,
    content_type_of,
    decode_neutral,
    decode_properties,
    encode_neutral,
    encode_properties,
    expiry_at,
    header_text,
    mqtt_text,
    property_number,
    rest_of_expiry,
    user_property,
    without,
)

QUEUE_PREFIX: Final = b"$queue/"
PRIORITY: Final = b"amqp-priority"
PRIORITY_MAX: Final = 255
QOS_MAX: Final = 2
OF_A_CONNECTION: Final = 0x8_0000_0800  # topic alias and subscription identifier: no stored message has them


@final
class MqttFormat(Format):
    """The adapter of MQTT."""

    def __init__(self) -> None:
        super().__init__(MQTT, "mqtt", keys_are_topics=True, has_plain_bodies=True, marks_late=True)

    # ---- octet and address

    def qos(self, octet: i64) -> i64:
        return (octet & QOS_MASK) >> QOS_SHIFT

    def may_publish(self, octet: i64) -> bool:
        if octet & ~(FORMAT_MASK | QOS_MASK | RETAIN):
            return False
        return octet & FORMAT_MASK == MQTT and self.qos(octet) <= QOS_MAX

    def topic(self, routing_key: bytes) -> bytes:
        return routing_key

    def amqp_address(self, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes]:
        if routing_key.startswith(QUEUE_PREFIX):
            return b"", cut_key(routing_key)  # over AMQP, too, this key reaches the queue
        return exchange, cut_key(swap_key(routing_key))

    # ---- single fields

    def priority(self, properties: bytes) -> i64:
        digits = user_property(properties, PRIORITY) if properties else None
        if digits is None or not digits.isdigit() or len(digits) > 3 or int(digits) > PRIORITY_MAX:
            return -1
        return int(digits)

    def expiration_us(self, properties: bytes) -> i64:
        if not properties:
            return -1
        at = expiry_at(properties)
        return -1 if at < 0 else property_number(properties, at, len(properties), LONG) * 1_000_000

    def header(self, properties: bytes, name: bytes) -> bytes | None:
        return user_property(properties, name) if properties else None

    def headers(self, properties: bytes) -> dict[str, object]:
        found: dict[str, object] = {}
        for each in decode_properties(properties):
            if each.id == USER_PROPERTY:
                found[each.text.decode()] = each.value.decode()
        return found

    def reply_to(self, properties: bytes) -> bytes:
        return b""

    # ---- requests

    def check(self, properties: bytes, user: bytes, depth_max: i64) -> i64:
        if properties and check_properties(properties, 0, len(properties), PUBLISH) & OF_A_CONNECTION:
            raise PeerError(INVALID, "a topic alias or a subscription identifier is no message's")
        return 0

    def requests(self, properties: bytes) -> i64:
        return 0

    def read_requests(self, properties: bytes) -> PublishRequests:
        return PublishRequests(properties)

    def further_keys(self, properties: bytes) -> list[bytes]:
        return []

    # ---- edits

    def edit(self, properties: bytes, dropped: list[bytes], added: list[tuple[str, object]]) -> bytes:
        kept = [each for each in decode_properties(properties) if each.id != USER_PROPERTY or each.text not in dropped]
        for name, value in added:
            kept.append(Property(USER_PROPERTY, 0, mqtt_text(name), mqtt_text(header_text(value))))
        return encode_properties(kept)

    def without_further_keys(self, properties: bytes) -> bytes:
        return properties

    def without_expiration(self, properties: bytes) -> bytes:
        return without(properties, 1 << MESSAGE_EXPIRY)

    def expiration_digits(self, properties: bytes) -> bytes:
        expiration_us = self.expiration_us(properties)
        return b"" if expiration_us < 0 else b"%d" % int(expiration_us // 1000)

    def aged(self, properties: bytes, waited_us: i64) -> bytes:
        return rest_of_expiry(properties, waited_us) if properties else properties

    def with_deaths(self, properties: bytes, deaths: Deaths) -> bytes:
        # The headers are those of AMQP as user properties: tables and arrays as JSON.
        dropped: list[bytes] = []
        added: list[tuple[str, object]] = []
        first, last = deaths.first, deaths.last
        if first is not None and last is not None:
            dropped += DEATH_HEADERS
            added.append((X_DEATH.decode(), [death_fields(each) for each in deaths.deaths]))
            added += texts_of(FIRST_DEATH, [first.exchange, first.queue, first.reason])
            added += texts_of(LAST_DEATH, [deaths.last_exchange, last.queue, last.reason])
        if deaths.marks is not None:
            dropped += MARKS
            added += mark_headers(deaths.marks)
        return self.edit(properties, dropped, added)

    # ---- conversion

    def decode(self, properties: bytes) -> Properties:
        return decode_neutral(properties)

    def encode(self, properties: Properties) -> bytes:
        return encode_neutral(properties)

    def body_kind(self, properties: bytes, body: bytes) -> i64:
        return AMQP_SECTIONS if content_type_of(properties) == SECTIONS_TYPE else PLAIN_BODY


def texts_of(names: tuple[bytes, bytes, bytes], values: list[bytes]) -> list[tuple[str, object]]:
    return [(name.decode(), text(values[index])) for index, name in enumerate(names)]
