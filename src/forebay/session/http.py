"""A subscriber over HTTP: what it is given becomes Server-Sent Events (WHATWG HTML, section 9.2).

    id: 17                          of queues: the offset, where a reader that comes back goes on
    data: {"topic": "a/b", "payload": "on", …}

A line that begins with a colon says only that the connection lives. Topics are given as at QoS 0: a reader that does
not keep up loses messages, and is told how many; of queues it loses none, they wait in the log.
"""

from __future__ import annotations

from typing import Final, final

import msgspec
from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import EXTERNAL, ClientSession, Owner, Subscription
from forebay.core.message import RETAINED
from forebay.core.units import US_PER_MS
from forebay.directory.permissions import Rights
from forebay.queue.leases.lease import Consumer, Delivery, Encoded, Lease
from forebay.routing.exchange import text
from forebay.session.login import Login
from forebay.session.session import Session
from forebay.session.shared.event_fields import event_fields

HEARTBEAT_S: Final = 15  # of silence, after which a comment says that the connection lives
RETRY_LINE: Final = b"retry: 1000\n\n"
HEARTBEAT: Final = b":\n\n"
EVENTS: Final = -1  # key of `Encodings.made`; those of MQTT are not below 0
SWELL: Final = 6  # octets of JSON for one, at most: \u0000
RETAINED_AT_ONCE: Final = 1000  # that a new subscriber is given
TAG: Final = b"events"

PROTOCOL: Final = "HTTP events"  # the protocol, for people


@final
class EventSession(Session):
    """One subscriber, to topics or to a queue.

    client    its subscription to topics; None for a queue
    consumer  of a queue; None for topics
    sent      events
    """

    def __init__(self, session_id: int, login: Login, vhost: VhostContract, rights: Rights) -> None:
        super().__init__(session_id, login, vhost, rights)
        self.swell = SWELL
        self.client: ClientSession | None = None
        self.consumer: Consumer | None = None
        self.sent: i64 = 0
        self.told_missed: i64 = 0
        self.silent_s: i64 = 0
        self.is_over = False
        self.has_delivered = True
        self.out.write(RETRY_LINE)

    # ---- what it subscribes to

    def subscribe(self, filter: bytes, retained: bool) -> None:
        """Be given what is published to topics, and what is retained; RequestError for no filter."""
        vhost = self.vhost
        name = b"http-%d-%d" % (int(vhost.sessions.now_us), self.id)
        client = vhost.mqtt_clients.attach(name, self.id, True, 0, None, Owner(self.principal.user, EXTERNAL))
        self.client = client
        vhost.mqtt_clients.subscribe(client, Subscription(client, filter, 0, vhost.sessions.next_offset()))
        if not retained:
            return
        for number in vhost.mqtt_clients.retained_numbers(filter)[:RETAINED_AT_ONCE]:
            message = vhost.mqtt_clients.retained_message(number)
            if message is not None:
                vhost.mqtt_clients.give_retained(client, 0, 0, message)

    def consume(self, queue: bytes, credit: i64, arguments: dict[str, object]) -> None:
        """Be given the messages of a queue; RequestError as `Vhost.consume`.

        credit  messages that it may hold unacknowledged; 0: nothing is to be acknowledged
        """
        self.consumer = self.vhost.consuming.consume(queue, self.id, 0, TAG, credit == 0, False, credit, arguments)

    # ---- what it is given

    def deliver(self, delivery: Delivery) -> None:
        if self.is_over:
            return
        self.silent_s = 0
        self.tell_missed()
        consumer = self.consumer
        encodings = delivery.encodings
        if consumer is None and encodings is not None:
            made = encodings.made.get(EVENTS)
            if made is None:
                octets = self.encoded(delivery)
                made = encodings.made[EVENTS] = Encoded(octets, [], [], delivery.count, len(octets))
            self.write_long(made.octets)  # many get alike what one copy is enough for
        else:
            self.out.write(self.encoded(delivery))
        self.sent += delivery.count

    def encoded(self, delivery: Delivery) -> bytes:
        """The events of one delivery."""
        block = delivery.block
        lease = delivery.lease
        parts: list[bytes] = []
        for index in range(delivery.index, delivery.index + delivery.count):
            fields = event_fields(block, index)
            if self.consumer is not None:
                offset = int(block.base + index)
                parts.append(b"id: %d\n" % offset)
                fields["offset"] = offset
                fields["stored_ms"] = int(block.timestamp_us(index) // US_PER_MS)
                if lease is not None:
                    fields.update(lease_fields(lease))
                    if lease.consumer.tells_lease and lease.page is not None:
                        fields["lease_until_ms"] = int(lease.deadline_us // US_PER_MS)
            elif block.format(index) & RETAINED:
                fields["retained"] = True
            parts.append(b"data: " + msgspec.json.encode(fields) + b"\n\n")
        return b"".join(parts)

    def tell_missed(self) -> None:
        """Say how many messages the reader has lost since it was told last."""
        client = self.client
        if client is None or client.missed == self.told_missed:
            return
        lost = client.missed - self.told_missed
        self.told_missed = client.missed
        self.out.write(b'event: dropped\ndata: {"messages": %d}\n\n' % int(lost))

    def end(self, reason: str) -> None:
        """The last event, and the end."""
        if self.is_over:
            return
        self.is_over = True
        self.closing = True
        self.reason = reason
        self.out.write(b"event: end\ndata: " + msgspec.json.encode({"reason": reason}) + b"\n\n")

    # ---- what the server asks of every session

    def receive(self, data: bytes) -> int:
        return len(data)

    def wanted(self, rest: bytes) -> int:
        return 0

    def cancelled(self, consumer: Consumer) -> None:
        self.end(consumer.lost or f"queue '{text(consumer.queue_name)}' was deleted")

    def end_turn(self, lsn: int, durable: int) -> None:
        """Do nothing: the session confirms nothing."""

    def on_durable(self, durable: int) -> None:
        """Do nothing: the session confirms nothing."""

    def waiting(self) -> bool:
        return False

    def tick(self, now_us: int) -> None:
        self.silent_s += 1
        if self.is_over:
            return
        if self.client is not None and not self.client.paused:
            self.tell_missed()
        if self.silent_s >= HEARTBEAT_S:
            self.silent_s = 0
            self.out.write(HEARTBEAT)

    def taken_over(self) -> None:
        self.end("another subscriber came with the same name")

    def shut_down(self) -> None:
        self.end("the broker stops")

    def closed(self) -> None:
        client = self.client
        if client is not None:
            self.vhost.mqtt_clients.detach(client, self.id)
        self.vhost.session_closed(self.id)

    def describe(self) -> dict[str, object]:
        fields: dict[str, object] = {"protocol": PROTOCOL, "user": self.principal.user, "sent": int(self.sent)}
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


def lease_fields(lease: Lease) -> dict[str, object]:
    """The deliveries of a message that is to be acknowledged, and its group."""
    return {"deliveries": int(lease.deliveries), "group": text(lease.consumer.group_name)}
