"""A message that comes over HTTP: checked, and put in the words of MQTT, whose topics it is published to."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from forebay.broker.publish.commands import topic_command_at
from forebay.broker.publish.deduplication import Identity, identity_of
from forebay.core.errors import INVALID, TOO_LARGE, PeerError, RequestError
from forebay.core.options import Options
from forebay.core.reading.nearest import hint
from forebay.directory.permissions import Rights
from forebay.session.mqtt.incoming.publish import SYS_PREFIX, check_user_properties, user_text
from forebay.wire.mqtt.codes import PUBLISH, check_topic_name
from forebay.wire.mqtt.properties import (
    CONTENT_TYPE,
    MESSAGE_EXPIRY,
    USER_PROPERTY,
    Property,
    check_properties,
    encode_properties,
    mqtt_text,
)

QOS_MAX: Final = 2
PRIORITY_MAX: Final = 255
EXPIRATION_S_MAX: Final = (1 << 32) - 2
DELAY_MS_MAX: Final = 100 * 366 * 86_400_000
PROPERTIES_OCTETS_MAX: Final = 1 << 20
DELAYED_PREFIX: Final = b"$delayed/"
DEDUPLICATION_KEY: Final = "x-deduplication-key"
GROUP: Final = "x-group-id"
PRIORITY: Final = "amqp-priority"
# Headers that proxies and browsers add by themselves: they are not the publisher's words.
NOT_PROPERTIES: Final = ("x-forwarded-", "x-real-ip", "x-requested-with", "x-request-id")
FIELDS: Final = frozenset(
    {
        "topic",
        "payload",
        "payload_base64",
        "headers",
        "content_type",
        "qos",
        "retain",
        "expiration_s",
        "delay_ms",
        "priority",
        "key",
        "idempotency_key",
    }
)


@dataclass(slots=True)
class PublishRequest:
    """A message that somebody wants to publish, before it is checked.

    key              message group: messages of one are delivered in order, one at a time
    idempotency_key  publishes with the same one are taken once
    """

    topic: str
    body: bytes
    content_type: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    qos: int = 1
    retain: bool = False
    expiration_s: int | None = None
    delay_ms: int = 0
    priority: int | None = None
    key: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A checked message; `identity` where it is to be taken only once."""

    topic: bytes
    properties: bytes
    body: bytes
    qos: int
    retain: bool
    delay_ms: int
    identity: Identity | None


def checked(wanted: PublishRequest, options: Options) -> Message:
    """The message; RequestError(INVALID), with field and value, or PeerError(TOO_LARGE)."""
    topic = wanted.topic.encode("utf-8", "surrogateescape")
    within("qos", wanted.qos, QOS_MAX)
    within("delay_ms", wanted.delay_ms, DELAY_MS_MAX)
    if wanted.expiration_s is not None:
        within("expiration_s", wanted.expiration_s, EXPIRATION_S_MAX)
    if wanted.priority is not None:
        within("priority", wanted.priority, PRIORITY_MAX)
    if len(wanted.body) > options.message_octets_max:
        raise PeerError(TOO_LARGE, f"body: {len(wanted.body)} octets, the limit is {options.message_octets_max}")
    try:
        check_topic_name(topic, f"topic {wanted.topic!r}", options.mqtt_topic_levels_max)
        properties = properties_of(wanted)
        if properties:
            check_properties(properties, 0, len(properties), PUBLISH)
            check_user_properties(properties)
    except PeerError as error:
        raise RequestError(INVALID, error.text) from None
    if topic_command_at(topic) or topic.startswith((SYS_PREFIX, DELAYED_PREFIX)):
        raise RequestError(INVALID, f"topic: {wanted.topic!r} is none that messages are published to")
    identity = identity_of(
        user_text(properties, b"x-producer-id"),
        user_text(properties, b"x-sequence"),
        user_text(properties, DEDUPLICATION_KEY.encode()),
    )
    return Message(topic, properties, wanted.body, wanted.qos, wanted.retain, wanted.delay_ms, identity)


