"""The audience of a publish: the MQTT clients that get it, and how.

Whoever publishes goes by the topic's audience as it was found once; so what a message costs does not depend on how it
was found.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.broker.mqtt.client_session import ClientSession, Subscription
from forebay.queue.leases.lease import UNLIMITED, Consumer
from forebay.wire.mqtt.properties import SUBSCRIPTION_ID, write_varint

DIRECT: Final = -1  # `queue` of recipients whose messages are in memory
LOGGED: Final = -2  # and of those whose messages are in the sessions' log
WIDE_MIN: Final = 1_000  # recipients beyond which messages are delivered over several turns


@final
class Recipient(Consumer):
    """One client as the receiver of one message, its matching subscriptions taken together.

    qos          the highest that was granted; 0 in the audience of QoS 0 publishes
    identifiers  properties that tell the subscriptions' identifiers
    keep_retain  the RETAIN flag of the publisher is passed on
    since        offset in the sessions' log of the oldest of the subscriptions that have messages in it
    spilled      whom its messages are for that memory has no room for; one for all, so that they wait as one run
    """

    def __init__(self, client: ClientSession, place: i64, qos: i64) -> None:
        super().__init__(0, place, 0, client.connection, 0, b"", True, UNLIMITED)
        self.client = client
        self.qos = qos
        self.identifiers = b""
        self.keep_retain = False
        self.since: i64 = 0
        self.spilled: Audience | None = None


@final
class Audience:
    """The recipients of one publish, one a client.

    zero     the audience of the same topic's QoS 0 publishes; this one where there is no difference
    crowded  the first of them that does not keep up, as of `epoch` of what knows of that
    ids      subscriptions by which the fanout remembers it; none where it does not
    routes   remembered routes that lead to it
    """

    def __init__(self) -> None:
        self.direct: list[Recipient] = []
        self.logged: list[Recipient] = []
        self.zero = self
        self.crowded: ClientSession | None = None
        self.epoch: i64 = 0
        self.ids: tuple[int, ...] = ()
        self.routes: i64 = 0

    def is_wide(self) -> bool:
        """Return whether messages to these are delivered over several turns."""
        zero = self.zero
        most = max(len(self.direct), len(self.logged), len(zero.direct), len(zero.logged))
        return most > WIDE_MIN

    def look(self, epoch: i64) -> None:
        """Find out whether one of them does not keep up."""
        self.epoch = epoch
        self.crowded = None
        for recipient in self.direct:
            if recipient.client.crowded:
                self.crowded = recipient.client
        for recipient in self.logged:
            if recipient.client.crowded:
                self.crowded = recipient.client


@final
class ClientPart:
    """The matching subscriptions of one client, taken together.

    qos          the highest that was granted
    since        the lowest `Subscription.since` of all of them; `logged_since` of those above QoS 0, or -1
    identifiers  properties that tell the subscriptions' identifiers
    """

    def __init__(self, client: ClientSession, since: i64) -> None:
        self.client = client
        self.qos: i64 = 0
        self.since: i64 = since
        self.logged_since: i64 = -1
        self.keep_retain = False
        self.identifiers: BytesWriter | None = None
        self.identifier_octets = b""

    def add(self, subscription: Subscription) -> None:
        """Take in one of the client's subscriptions."""
        since = subscription.since
        self.since = min(self.since, since)
        if subscription.qos:
            self.qos = max(self.qos, subscription.qos)
            if self.logged_since < 0 or since < self.logged_since:
                self.logged_since = since
        self.keep_retain = self.keep_retain or subscription.keep_retain
        if subscription.identifier:
            writer = self.identifiers
            if writer is None:
                writer = self.identifiers = BytesWriter()
            writer.append(SUBSCRIPTION_ID)
            write_varint(writer, subscription.identifier)

    def recipient(self, place: i64, qos: i64) -> Recipient:
        """Return the recipient that these subscriptions make together."""
        if self.identifiers is not None:
            self.identifier_octets = self.identifiers.getvalue()
            self.identifiers = None
        recipient = Recipient(self.client, place, qos)
        recipient.since = self.logged_since if qos else self.since
        recipient.keep_retain = self.keep_retain
        recipient.identifiers = self.identifier_octets
        return recipient


@final
class AudienceBuilder:
    """An audience being made of the subscriptions that match, one by one.

    A client with several matching subscriptions gets one copy, at the highest QoS granted [MQTT-3.3.5-1], with the
    identifiers of all of them [MQTT-3.3.4-4].
    """

    def __init__(self, store_qos0: bool) -> None:
        self.store_qos0 = store_qos0
        self.parts: dict[int, ClientPart] = {}  # by the client's number
        self.audience = Audience()
        self.zero = Audience()

    def add(self, subscription: Subscription) -> None:
        """Take in a subscription that matches."""
        number = int(subscription.client.number)
        part = self.parts.get(number)
        if part is None:
            part = self.parts[number] = ClientPart(subscription.client, subscription.since)
        part.add(subscription)

    def add_client(self, part: ClientPart) -> None:
        """Add the recipients that one client makes."""
        client = part.client
        audience = self.audience
        zero = self.zero
        if not client.durable:
            recipient = part.recipient(DIRECT, part.qos)
            audience.direct.append(recipient)
            zero.direct.append(recipient)
            return
        audience.zero = zero
        if client.connection:
            zero.direct.append(part.recipient(DIRECT, 0))
        elif self.store_qos0:
            zero.logged.append(part.recipient(LOGGED, 0))
        if part.qos:
            audience.logged.append(part.recipient(LOGGED, part.qos))
        elif client.connection:
            audience.direct.append(part.recipient(DIRECT, 0))
        elif self.store_qos0:
            audience.logged.append(part.recipient(LOGGED, 0))


def identifier_property(identifier: i64) -> bytes:
    """Return the encoded Subscription Identifier property, or nothing for 0, which means no identifier."""
    if identifier == 0:
        return b""
    out = BytesWriter()
    out.append(SUBSCRIPTION_ID)
    write_varint(out, identifier)
    return out.getvalue()
