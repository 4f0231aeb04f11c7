"""The consuming side of a channel of AMQP 0.9.1: deliveries going out, and what settles them.

Acknowledgements in order reach the queue as one interval for each read of the socket.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.publish.replies import REPLIES
from forebay.core.errors import PRECONDITION, RequestError
from forebay.queue.counts import Counts
from forebay.queue.leases.lease import UNLIMITED, UNTRIED, Delivery
from forebay.session.amqp091.deliver import Outlet
from forebay.session.amqp091.extend import Extension
from forebay.session.amqp091.publish import ConnectionState, Publisher
from forebay.session.amqp091.tx import HeldSettlement, Transaction
from forebay.session.shared.unsettled import ACCEPT, RETURN, DeliveryHolder, UnsettledDeliveries
from forebay.session.traffic import Traffic


@final
class Channel:
    """One channel.

    ignoring  we have closed it, and the client does not know yet
    outlets   by consumer tag; `session_outlets` those of all channels, by the consumer's id
    acked     the session's list of channels with acknowledgements not applied yet
    deliveries  those that are not settled
    backlog   deliveries that the channel's own limit does not let out yet
    blocked   it keeps from consumers that acknowledge nothing, too, what has not been delivered
    got       holds the messages that were got one by one, which counts for no limit
    transaction  not None: the channel is transactional, and settlements wait for the commit
    counts    the channel's deliveries and acknowledgements
    """

    def __init__(
        self, link: ConnectionState, number: i64, session_outlets: dict[int, Outlet], acked: list[Channel]
    ) -> None:
        self.link = link
        self.vhost = link.vhost
        self.out = link.out
        self.number: i64 = number
        self.ignoring = False
        self.last_queue = b""
        self.session_outlets = session_outlets
        self.acked = acked
        self.publisher = Publisher(link, number)
        self.outlets: dict[bytes, Outlet] = {}
        self.ended: list[Outlet] = []  # cancelled, with deliveries not settled
        self.prefetch: i64 = 0  # of consumers to come
        self.limit: i64 = 0  # unsettled deliveries of the whole channel; 0 is none
        self.delivered: i64 = 0  # tag of the last delivery
        self.in_acked = False
        self.backlog: list[Delivery] = []
        self.blocked = False
        self.got = DeliveryHolder()
        self.transaction: Transaction | None = None
        self.counts = Counts()
        self.deliveries = UnsettledDeliveries(self.vhost.settlement, self.counts)
        self.gets_empty: i64 = 0

    # ---- delivering

    def deliver(self, outlet: Outlet, delivery: Delivery) -> None:
        """Write a delivery out, or as much of it as the channel's limit allows."""
        if self.limit == 0 or delivery.consumer.queue == REPLIES:
            self.write(outlet, delivery, delivery.count)
            return
        if delivery.lease is not None and not self.backlog and delivery.count < self.room():
            self.write(outlet, delivery, delivery.count)
            return
        self.backlog.append(delivery)
        self.drain()

    def write(self, outlet: Outlet, delivery: Delivery, count: i64) -> None:
        lease = delivery.lease
        tag = self.delivered + 1
        if lease is not None:
            self.deliveries.add(outlet, lease, tag, delivery.block.base + delivery.index, count)
        self.counts.deliver(count, lease is None, delivery.deliveries > 1)
        self.delivered += count
        outlet.write(self.out, delivery, count, tag)

    def drain(self) -> None:
        """Let out of the backlog what the limit allows now."""
        while self.backlog:
            delivery = self.backlog[0]
            outlet = self.session_outlets.get(delivery.consumer.id)
            lease = delivery.lease
            if outlet is None or (lease is not None and lease.left == 0):
                del self.backlog[0]  # its lease has ended while it waited
                continue
            room = self.room()
            if room <= 0:
                break
            count = delivery.count if lease is None else min(room, delivery.count)
            self.write(outlet, delivery, count)
            delivery.index += count
            delivery.count -= count
            if delivery.count == 0:
                del self.backlog[0]
        self.set_blocked(self.room() <= 0)

    def room(self) -> i64:
        """Deliveries that the channel's limit lets out now."""
        return self.limit - self.deliveries.unsettled + self.got.unsettled if self.limit else UNLIMITED

    def set_blocked(self, blocked: bool) -> None:
        """Keep everything from consumers that acknowledge nothing, or let them have it again."""
        if blocked == self.blocked:
            return
        self.blocked = blocked
        for outlet in self.outlets.values():
            consumer = outlet.consumer
            if consumer.no_ack:
                self.vhost.consuming.set_window(consumer, 0 if blocked else UNLIMITED)

    # ---- settling

    def ack(self, tag: i64, multiple: bool) -> None:
        """basic.ack; the one that comes in order only counts."""
        if not multiple and self.transaction is None and self.deliveries.acknowledge_next(tag):
            if not self.in_acked:
                self.in_acked = True
                self.acked.append(self)
            return
        self.settle(tag, multiple, ACCEPT)

    def apply_acks(self) -> None:
        """Tell the queue what was acknowledged in order."""
        self.in_acked = False
        self.deliveries.apply_acknowledged()
        if self.backlog or self.blocked:
            self.drain()

    def settle(self, tag: i64, multiple: bool, how: i64) -> None:
        """basic.ack, basic.nack and basic.reject; RequestError where the tag is not outstanding."""
        if self.transaction is not None:
            self.hold_settlement(self.transaction, tag, multiple, how)
            return
        if multiple and tag == 0:
            self.settle_range(0, self.delivered, how)
            return
        if not self.deliveries.holds(tag):
            raise RequestError(PRECONDITION, f"unknown delivery tag {tag}")
        self.settle_range(0 if multiple else tag, tag, how)

    def settle_range(self, first: i64, last: i64, how: i64) -> None:
        """Settle the deliveries with tags from `first` to `last`, and do what has waited for that."""
        self.deliveries.settle(first, last, how)
        if self.ended:
            for outlet in [each for each in self.ended if each.unsettled == 0]:
                self.ended.remove(outlet)
                self.drop_outlet(outlet)
        if self.backlog or self.blocked:
            self.drain()

    def hold_settlement(self, transaction: Transaction, tag: i64, multiple: bool, how: i64) -> None:
        """Settle as `settle`, with the commit of the transaction."""
        if multiple and tag == 0:
            if self.delivered > transaction.floor:
                transaction.settle(self.delivered, True, how)
            return
        if not self.deliveries.holds(tag):
            raise RequestError(PRECONDITION, f"unknown delivery tag {tag}")
        transaction.settle(tag, multiple, how)

    def settle_held(self, settlements: list[HeldSettlement]) -> None:
        """Settle what a transaction has held back, and is not settled: its queue may be gone, or its time over."""
        for held in settlements:
            self.settle_range(0 if held.multiple else held.tag, held.tag, held.how)

    def extend(self, wanted: Extension) -> None:
        """Let a message be held longer; no effect where it is not held any more."""
        if not self.deliveries.holds(wanted.tag):
            raise RequestError(PRECONDITION, f"unknown delivery tag {wanted.tag}")
        run = self.deliveries.runs[self.deliveries.find(wanted.tag)]
        if run.lease.consumer.queue_name != wanted.queue:
            raise RequestError(
                PRECONDITION, f"delivery tag {wanted.tag} is not of queue '{wanted.queue.decode('utf-8', 'replace')}'"
            )
        self.vhost.settlement.extend(run.lease, run.first + wanted.tag - run.tag, 1, wanted.extend_ms)

    def recover(self) -> None:
        """Give back everything outstanding, but not what a transaction settles."""
        transaction = self.transaction
        if transaction is None or not transaction.settlements:
            self.settle_range(0, self.delivered, RETURN)
            return
        for first, last in self.deliveries.unsettled_ranges(0, self.delivered):
            for tag in range(first, last + 1):
                if not transaction.settles(tag):
                    self.settle_range(tag, tag, RETURN)

    # ---- consumers

    def credit(self, prefetch: i64) -> i64:
        """The messages that a consumer with this prefetch may hold unsettled; 0 is no limit."""
        return self.limit if self.limit and (prefetch == 0 or prefetch > self.limit) else prefetch

    def set_limit(self, limit: i64) -> None:
        """basic.qos for the whole channel: consumers that are there go by it as well."""
        self.limit = limit
        for outlet in self.outlets.values():
            consumer = outlet.consumer
            if not consumer.no_ack:
                self.vhost.consuming.set_window(consumer, self.credit(consumer.prefetch) or UNLIMITED)
        self.drain()

    def add_outlet(self, outlet: Outlet, tag: bytes) -> None:
        self.outlets[tag] = outlet
        self.session_outlets[outlet.consumer.id] = outlet
        if self.blocked and outlet.consumer.no_ack:
            self.vhost.consuming.set_window(outlet.consumer, 0)

    def end_outlet(self, tag: bytes) -> None:
        """basic.cancel: no more deliveries; what is out stays with the client until it is settled."""
        outlet = self.outlets.pop(tag, None)
        if outlet is None:
            return
        for delivery in self.vhost.consuming.take_early(outlet.consumer):
            self.deliver(outlet, delivery)
        self.drop_backlog(outlet)
        if outlet.unsettled == 0:
            self.drop_outlet(outlet)
            return
        outlet.ended = True
        self.ended.append(outlet)
        self.vhost.consuming.detach(outlet.consumer)

    def lose_outlet(self, outlet: Outlet, tag: bytes) -> bool:
        """The broker has ended the consumer, or its queue; whether the client still thinks it has it."""
        self.session_outlets.pop(outlet.consumer.id, None)
        if outlet.ended:
            self.ended.remove(outlet)
        self.take_back(outlet)
        self.vhost.consuming.cancel(outlet.consumer)
        if self.outlets.get(tag) is not outlet:
            return False
        del self.outlets[tag]
        return True

    def take_back(self, outlet: Outlet) -> None:
        """Return everything that a consumer holds: it counts for nothing any more."""
        self.drop_backlog(outlet)
        self.deliveries.withdraw(outlet)

    def drop_outlet(self, outlet: Outlet) -> None:
        self.session_outlets.pop(outlet.consumer.id, None)
        if outlet.consumer.queue == REPLIES:
            self.publisher.set_reply_name(b"")
            self.vhost.direct_replies.close(outlet.consumer)
        self.vhost.consuming.cancel(outlet.consumer)

    def drop_backlog(self, outlet: Outlet) -> None:
        """Give back what waits for this consumer."""
        kept: list[Delivery] = []
        for delivery in self.backlog:
            lease = delivery.lease
            if delivery.consumer is not outlet.consumer:
                kept.append(delivery)
            elif lease is None:
                self.write(outlet, delivery, delivery.count)  # it is no longer in its queue
            else:
                self.vhost.settlement.nack(lease, delivery.block.base + delivery.index, delivery.count, 0, UNTRIED)
        self.backlog = kept

    def traffic(self) -> Traffic:
        """The counts so far."""
        publisher = self.publisher
        found = Traffic()
        found.received = publisher.taken
        found.expecting = publisher.published
        found.confirmed = publisher.confirmed_count
        found.returned = publisher.returned
        found.dropped = publisher.dropped
        found.gets_empty = self.gets_empty
        return found

    def describe(self) -> dict[str, object]:
        """The channel for people."""
        publisher = self.publisher
        return {
            "channel": int(self.number),
            "consumers": len(self.outlets),
            "unacked": int(self.deliveries.unsettled),
            "prefetch": int(self.prefetch),
            "limit": int(self.limit),
            "confirms": publisher.confirming,
            "unconfirmed": int(publisher.published - publisher.confirmed) if publisher.confirming else 0,
            "transactional": self.transaction is not None,
            "published": int(publisher.taken),
            "confirmed": int(publisher.confirmed_count),
            "returned": int(publisher.returned),
            "dropped": int(publisher.dropped),
            "gets_empty": int(self.gets_empty),
            "delivered": int(self.counts.delivered),
            "delivered_settled": int(self.counts.delivered_settled),
            "got": int(self.counts.got),
            "got_settled": int(self.counts.got_settled),
            "redelivered": int(self.counts.redelivered),
            "acked": int(self.counts.acked),
        }

    def release(self) -> None:
        """The channel ends: its consumers leave, and what was not settled returns."""
        self.backlog = []
        self.apply_acks()
        for outlet in reversed(list(self.outlets.values()) + self.ended):
            self.drop_outlet(outlet)
        self.outlets = {}
        self.ended = []
        self.deliveries.forget_all()
        if self.transaction is not None:
            self.transaction.clear()
        if not self.ignoring:  # or else it has been released before
            self.link.past.gets_empty += self.gets_empty
            self.publisher.release()
        self.vhost.consuming.close_channel(self.link.session_id, self.number)
