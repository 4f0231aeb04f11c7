"""A message: a format, an address and the publisher's octets.

A record keeps the wire image of the protocol it was published over (its *format*); a reader of the same protocol gets
those octets back unparsed. `Properties` is the neutral form between two protocols, made only when a reader speaks
another protocol than the publisher did; its fields are those of the AMQP 1.0 sections.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

# Formats, one octet a record. What `properties` and `body` hold:
AMQP091: Final = 1  # property flags and property list of the content header (from octet 12 on); the body
MQTT: Final = 2  # the MQTT 5 property block without its length, empty for 3.1.1; the payload
AMQP10: Final = 3  # sections before the body; the body sections

# The octet of the format: two bits for the format itself, and two for what a queue has to look for in the properties.
FORMAT_MASK: Final = 0x03
EXPIRES: Final = 0x04  # an expiration of its own
KEYED: Final = 0x08  # a message group: messages of one key are delivered in order, one at a time
# The others say of an MQTT message how it was published. Queues keep the QoS only.
QOS_SHIFT: Final = 4
QOS_MASK: Final = 0x30
STORED_MASK: Final = FORMAT_MASK | QOS_MASK  # what queues keep of such an octet
RETAIN: Final = 0x40  # its publisher set the RETAIN flag
RETAINED: Final = 0x80  # it was retained already when its receiver subscribed

# Kinds of bodies.
PLAIN_BODY: Final = 0  # octets
AMQP_SECTIONS: Final = 1  # sections of AMQP 1.0 that are no data: amqp-value or amqp-sequence, encoded

# Types of message and correlation ids.
UNTYPED_ID: Final = 0  # as the protocol has it: a text, or octets
NUMBER_ID: Final = 1  # its digits
UUID_ID: Final = 2  # `urn:uuid:…`
OCTETS_ID: Final = 3  # a message id in hexadecimal; a correlation id as it is
TEXT_ID: Final = 4  # a correlation id that is a text, and no octets

# What became of a publish: the `status` of its outcome.
ACCEPTED: Final = 0
UNROUTABLE: Final = 1  # no queue and no subscriber wanted it
REJECTED: Final = 2  # a destination refused it; others of its route may have it


@final
class Properties:
    """The properties of a message, free of any protocol's encoding; None or empty means absent.

    headers                application properties; values are str, int, float, bool, bytes, None, list or dict

    reply_topic            the topic that `reply_to` stands for, if it stands for one

    The others are of AMQP 1.0 alone. Other formats keep of them what they have a place for.
    message_id_type, correlation_id_type  UNTYPED_ID and so on, as the sender's protocol typed these ids
    timestamp_rest_ms      milliseconds of the creation time beyond `timestamp_s`
    absolute_expiry_ms     since 1970
    message_annotations    keys are str, or int; values as those of `headers`. `x-basic-type` is in `type` instead
    delivery_annotations   the same, for the next hop only
    footer                 the same
    body_kind              PLAIN_BODY or AMQP_SECTIONS
    """

    def __init__(self) -> None:
        self.durable: bool = True
        self.priority: int | None = None
        self.expiration_ms: int | None = None
        self.message_id: str | None = None
        self.correlation_id: bytes | None = None
        self.reply_to: str | None = None
        self.content_type: str | None = None
        self.content_encoding: str | None = None
        self.timestamp_s: int | None = None
        self.type: str | None = None
        self.user_id: str | None = None
        self.app_id: str | None = None
        self.cluster_id: str | None = None  # AMQP 0.9.1 alone has it
        self.body_is_text: bool = False
        self.headers: list[tuple[str, object]] = []
        self.reply_topic: str | None = None
        self.to: str | None = None
        self.subject: str | None = None
        self.message_id_type: i64 = UNTYPED_ID
        self.correlation_id_type: i64 = UNTYPED_ID
        self.timestamp_rest_ms: i64 = 0
        self.absolute_expiry_ms: int | None = None
        self.group_id: str | None = None
        self.group_sequence: int | None = None
        self.reply_to_group_id: str | None = None
        self.message_annotations: list[tuple[object, object]] | None = None
        self.delivery_annotations: list[tuple[object, object]] | None = None
        self.footer: list[tuple[object, object]] | None = None
        self.body_kind: i64 = PLAIN_BODY

    def named_values(self) -> list[tuple[str, object]]:
        """Return the headers, and behind them the message annotations `x-…`, which other formats have as headers."""
        if self.message_annotations is None:
            return self.headers
        found = list(self.headers)
        for key, value in self.message_annotations:
            if isinstance(key, str) and key.startswith("x-"):
                found.append((key, value))
        return found

    def header(self, name: str) -> object:
        """Return the value of the first header, or message annotation `x-…`, of that name; None if there is none."""
        for key, value in self.headers:
            if key == name:
                return value
        if self.message_annotations is not None and name.startswith("x-"):
            for annotation, value in self.message_annotations:
                if annotation == name:
                    return value
        return None
