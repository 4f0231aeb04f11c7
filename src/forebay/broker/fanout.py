"""Direct topic subscriptions: a log without a file.

What a turn publishes to topics with subscribers is gathered in one block, whoever it is for, and handed out at the
turn's end; so every subscriber sees everything in the order in which it was published. Consecutive publishes for the
same set of subscribers are one run: the cost of handing out does not grow with the messages.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, u8

from forebay.log.block import BlockWriter
from forebay.queue.leases import UNLIMITED, Consumer, Delivery
from forebay.routing.topic_trie import TopicTrie


@final
class Subscription:
    """One session's subscription to a topic filter; `consumer` is what deliveries for it carry."""

    def __init__(self, id: i64, filter: bytes, session_id: i64, qos: i64) -> None:
        self.id = id
        self.filter = filter
        self.session_id = session_id
        self.consumer = Consumer(id, -1, 0, session_id, 0, filter, True, UNLIMITED)
        self.consumer.qos = qos


@final
class Audience:
    """The subscriptions that one publish goes to, one a session."""

    def __init__(self, subscriptions: list[Subscription]) -> None:
        self.subscriptions = subscriptions


@final
class Fanout:
    """All topic subscriptions of a vhost, and what this turn has for them."""

    def __init__(self) -> None:
        self.trie = TopicTrie()
        self.subscriptions: dict[int, Subscription] = {}
        self.by_session: dict[int, dict[bytes, Subscription]] = {}
        self.audiences: dict[tuple[int, ...], Audience] = {}
        self.next_id: i64 = 1
        self.writer = BlockWriter()
        self.runs: list[Audience] = []
        self.counts: list[int] = []
        self.last: Audience | None = None
        self.last_count: i64 = 0
        self.dropped: i64 = 0  # QoS 0 messages not given to a connection that does not keep up

    def subscribe(self, filter: bytes, session_id: i64, qos: i64) -> Subscription:
        """Add a subscription, or change the granted QoS of the one there is."""
        own = self.by_session.get(session_id)
        if own is None:
            own = self.by_session[session_id] = {}
        old = own.get(filter)
        if old is not None:
            old.consumer.qos = qos
            self.audiences.clear()
            return old
        subscription = Subscription(self.next_id, filter, session_id, qos)
        self.next_id += 1
        self.trie.add(filter, subscription.id)
        own[filter] = subscription
        self.subscriptions[subscription.id] = subscription
        return subscription

    def unsubscribe(self, filter: bytes, session_id: i64) -> bool:
        """Take a subscription away; False if there is none."""
        own = self.by_session.get(session_id)
        if own is None or filter not in own:
            return False
        subscription = own.pop(filter)
        if not own:
            del self.by_session[session_id]
        self.forget(subscription)
        return True

    def forget(self, subscription: Subscription) -> None:
        self.trie.remove(subscription.filter, subscription.id)
        del self.subscriptions[subscription.id]
        self.audiences.clear()

    def session_closed(self, session_id: i64) -> bool:
        """Take all subscriptions of a session away; whether it had any."""
        own = self.by_session.pop(session_id, None)
        if own is None:
            return False
        for subscription in own.values():
            self.forget(subscription)
        return True

    def pause(self, session_id: i64, paused: bool) -> None:
        own = self.by_session.get(session_id)
        if own is not None:
            for subscription in own.values():
                subscription.consumer.paused = paused

    def audience(self, topic: bytes) -> Audience | None:
        """Who gets a message on this topic; None for nobody.

        A session with several matching subscriptions gets one copy, at the highest QoS granted [MQTT-3.3.5-1].
        """
        ids = self.trie.match(topic, True)
        if not ids:
            return None
        best: dict[int, Subscription] = {}
        for id in ids:
            subscription = self.subscriptions[id]
            other = best.get(subscription.session_id)
            if other is None or other.consumer.qos < subscription.consumer.qos:
                best[subscription.session_id] = subscription
        chosen = list(best.values())
        key = tuple([subscription.id for subscription in chosen])
        audience = self.audiences.get(key)
        if audience is None:
            audience = self.audiences[key] = Audience(chosen)
        return audience

    def append(
        self, audience: Audience, format: u8, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes
    ) -> None:
        """One message for an audience, at the turn's end."""
        self.writer.append(format, exchange, routing_key, properties, body)
        if audience is not self.last:
            self.end_run()
            self.last = audience
        self.last_count += 1

    def end_run(self) -> None:
        if self.last is not None:
            self.runs.append(self.last)
            self.counts.append(self.last_count)
        self.last = None
        self.last_count = 0

    def dispatch(self, now_us: i64, out: list[Delivery]) -> None:
        """Hand out the turn's messages."""
        if self.writer.count == 0:
            return
        self.end_run()
        block = self.writer.seal(0, now_us, False)
        index: i64 = 0
        for at in range(len(self.runs)):
            count = self.counts[at]
            for subscription in self.runs[at].subscriptions:
                consumer = subscription.consumer
                if consumer.paused and consumer.qos == 0:
                    self.dropped += count
                else:
                    out.append(Delivery(consumer, block, index, count, None))
            index += count
        self.runs = []
        self.counts = []
