"""The consuming side of a channel of AMQP 0.9.1: deliveries going out, and what settles them.

What was delivered is remembered in runs of consecutive tags; a consumer that acknowledges in order costs a counter,
and its acknowledgements reach the queue as one interval for each read of the socket.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.publish.replies import REPLIES
from forebay.core.errors import PRECONDITION, RequestError
from forebay.queue.counts import Counts
from forebay.queue.leases.lease import FAILED as AS_FAILED
from forebay.queue.leases.lease import NACKED, UNLIMITED, UNTRIED, Delivery, Lease
from forebay.session.amqp091.deliver import Outlet
from forebay.session.amqp091.extend import Extension
from forebay.session.amqp091.publish import ConnectionState, Publisher
from forebay.session.amqp091.tx import HeldSettlement, Transaction
from forebay.session.traffic import Traffic

DEAD_RUNS_MAX: Final = 64  # settled runs behind an unsettled one before they are taken out

# How a delivery is settled.
ACK: Final = 0
REQUEUE: Final = 1
DISCARD: Final = 2
FAILED: Final = 3  # requeued, for something went wrong with it


@final
class DeliveryRun:
    """Records delivered under consecutive tags.

    next     lowest tag not settled
    applied  tags below it are settled in the queue as well; what lies between waits for the end of the read
    holes    tags above `next` that are settled
    taken    the broker took the records back; who settles them late is heard without an effect
    """

    def __init__(self, outlet: Outlet | None, lease: Lease, tag: i64, first: i64, count: i64) -> None:
        self.outlet = outlet
        self.lease = lease
        self.tag: i64 = tag
        self.first: i64 = first
        self.end: i64 = tag + count
        self.next: i64 = tag
        self.applied: i64 = tag
        self.left: i64 = count
        self.holes: set[int] | None = None
        self.taken = False


@final
class Channel:
    """One channel.

    ignoring  we have closed it, and the client does not know yet
    outlets   by consumer tag; `session_outlets` those of all channels, by the consumer's id
    acked     the session's list of channels with acknowledgements not applied yet
    runs      of the deliveries; those before `head` are settled
    backlog   deliveries that the channel's own limit does not let out yet
    blocked   it keeps from consumers that acknowledge nothing, too, what has not been delivered
    gotten    of those unsettled: got one by one, which counts for no limit
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
        self.unsettled: i64 = 0
        self.runs: list[DeliveryRun] = []
        self.head: i64 = 0
        self.dead: i64 = 0
        self.in_acked = False
        self.backlog: list[Delivery] = []
        self.blocked = False
        self.gotten: i64 = 0
        self.transaction: Transaction | None = None
        self.counts = Counts()
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
            if lease.tag == 0:
                lease.tag = tag
            self.runs.append(DeliveryRun(outlet, lease, tag, delivery.block.base + delivery.index, count))
            self.unsettled += count
            outlet.unsettled += count
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
        return self.limit - self.unsettled + self.gotten if self.limit else UNLIMITED

    def set_blocked(self, blocked: bool) -> None:
        """Keep everything from consumers that acknowledge nothing, or let them have it again."""
        if blocked == self.blocked:
            return
        self.blocked = blocked
        for outlet in self.outlets.values():
            consumer = outlet.consumer
            if consumer.no_ack:
                self.vhost.set_window(consumer, 0 if blocked else UNLIMITED)

    # ---- settling

    def ack(self, tag: i64, multiple: bool) -> None:
        """basic.ack; the one that comes in order only counts."""
        if not multiple and self.transaction is None and self.head < len(self.runs):
            run = self.runs[self.head]
            if tag == run.next and run.holes is None and run.left > 1 and not run.taken:
                run.next = tag + 1
                run.left -= 1
                self.unsettled -= 1
                outlet = run.outlet
                if outlet is not None:
                    outlet.unsettled -= 1
                if not self.in_acked:
                    self.in_acked = True
                    self.acked.append(self)
                return
        self.settle(tag, multiple, ACK)

    def apply_acks(self) -> None:
        """Tell the queue what was acknowledged in order."""
        self.in_acked = False
        if self.head < len(self.runs):
            self.apply_run(self.runs[self.head])
        if self.backlog or self.blocked:
            self.drain()

    def apply_run(self, run: DeliveryRun) -> None:
        if run.applied < run.next:
            self.counts.acked += run.next - run.applied
            self.vhost.settling.ack(run.lease, run.first + run.applied - run.tag, run.next - run.applied)
            run.applied = run.next

    def settle(self, tag: i64, multiple: bool, how: i64) -> None:
        """basic.ack, basic.nack and basic.reject; RequestError where the tag is not outstanding."""
        if self.transaction is not None:
            self.hold_settlement(self.transaction, tag, multiple, how)
            return
        if multiple and tag == 0:
            self.settle_runs(len(self.runs) - 1, self.delivered, how)
            return
        at = self.find_run(tag)
        if at < 0:
            raise RequestError(PRECONDITION, f"unknown delivery tag {tag}")
        if multiple:
            self.settle_runs(at, tag, how)
        else:
            self.settle_one(self.runs[at], tag, how)
            self.forget_settled()

    def hold_settlement(self, transaction: Transaction, tag: i64, multiple: bool, how: i64) -> None:
        """Settle as `settle`, with the commit of the transaction."""
        if multiple and tag == 0:
            if self.delivered > transaction.floor:
                transaction.settle(self.delivered, True, how)
            return
        if self.find_run(tag) < 0:
            raise RequestError(PRECONDITION, f"unknown delivery tag {tag}")
        transaction.settle(tag, multiple, how)

    def settle_held(self, settlements: list[HeldSettlement]) -> None:
        """Settle what a transaction has held back."""
        for held in settlements:
            if held.multiple:
                self.settle_runs(len(self.runs) - 1, held.tag, held.how)
                continue
            at = self.find_run(held.tag)
            if at >= 0:  # or else its queue is gone, or it was held for too long
                self.settle_one(self.runs[at], held.tag, held.how)
                self.forget_settled()

    def find_run(self, tag: i64) -> i64:
        """Index of the run that has this tag outstanding; -1 if none has."""
        low = self.head
        high = i64(len(self.runs))
        while low < high:
            middle = (low + high) >> 1
            if self.runs[middle].end <= tag:
                low = middle + 1
            else:
                high = middle
        if low >= len(self.runs):
            return -1
        run = self.runs[low]
        if tag < run.next or (run.holes is not None and tag in run.holes):
            return -1
        return low

    def settle_one(self, run: DeliveryRun, tag: i64, how: i64) -> None:
        if tag == run.next and how == ACK and run.holes is None:
            run.next = tag + 1
            self.apply_run(run)
        elif tag == run.next:
            self.apply_run(run)
            self.apply(run, tag, 1, how)
            run.next = tag + 1
            holes = run.holes
            while holes is not None and run.next in holes:
                holes.discard(run.next)
                run.next += 1
            if not holes:
                run.holes = None
            run.applied = run.next
        else:
            self.apply(run, tag, 1, how)
            if run.holes is None:
                run.holes = set()
            run.holes.add(tag)
        self.settled(run, 1)

    def settle_runs(self, last: i64, tag: i64, how: i64) -> None:
        """Settle everything outstanding up to a tag, which is in the run at `last` or behind it."""
        for at in range(self.head, last + 1):
            run = self.runs[at]
            self.apply_run(run)
            stop = min(run.end, tag + 1)
            holes = run.holes
            start = run.next
            count: i64 = 0
            while start < stop:
                end = start
                if holes is None:
                    end = stop
                else:
                    while end < stop and end not in holes:
                        end += 1
                if end > start:
                    self.apply(run, start, end - start, how)
                    count += end - start
                start = end
                while holes is not None and start < stop and start in holes:
                    holes.discard(start)
                    start += 1
            if stop > run.next:
                run.next = stop
                run.applied = stop
            if count:
                self.settled(run, count)
        self.forget_settled()

    def apply(self, run: DeliveryRun, tag: i64, count: i64, how: i64) -> None:
        first = run.first + tag - run.tag
        if how == ACK:
            self.counts.acked += count
            self.vhost.settling.ack(run.lease, first, count)
        elif how != DISCARD:
            self.vhost.settling.nack(run.lease, first, count, 0, AS_FAILED if how == FAILED else NACKED)
        else:
            self.vhost.settling.reject(run.lease, first, count)

    def settled(self, run: DeliveryRun, count: i64) -> None:
        run.left -= count
        if run.left == 0:
            self.dead += 1
        if run.taken:
            return
        self.unsettled -= count
        outlet = run.outlet
        if outlet is None:
            self.gotten -= count
        else:
            outlet.unsettled -= count
            if outlet.ended and outlet.unsettled == 0:
                self.ended.remove(outlet)
                self.drop_outlet(outlet)

    def forget_settled(self) -> None:
        """Pass over settled runs at the head; take them out once they are many."""
        runs = self.runs
        head = self.head
        while head < len(runs) and runs[head].left == 0:
            head += 1
        self.head = head
        if head == len(runs):
            runs.clear()
            self.head = 0
            self.dead = 0
        elif self.dead > DEAD_RUNS_MAX and self.dead * 2 > len(runs):
            self.runs = [run for run in runs if run.left]
            self.head = 0
            self.dead = 0
        if self.backlog or self.blocked:
            self.drain()

    def extend(self, wanted: Extension) -> None:
        """Let a message be held longer; no effect where it is not held any more."""
        at = self.find_run(wanted.tag)
        if at < 0:
            raise RequestError(PRECONDITION, f"unknown delivery tag {wanted.tag}")
        run = self.runs[at]
        if run.lease.consumer.queue_name != wanted.queue:
            raise RequestError(
                PRECONDITION, f"delivery tag {wanted.tag} is not of queue '{wanted.queue.decode('utf-8', 'replace')}'"
            )
        self.vhost.settling.extend(run.lease, run.first + wanted.tag - run.tag, 1, wanted.extend_ms)

    def recover(self) -> None:
        """Give back everything outstanding, but not what a transaction settles."""
        transaction = self.transaction
        if transaction is None or not transaction.settlements:
            self.settle_runs(len(self.runs) - 1, self.delivered, REQUEUE)
            return
        for run in list(self.runs):
            for tag in range(run.next, run.end):
                if not transaction.settles(tag) and (run.holes is None or tag not in run.holes):
                    self.settle_one(run, tag, REQUEUE)
        self.forget_settled()

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
                self.vhost.set_window(consumer, self.credit(consumer.prefetch) or UNLIMITED)
        self.drain()

    def add_outlet(self, outlet: Outlet, tag: bytes) -> None:
        self.outlets[tag] = outlet
        self.session_outlets[outlet.consumer.id] = outlet
        if self.blocked and outlet.consumer.no_ack:
            self.vhost.set_window(outlet.consumer, 0)

    def end_outlet(self, tag: bytes) -> None:
        """basic.cancel: no more deliveries; what is out stays with the client until it is settled."""
        outlet = self.outlets.pop(tag, None)
        if outlet is None:
            return
        for delivery in self.vhost.take_early(outlet.consumer):
            self.deliver(outlet, delivery)
        self.drop_backlog(outlet)
        if outlet.unsettled == 0:
            self.drop_outlet(outlet)
            return
        outlet.ended = True
        self.ended.append(outlet)
        self.vhost.detach_consumer(outlet.consumer)

    def lose_outlet(self, outlet: Outlet, tag: bytes) -> bool:
        """The broker has ended the consumer, or its queue; whether the client still thinks it has it."""
        self.session_outlets.pop(outlet.consumer.id, None)
        if outlet.ended:
            self.ended.remove(outlet)
        self.take_back(outlet)
        self.vhost.cancel(outlet.consumer)
        if self.outlets.get(tag) is not outlet:
            return False
        del self.outlets[tag]
        return True

    def take_back(self, outlet: Outlet) -> None:
        """Return everything that a consumer holds: it counts for nothing any more."""
        self.drop_backlog(outlet)
        for run in self.runs:
            if run.outlet is outlet and run.left:
                self.apply_run(run)
                self.apply(run, run.next, run.end - run.next, REQUEUE)
                run.taken = True
                self.unsettled -= run.left
        outlet.unsettled = 0

    def drop_outlet(self, outlet: Outlet) -> None:
        self.session_outlets.pop(outlet.consumer.id, None)
        if outlet.consumer.queue == REPLIES:
            self.publisher.set_reply_name(b"")
            self.vhost.close_replies(outlet.consumer)
        self.vhost.cancel(outlet.consumer)

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
                self.vhost.settling.nack(lease, delivery.block.base + delivery.index, delivery.count, 0, UNTRIED)
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
            "unacked": int(self.unsettled),
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
        self.runs = []
        self.head = 0
        if self.transaction is not None:
            self.transaction.clear()
        if not self.ignoring:  # or else it has been released before
            self.link.past.gets_empty += self.gets_empty
            self.publisher.release()
        self.vhost.close_channel(self.link.session_id, self.number)
