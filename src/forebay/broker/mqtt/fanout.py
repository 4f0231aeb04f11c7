"""Topic subscriptions: who gets a message, and a log without a file for those who need no disk.

What a turn publishes to topics with subscribers is gathered in one block, whoever it is for, and delivered at the
turn's end; so every subscriber sees everything in the order in which it was published. Consecutive publishes for the
same set of subscribers are one run: the cost of delivering does not grow with the messages.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.mqtt.audience import WIDE_MIN, Audience, AudienceBuilder, ClientPart, Recipient
from forebay.broker.mqtt.client_session import ClientSession, Subscription
from forebay.broker.mqtt.crowding import Crowding
from forebay.broker.mqtt.wide_deliveries import WideDeliveries
from forebay.log.block import LONG_OCTETS, Block, BlockWriter
from forebay.message.address import TOPIC_EXCHANGE
from forebay.message.formats.table import AT_QOS_0, format_of
from forebay.queue.leases.lease import Delivery, Encodings
from forebay.routing.cut_work import CutWork
from forebay.routing.route_cache import RouteCache
from forebay.routing.topic_trie import TopicSearch, TopicTrie

AUDIENCES_MAX: Final = 10_000  # remembered at most; beyond it they are forgotten together
AUDIENCES_IDS_MAX: Final = 1_000_000  # and so many subscriptions of all of them
SUBSCRIPTION_STEPS: Final = 2  # of the work in hand: a subscription taken in, and a client
CLIENT_STEPS: Final = 10
CLIENTS_AT_ONCE: Final = 2_000  # that become recipients in one turn
SHARED_MIN: Final = 2  # recipients for which a message is encoded once


@final
class AudienceSearch(CutWork):
    """The search for the audience of one topic, cut wherever it has to be.

    Subscriptions may come and go meanwhile: see `TopicSearch`.

    publisher    number of the client that publishes; 0 for nobody
    has_no_local  one of the subscriptions wants nothing that its own client has published
    """

    def __init__(self, fanout: Fanout, topic: bytes, publisher: i64) -> None:
        super().__init__()
        self.fanout = fanout
        self.publisher: i64 = publisher
        self.search = TopicSearch(fanout.trie, [topic], True)
        self.builder = AudienceBuilder(fanout.store_qos0)
        self.has_no_local = False
        self.ids: list[int] | None = None
        self.taken: i64 = 0
        self.parts: list[ClientPart] | None = None
        self.made: i64 = 0

    def run(self, steps: i64) -> i64:
        if not self.search.done:
            steps = self.search.run(steps)
            if not self.search.done:
                return steps
        ids = self.ids
        if ids is None:
            ids = self.ids = list(self.search.found)
        steps = self.take(ids, steps)
        if self.taken < len(ids):
            return steps
        parts = self.parts
        if parts is None:
            parts = self.parts = list(self.builder.parts.values())
        while self.made < len(parts) and (steps > 0 or len(parts) <= CLIENTS_AT_ONCE):  # few as they are now
            self.builder.add_client(parts[self.made])
            self.made += 1
            steps -= CLIENT_STEPS
        self.done = self.made == len(parts)
        return max(steps, 1) if self.done else steps

    def take(self, ids: list[int], steps: i64) -> i64:
        """Take in the subscriptions found, of those that are still there. Return the steps that are left."""
        fanout = self.fanout
        builder = self.builder
        while self.taken < len(ids) and steps > 0:
            subscription = fanout.subscriptions.get(ids[self.taken])
            self.taken += 1
            steps -= SUBSCRIPTION_STEPS
            if subscription is None:
                continue
            if subscription.no_local:
                self.has_no_local = True
                if self.publisher and subscription.client.number == self.publisher:
                    continue
            builder.add(subscription)
        return steps

    def audience(self) -> Audience | None:
        """Return the audience found; None for nobody."""
        return self.builder.audience if self.builder.parts else None


@final
class Runs:
    """Consecutive publishes for the same audience, counted."""

    def __init__(self) -> None:
        self.audiences: list[Audience] = []
        self.counts: list[int] = []
        self.last: Audience | None = None
        self.last_count: i64 = 0

    def add(self, audience: Audience) -> None:
        if audience is not self.last:
            self.cut()
            self.last = audience
        self.last_count += 1

    def cut(self) -> None:
        if self.last is not None:
            self.audiences.append(self.last)
            self.counts.append(int(self.last_count))
        self.last = None
        self.last_count = 0


@final
class Gathered:
    """Messages of a turn, and who gets them."""

    def __init__(self, writer: BlockWriter, runs: Runs) -> None:
        self.writer = writer
        self.runs = runs


@final
class Fanout:
    """All topic subscriptions of a vhost, and what this turn has for those that need no disk.

    wide      what is delivered to very many over several turns
    crowding  which sessions do not keep up
    losers    those that have lost messages, of which nobody was told yet
    dropped   QoS 0 messages not given to a connection that does not keep up
    routes    remembered routes, of which each change here drops those for which it matters
    held      the audiences of these routes, by their subscriptions: routes to the same subscribers share one
    audiences  others, until anything changes
    """

    def __init__(self, store_qos0: bool, crowding: Crowding, routes: RouteCache) -> None:
        self.store_qos0 = store_qos0
        self.routes = routes
        self.trie = TopicTrie()
        self.subscriptions: dict[int, Subscription] = {}
        self.held: dict[tuple[int, ...], Audience] = {}
        self.audiences: dict[tuple[int, ...], Audience] = {}
        self.audience_ids: i64 = 0  # in the keys of all of them
        self.next_id: i64 = 1
        self.writer = BlockWriter()
        self.runs = Runs()
        self.octets: i64 = 0  # of this turn's bodies, each as often as it is delivered
        self.gathered: list[Gathered] = []  # what came before that, in blocks of its own
        self.wide = WideDeliveries()
        self.crowding = crowding
        self.losers: dict[ClientSession, None] = {}
        self.dropped: i64 = 0

    def add(self, subscription: Subscription) -> None:
        """Add a new subscription; call `subscription_changed` for one that only changes."""
        subscription.id = self.next_id
        self.next_id += 1
        self.trie.add(subscription.filter, subscription.id)
        self.subscriptions[subscription.id] = subscription
        self.subscription_changed(subscription)

    def remove(self, subscription: Subscription) -> None:
        self.trie.remove(subscription.filter, subscription.id)
        del self.subscriptions[subscription.id]
        self.subscription_changed(subscription)

    def client_changed(self, client: ClientSession) -> None:
        """Drop what is remembered of the subscribers of some topic among whom this client is: it came or went."""
        for subscription in client.subscriptions.values():
            if subscription.id:
                self.subscription_changed(subscription)

    def subscription_changed(self, subscription: Subscription) -> None:
        """Drop what is remembered of topics that a subscription matches: it came or went, or has other options."""
        self.changed()
        self.routes.drop_matching(TOPIC_EXCHANGE, subscription.filter, True)

    def changed(self) -> None:
        """Forget the audiences to which no remembered route leads."""
        if self.audiences:
            self.audiences.clear()
            self.audience_ids = 0

    def audience(self, topic: bytes, publisher: i64) -> Audience | None:
        """Return who receives what client `publisher` (0 for no client) publishes on a topic, or None."""
        return self.audience_of(self.trie.match(topic, True), publisher)

    def audience_of(self, ids: list[int], publisher: i64) -> Audience | None:
        """The audience of a publish by client `publisher` (0: nobody's), if these subscriptions match it, or None.

        Few subscriptions are meant, whose audience is remembered; many are what `AudienceSearch` is for.
        """
        if not ids:
            return None
        key = [int(id) for id in ids]
        if publisher:
            key = [id for id in key if not self.is_own(id, publisher)]
            if not key:
                return None
        ids_key = tuple(key)
        known = self.held.get(ids_key)
        if known is None:
            known = self.audiences.get(ids_key)
        if known is None:
            self.audience_ids += len(key)
            if len(self.audiences) >= AUDIENCES_MAX or self.audience_ids > AUDIENCES_IDS_MAX:
                self.audiences.clear()
                self.audience_ids = len(key)
            known = self.audiences[ids_key] = self.make_audience(key)
            known.ids = ids_key
        return known

    def hold(self, audience: Audience) -> None:
        """Remember an audience for as long as a remembered route leads to it."""
        audience.routes += 1
        if audience.ids:
            self.held[audience.ids] = audience

    def release(self, audience: Audience) -> None:
        """Note that one remembered route less leads to an audience."""
        audience.routes -= 1
        if audience.routes == 0 and audience.ids:
            del self.held[audience.ids]

    def is_own(self, id: i64, publisher: i64) -> bool:
        subscription = self.subscriptions[int(id)]
        return subscription.no_local and subscription.client.number == publisher

    def has_no_local(self, ids: list[int]) -> bool:
        """Return whether one of these subscriptions wants nothing that its own client has published."""
        for id in ids:  # noqa: SIM110  any() takes a generator, which the dialect does without
            if self.subscriptions[id].no_local:
                return True
        return False

    def make_audience(self, ids: list[int]) -> Audience:
        builder = AudienceBuilder(self.store_qos0)
        for id in ids:
            builder.add(self.subscriptions[id])
        for part in builder.parts.values():
            builder.add_client(part)
        return builder.audience

    def append(
        self, audience: Audience, format: u8, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes
    ) -> None:
        """One message for the direct recipients of an audience, at the turn's end."""
        is_long = len(body) >= LONG_OCTETS  # alone in its block, where it is not copied
        if is_long and self.writer.count:
            self.cut()
        self.writer.append(format, exchange, routing_key, properties, body)
        self.runs.add(audience)
        self.octets += i64(len(body)) * i64(len(audience.direct))
        if is_long:
            self.cut()

    def cut(self) -> None:
        """Begin another block: messages that come from here on are in it."""
        self.gathered.append(Gathered(self.writer, self.runs))
        self.writer = BlockWriter()
        self.runs = Runs()

    def has_work(self) -> bool:
        """Return whether messages are waiting to be delivered."""
        return self.writer.count > 0 or bool(self.gathered) or bool(self.wide.batches)

    def dispatch(self, now_us: i64, out: list[Delivery]) -> None:
        """Deliver the turn's messages."""
        self.octets = 0
        gathered = self.gathered
        if gathered:
            self.gathered = []
            for each in gathered:
                self.deliver(each.writer, each.runs, now_us, out)
        if self.writer.count:
            runs = self.runs
            self.runs = Runs()
            self.deliver(self.writer, runs, now_us, out)

    def deliver(self, writer: BlockWriter, runs: Runs, now_us: i64, out: list[Delivery]) -> None:
        runs.cut()
        block = writer.seal(0, now_us, False)
        index: i64 = 0
        for at in range(len(runs.audiences)):
            count = runs.counts[at]
            recipients = runs.audiences[at].direct
            encodings = Encodings() if len(recipients) >= SHARED_MIN else None
            if len(recipients) > WIDE_MIN:
                self.wide.add(recipients, block, index, count, encodings)
            else:
                for recipient in recipients:
                    self.deliver_to(recipient, block, index, count, encodings, out)
            index += count

    def deliver_to(
        self,
        recipient: Recipient,
        block: Block,
        index: i64,
        count: i64,
        encodings: Encodings | None,
        out: list[Delivery],
    ) -> None:
        """Deliver messages in memory to one recipient, unless its connection is gone or does not keep up."""
        client = recipient.client
        if client.paused and recipient.qos == 0 and not client.crowded:
            self.miss(client, count)
        elif client.connection:
            recipient.session_id = client.connection
            delivery = Delivery(recipient, block, index, count, None)
            delivery.encodings = encodings
            out.append(delivery)

    def miss(self, client: ClientSession, count: i64) -> None:
        """Count QoS 0 messages that this client does not get, as its connection takes no more."""
        self.dropped += count
        client.missed += count
        self.losers[client] = None


def topic_at(block: Block, index: i64) -> bytes:
    """Return the topic that a record was published on, by whichever protocol."""
    return format_of(block.format(index)).topic(block.routing_key(index))


def properties_at(block: Block, index: i64, now_us: i64) -> bytes:
    """The properties of a record that moves to another log: its time begins anew there, its expiry does not."""
    properties = block.properties(index)
    if not properties:
        return properties
    return format_of(block.format(index)).aged(properties, now_us - block.timestamp_us(index))


def is_zero(block: Block, index: i64) -> bool:
    """Return whether a record was published at QoS 0."""
    return AT_QOS_0[block.format(index)] != 0
