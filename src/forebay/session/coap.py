"""An observer over CoAP (RFC 7641): a session that writes each message as a notification's content.

What it writes is read by the server's side of the observation, and is no protocol of the network:

    4    octets behind these, big-endian
    2    length of the topic
    2    length of the content type; END: there is no topic, and the rest is the reason for which the session ends
    -    topic, content type, body

Topics are observed as at QoS 0. A message that a client has not been notified of gives way to a newer one of its topic.
"""

from __future__ import annotations

from typing import Final, final

import msgspec
from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import EXTERNAL, ClientSession, Owner, Subscription
from forebay.broker.mqtt.fanout import topic_at
from forebay.core.message import RETAINED
from forebay.directory.permissions import Rights
from forebay.log.block import Block
from forebay.message.formats.table import format_of
from forebay.message.properties import properties_of
from forebay.message.rendered import rendered_at
from forebay.queue.leases.lease import Consumer, Delivery, Encoded
from forebay.session.login import Login
from forebay.session.session import Session
from forebay.session.shared.event_fields import event_fields

EVENTS: Final = -2  # keys of `Encodings.made`; SSE has -1
VALUES: Final = -3
SWELL: Final = 6  # octets of JSON for one, at most: \u0000
RETAINED_AT_ONCE: Final = 100  # that a new observer is notified of
HEAD_OCTETS: Final = 4
LENGTHS_OCTETS: Final = 4
END: Final = 0xFFFF
JSON: Final = b"application/json"


@final
class ObserverSession(Session):
    """One observation of a topic or of a topic filter.

    is_plain  its notifications are the messages themselves, and not JSON that names the topic
    sent      messages given to the server's side; of these, newer ones replace older ones
    """

    def __init__(self, session_id: int, login: Login, vhost: VhostContract, rights: Rights, is_plain: bool) -> None:
        super().__init__(session_id, login, vhost, rights)
        self.swell = 1 if is_plain else SWELL
        self.is_plain = is_plain
        self.client: ClientSession | None = None
        self.sent: i64 = 0
        self.is_over = False
        self.has_delivered = True

    def subscribe(self, filter: bytes) -> int:
        """Subscribe to a filter, and return how many retained messages come first; RequestError for no filter."""
        vhost = self.vhost
        name = b"coap-%d-%d" % (int(vhost.sessions.now_us), self.id)
        client = vhost.mqtt_clients.attach(name, self.id, True, 0, None, Owner(self.principal.user, EXTERNAL))
        self.client = client
        vhost.mqtt_clients.subscribe(client, Subscription(client, filter, 0, vhost.sessions.next_offset()))
        count = 0
        for number in vhost.mqtt_clients.retained_numbers(filter)[:RETAINED_AT_ONCE]:
            message = vhost.mqtt_clients.retained_message(number)
            if message is not None:
                vhost.mqtt_clients.give_retained(client, 0, 0, message)
                count += 1
        return count

    # ---- what it is given

    def deliver(self, delivery: Delivery) -> None:
        if self.is_over:
            return
        encodings = delivery.encodings
        if encodings is None:
            self.write_long(self.encoded(delivery))
        else:
            key = VALUES if self.is_plain else EVENTS
            made = encodings.made.get(key)
            if made is None:
                octets = self.encoded(delivery)
                made = encodings.made[key] = Encoded(octets, [], [], delivery.count, len(octets))
            self.write_long(made.octets)  # many get alike what one copy is enough for
        self.sent += delivery.count

    def encoded(self, delivery: Delivery) -> bytes:
        """Return the contents of the notifications of one delivery."""
        parts: list[bytes] = []
        for index in range(delivery.index, delivery.index + delivery.count):
            topic = topic_at(delivery.block, index)
            content_type, body = self.content(delivery.block, index)
            parts.append(content_head(topic, len(content_type), len(content_type) + len(body)))
            parts.append(topic)
            parts.append(content_type)
            parts.append(body)
        return b"".join(parts)

    def content(self, block: Block, index: i64) -> tuple[bytes, bytes]:
        """Return content type and body of the notification for one message."""
        format = block.format(index)
        if not self.is_plain:
            fields = event_fields(block, index)
            if format & RETAINED:
                fields["retained"] = True
            return JSON, msgspec.json.encode(fields)
        properties = properties_of(format, rendered_at(block, index))
        content_type = properties.content_type
        text = b"" if content_type is None else content_type.encode("utf-8", "surrogatepass")
        return text[: END - 1], format_of(format).payload(block.body(index))

    def end(self, reason: str) -> None:
        """Write why the session ends, as its last content."""
        if self.is_over:
            return
        self.is_over = True
        self.closing = True
        self.reason = reason
        octets = reason.encode("utf-8", "surrogatepass")
        self.out.write(content_head(b"", END, len(octets)) + octets)

    # ---- what the server asks of every session

    def receive(self, data: bytes) -> int:
        return len(data)

    def wanted(self, rest: bytes) -> int:
        return 0

    def cancelled(self, consumer: Consumer) -> None:
        """Do nothing: the session consumes from no queue."""

    def end_turn(self, lsn: int, durable: int) -> None:
        """Do nothing: the session confirms nothing."""

    def on_durable(self, durable: int) -> None:
        """Do nothing: the session confirms nothing."""

    def waiting(self) -> bool:
        return False

    def tick(self, now_us: int) -> None:
        """Do nothing: the server's side of the observation finds out whether the client is there."""

    def taken_over(self) -> None:
        self.end("another observer came with the same name")

    def shut_down(self) -> None:
        self.end("the broker stops")

    def closed(self) -> None:
        client = self.client
        if client is not None:
            self.vhost.mqtt_clients.detach(client, self.id)
        self.vhost.session_closed(self.id)

    def describe(self) -> dict[str, object]:
        fields: dict[str, object] = {"protocol": "CoAP observe", "user": self.principal.user, "sent": int(self.sent)}
        client = self.client
        if client is not None:
            fields["client_id"] = client.client_id.decode()
            fields["dropped"] = int(client.missed)
        return fields

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        self.end(text)

    def is_publisher(self) -> bool:
        return False

    def blocked(self, reason: str) -> None:
        """Do nothing: the session publishes nothing."""

    def proven(self) -> None:
        """Do nothing: the session has logged in before it began."""


def content_head(topic: bytes, content_type: i64, rest: i64) -> bytes:
    """Return what stands before a topic: `content_type` is the length of that, `rest` the octets behind the topic."""
    octets = LENGTHS_OCTETS + len(topic) + rest
    return bytes(
        [
            int(octets >> 24 & 0xFF),
            int(octets >> 16 & 0xFF),
            int(octets >> 8 & 0xFF),
            int(octets & 0xFF),
            int(len(topic) >> 8 & 0xFF),
            int(len(topic) & 0xFF),
            int(content_type >> 8 & 0xFF),
            int(content_type & 0xFF),
        ]
    )