def check_right(rights: Rights, message: Message) -> None:
    """RequestError(REFUSED) where the publisher may not publish there; Undecided."""
    rights.check_publish_topic(message.topic)


def within(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise RequestError(INVALID, f"{name}: {value} is not within 0 .. {most}")


def properties_of(wanted: PublishRequest) -> bytes:
    """The block of MQTT properties that says the same."""
    found: list[Property] = []
    if wanted.expiration_s is not None:
        found.append(Property(MESSAGE_EXPIRY, wanted.expiration_s, b"", b""))
    if wanted.content_type:
        found.append(Property(CONTENT_TYPE, 0, mqtt_text(wanted.content_type), b""))
    own = list(wanted.headers)
    for name, value in (
        (DEDUPLICATION_KEY, wanted.idempotency_key),
        (GROUP, wanted.key),
        (PRIORITY, None if wanted.priority is None else str(wanted.priority)),
    ):
        if value is not None:
            own.append((name, value))
    found += [Property(USER_PROPERTY, 0, mqtt_text(name), mqtt_text(value)) for name, value in own]
    octets = encode_properties(found)
    if len(octets) > PROPERTIES_OCTETS_MAX:
        raise RequestError(INVALID, f"headers: {len(octets)} octets, the limit is {PROPERTIES_OCTETS_MAX}")
    return octets


def own_headers(headers: Mapping[str, str] | list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers of a request that are user properties: those that begin with `x-` and are the publisher's."""
    pairs = headers if isinstance(headers, list) else list(headers.items())
    return [(name, value) for name, value in pairs if name.startswith("x-") and not name.startswith(NOT_PROPERTIES)]


def wanted_of(item: object) -> PublishRequest:
    """One item of a batch; RequestError(INVALID) names the field that is wrong."""
    if not isinstance(item, dict):
        raise RequestError(INVALID, "is no object")
    unknown = sorted(set(item) - FIELDS)
    if unknown:
        raise RequestError(INVALID, f"{unknown[0]}: no such field: {hint(str(unknown[0]), FIELDS)}")
    topic = text_at(item, "topic")
    if topic is None:
        raise RequestError(INVALID, "topic is missing")
    body, content_type = body_of(item)
    headers = item.get("headers") or {}
    if not isinstance(headers, dict):
        raise RequestError(INVALID, "headers: is no object")
    return PublishRequest(
        topic,
        body,
        text_at(item, "content_type") or content_type,
        [(str(name), header_text(name, value)) for name, value in headers.items()],
        number_at(item, "qos", 1),
        flag_at(item, "retain"),
        None if item.get("expiration_s") is None else number_at(item, "expiration_s", 0),
        number_at(item, "delay_ms", 0),
        None if item.get("priority") is None else number_at(item, "priority", 0),
        text_at(item, "key"),
        text_at(item, "idempotency_key"),
    )


def body_of(item: dict[str, object]) -> tuple[bytes, str | None]:
    """The payload and its content type: text as it is, other values as JSON, or what `payload_base64` says."""
    coded = text_at(item, "payload_base64")
    if coded is not None:
        if "payload" in item:
            raise RequestError(INVALID, "payload and payload_base64: one of them is the payload")
        try:
            return base64.b64decode(coded, validate=True), None
        except (binascii.Error, ValueError):
            raise RequestError(INVALID, f"payload_base64: {coded[:80]!r} is no base64") from None
    payload = item.get("payload", "")
    if isinstance(payload, str):
        return payload.encode("utf-8", "surrogatepass"), None
    return orjson.dumps(payload), "application/json"


def header_text(name: object, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise RequestError(INVALID, f"headers.{name}: is neither a text nor a number")


def text_at(item: dict[str, object], name: str) -> str | None:
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise RequestError(INVALID, f"{name}: is no text")
    return value


def flag_at(item: dict[str, object], name: str) -> bool:
    value = item.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(INVALID, f"{name}: is neither true nor false")
    return value is True


def number_at(item: dict[str, object], name: str, default: int) -> int:
    value = item.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise RequestError(INVALID, f"{name}: is no whole number")
    return value
