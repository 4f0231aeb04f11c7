"""One session of AMQP 1.0, from begin to end (2.5): its windows, its links, and the deliveries that are out."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import CHANNEL, PRECONDITION, TOO_MANY, PeerError, RequestError
from forebay.core.units import US_PER_MS
from forebay.routing.exchange import text
from forebay.session.amqp10.attach import LINK_OCTETS, attach_link
from forebay.session.amqp10.conditions import error_of
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.entry.opening import HANDLE_MAX
from forebay.session.amqp10.incoming.confirms import SessionConfirms
from forebay.session.amqp10.link import LinkEndpoint, LinkError
from forebay.session.amqp10.management.link_pair import ManagementResponses, pair_links
from forebay.session.amqp10.outgoing.deliveries import SessionDeliveries
from forebay.session.amqp10.outgoing.outcomes import settle_how
from forebay.session.amqp10.outgoing.sending import SendingLink
from forebay.session.amqp10.output import OUTGOING_WINDOW, SessionOutput
from forebay.session.amqp10.servicebus.locks import PeekLocks
from forebay.session.amqp10.servicebus.settlement import outcome_of, settle_dispositions
from forebay.session.amqp10.transactions import HeldOutcome, OpenTransaction
from forebay.session.amqp10.windows import SERIAL_MASK, SessionWindows, serial_difference
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.fields import ABSENT
from forebay.wire.amqp10.frames import PerformativeReader
from forebay.wire.amqp10.outgoing import put_disposition
from forebay.wire.amqp10.performatives import (
    ROLE_RECEIVER,
    ROLE_SENDER,
    Attach,
    Begin,
    Detach,
    End,
)
from forebay.wire.amqp10.states import (
    DETACH_FORCED,
    FRAMING_ERROR,
    HANDLE_IN_USE,
    RESOURCE_DELETED,
    STOLEN,
    UNATTACHED_HANDLE,
    Modified,
    Received,
    Rejected,
    TransactionalState,
)

HANDLES_MAX: Final = 20_000  # of one connection, links that were refused and are not detached yet included
EXTENDED_MAX: Final = 1000  # deliveries that one disposition lets the client hold for longer
LOOK_SHIFT: Final = 6  # of the meter: runs of deliveries that are looked through a point


@final
class SessionEndpoint:
    """One session of a connection.

    channel      its number, in both directions
    is_ending    the broker has ended it, and hears nothing but the client's end
    links        by handle
    attached     those of them that are attached, by name and by whether the client sends
    answering    links by which answers to requests go
    asked        links whose client waits for a flow
    is_listed    the connection has it among the sessions that the turn's end concerns
    """

    def __init__(self, state: LinkContext, reader: PerformativeReader, channel: i64, begin: Begin) -> None:
        self.state = state
        self.reader = reader
        self.out = state.out
        self.channel: i64 = channel
        self.windows = SessionWindows(begin.next_outgoing_id, begin.incoming_window)
        self.output = SessionOutput(state.out, channel, self.windows)
        self.confirms = SessionConfirms(state.out, channel)
        self.deliveries = SessionDeliveries(state, self.output)
        self.runs = self.deliveries.runs
        self.links: dict[int, LinkEndpoint] = {}
        self.attached: dict[tuple[str, bool], LinkEndpoint] = {}
        self.is_ending = False
        self.is_listed = False
        self.answering: list[ManagementResponses] = []
        self.asked: list[SendingLink] = []
        answer = Begin(0, self.windows.incoming, OUTGOING_WINDOW)
        answer.remote_channel = channel
        answer.handle_max = HANDLE_MAX
        self.output.put(answer)

    # ---- frames in

    def on_attach(self, attach: Attach) -> None:
        """Attach a link, or answer why not. Raises Later, Undecided, and nothing is done."""
        if attach.handle > HANDLE_MAX:
            raise PeerError(FRAMING_ERROR, f"attach: handle {attach.handle}: must be at most {HANDLE_MAX}")
        if int(attach.handle) in self.links:
            raise PeerError(HANDLE_IN_USE, f"attach: handle {attach.handle} is in use", CHANNEL)
        if self.state.handles >= HANDLES_MAX:
            raise PeerError(TOO_MANY, f"attach: more than {HANDLES_MAX} links of this connection", CHANNEL)
        key = (attach.name, not attach.role)
        stolen = self.attached.get(key)
        if stolen is not None:
            self.detach(stolen, STOLEN, f"link '{attach.name}' was attached again")
        link = attach_link(self.state, self.output, self.confirms, self.runs, attach)
        self.links[int(attach.handle)] = link
        self.state.handles += 1
        if link.is_attached:
            self.attached[key] = link
            self.charge(LINK_OCTETS)
            if isinstance(link, ManagementResponses):
                self.answering.append(link)
            pair_links(link, self.attached.get((attach.name, attach.role)))
        link.begin()

    def on_transfer(self, data: bytes, at: i64, end: i64) -> None:
        """Hand a transfer to its link. Raises Later, Undecided, and nothing is done."""
        start = self.reader.read_transfer(data, at, end)
        transfer = self.reader.transfer
        windows = self.windows
        windows.check_room()
        link = self.links.get(int(transfer.handle))
        if link is None:
            raise self.unattached("transfer", transfer.handle)
        if link.is_attached:
            try:
                link.on_transfer(transfer, data, start, end)
            except LinkError:
                windows.received()
                raise
        windows.received()
        if windows.needs_more():
            self.output.put_flow(self.output.session_flow())

    def on_flow(self, data: bytes, at: i64, end: i64) -> None:
        self.reader.read_flow(data, at, end)
        flow = self.reader.flow
        self.windows.on_flow(flow.next_incoming_id, flow.incoming_window)
        if flow.handle == ABSENT:
            if flow.echo:
                self.output.put_flow(self.output.session_flow())
        else:
            link = self.links.get(int(flow.handle))
            if link is None:
                raise self.unattached("flow", flow.handle)
            if link.is_attached:
                link.on_flow(flow)
                if isinstance(link, SendingLink) and link.is_asked() and not link.is_listed:
                    link.is_listed = True
                    self.asked.append(link)
        self.deliveries.send_waiting()
        for answers in self.answering:
            answers.flush()

    def on_disposition(self, data: bytes, at: i64, end: i64) -> None:
        self.reader.read_disposition(data, at, end)
        read = self.reader.disposition
        if read.role != ROLE_RECEIVER:
            return  # of deliveries that were settled when they were taken
        first = self.output.next_tag + serial_difference(read.first, self.output.next_tag & SERIAL_MASK)
        last = first + ((read.last - read.first) & SERIAL_MASK)
        state = read.state
        if self.state.locks is not None and not isinstance(state, TransactionalState):
            self.settle_locks(self.state.locks, max(first, 0), min(last, self.output.next_tag - 1), state, read.settled)
            return
        transaction: OpenTransaction | None = None
        if isinstance(state, TransactionalState):
            transaction = self.find_transaction(state.txn_id)
            state = state.outcome
        effect = settle_how(state, read.settled, self.state.vhost.now_us())
        if effect is None:
            if isinstance(state, Received):
                count = self.runs.extend(max(first, 0), min(last, self.output.next_tag - 1), EXTENDED_MAX)
                self.state.meter.take(count >> LOOK_SHIFT)
            return
        if not read.settled:
            answer = encode_value(bare_state(read.state))
            for start, stop in self.runs.unsettled_ranges(max(first, 0), min(last, self.output.next_tag - 1)):
                self.put_settled(start, stop, answer)
        if transaction is None:
            effect.apply(self.runs, first, last)
        else:
            transaction.settle(HeldOutcome(self.runs, first, last, effect))

    def settle_locks(self, locks: PeekLocks, first: i64, last: i64, state: object, is_settled: bool) -> None:
        """Settle deliveries to a client of Azure Service Bus, and say of each what has become of it."""
        outcome = outcome_of(state, is_settled)
        if outcome is None:
            return
        vhost = self.state.vhost
        answers = settle_dispositions(vhost, locks, self.runs, first, last, outcome, encode_value(bare_state(state)))
        if not is_settled:
            for each in answers:
                self.put_settled(each.first, each.last, each.state)

    def find_transaction(self, id: bytes) -> OpenTransaction:
        """Return an open transaction; the session ends if there is no such one."""
        try:
            return self.state.transactions.find(id)
        except RequestError as error:
            raise PeerError(error.reason, error.text, CHANNEL) from None

    def put_settled(self, first: i64, last: i64, state: bytes) -> None:
        """Write dispositions of deliveries with these tags, none of which wraps."""
        while first <= last:
            stop = min(last, first | SERIAL_MASK)
            low, high = first & SERIAL_MASK, stop & SERIAL_MASK
            put_disposition(self.out, self.channel, ROLE_SENDER, low, high, True, state)
            first = stop + 1

    def on_detach(self, detach: Detach) -> None:
        link = self.links.get(int(detach.handle))
        if link is None:
            raise self.unattached("detach", detach.handle)
        del self.links[int(detach.handle)]
        self.state.handles -= 1
        if link.is_attached:
            self.drop(link, detach.closed)
            self.output.put(Detach(link.handle, detach.closed))

    def unattached(self, performative: str, handle: i64) -> PeerError:
        return PeerError(UNATTACHED_HANDLE, f"{performative}: no link is attached with handle {handle}", CHANNEL)

    # ---- the broker ends links

    def detach(self, link: LinkEndpoint, reason: str, why: str) -> None:
        """End a link for the broker, and say why."""
        if not link.is_attached:
            return
        self.drop(link, False)  # a durable subscription is the client's to close
        link.is_detaching = True
        self.output.put(Detach(link.handle, True, error_of(reason, why)))

    def drop(self, link: LinkEndpoint, is_closed: bool) -> None:
        """Give back all that a link has."""
        self.attached.pop((link.name, link.is_sender), None)
        self.charge(-LINK_OCTETS)
        if isinstance(link, ManagementResponses):
            self.answering.remove(link)
        if isinstance(link, SendingLink):
            self.state.meter.take(i64(len(self.runs.runs)) >> LOOK_SHIFT)
            self.deliveries.drop(link)
        link.release(is_closed)

    def lose(self, link: SendingLink) -> None:
        """End a link whose consumer, or whose queue, the broker has ended."""
        consumer = link.consumer
        link.is_lost = not consumer.lost
        if consumer.lost:
            self.detach(link, DETACH_FORCED, consumer.lost)
        elif consumer.timed_out:
            held_ms = consumer.timeout_us // US_PER_MS
            self.detach(link, PRECONDITION, f"a message was held for more than {held_ms} ms, the consumer's timeout")
        else:
            self.detach(link, RESOURCE_DELETED, f"queue '{text(consumer.queue_name)}' was deleted")

    # ---- turns, and the end

    def end_turn(self, lsn: int, durable: int) -> None:
        """Answer what this turn was asked for, and accept what it published once that is on disk.

        Whoever calls it calls it again at the end of the next turn if `asked` is not empty then.
        """
        self.confirms.end_turn(lsn, durable)
        if self.asked:
            still: list[SendingLink] = []
            for link in self.asked:
                if not link.is_attached:
                    continue
                link.end_turn()
                link.is_listed = link.is_asked()
                if link.is_listed:
                    still.append(link)
            self.asked = still

    def end(self, reason: str, why: str) -> None:
        """End the session for the broker, and say why."""
        self.release(False)
        self.is_ending = True
        self.output.put(End(error_of(reason, why)))

    def on_end(self) -> None:
        """Take the client's end, and answer it."""
        if not self.is_ending:
            self.release(False)
            self.output.put(End())

    def release(self, is_lost: bool) -> None:
        """Give back all that the session has.

        is_lost  its connection has ended, and not the session alone
        """
        self.deliveries.drop_all(is_lost)
        if self.state.locks is not None:
            self.state.locks.forget_session(self.runs)
        for link in reversed(list(self.links.values())):  # as the consumers of a connection are found from the last on
            if link.is_attached:
                link.release(False)
        self.charge(-LINK_OCTETS * len(self.attached))
        self.state.handles -= len(self.links)
        self.links = {}
        self.attached = {}
        self.answering = []
        self.asked = []

    def charge(self, octets: i64) -> None:
        """Count memory that links take; negative octets are given back."""
        self.state.vhost.memory.add(self.state.session.id, octets)

    def describe(self) -> dict[str, object]:
        """Return the session as a channel, for people."""
        traffic, counts = self.confirms.traffic, self.deliveries.counts
        return {
            "channel": int(self.channel),
            "consumers": len([each for each in self.attached.values() if not each.is_sender]),
            "unacked": int(self.runs.unsettled),
            "prefetch": 0,
            "limit": 0,
            "confirms": traffic.expecting > 0,
            "unconfirmed": int(self.confirms.owed),
            "transactional": False,
            "published": int(traffic.received),
            "confirmed": int(traffic.confirmed),
            "returned": int(traffic.returned),
            "dropped": int(traffic.dropped),
            "gets_empty": 0,
            "delivered": int(counts.delivered),
            "delivered_settled": int(counts.delivered_settled),
            "got": 0,
            "got_settled": 0,
            "redelivered": int(counts.redelivered),
            "acked": int(counts.acked),
        }

    def describe_links(self) -> dict[str, object]:
        """Return the session with its windows and links, for people: in RabbitMQ's words."""
        windows = self.windows
        links: list[dict[str, object]] = []
        for link in self.attached.values():
            known = {"handle": int(link.handle), "link_name": link.name, "delivery_count": int(link.delivery_count)}
            links.append({**known, **link.describe()})
        return {
            "channel_number": int(self.channel),
            "handle_max": HANDLE_MAX,
            "next_incoming_id": int(windows.next_incoming),
            "incoming_window": int(windows.incoming),
            "next_outgoing_id": int(windows.next_outgoing),
            "remote_incoming_window": int(windows.remote_incoming),
            "remote_outgoing_window": OUTGOING_WINDOW,
            "outgoing_unsettled_deliveries": int(self.runs.unsettled),
            "links": links,
        }


def bare_state(state: object) -> object:
    """Return a delivery state without its details: repeated for each range, these would make much of little."""
    if isinstance(state, TransactionalState):
        return TransactionalState(state.txn_id, bare_state(state.outcome))
    if isinstance(state, Rejected):
        return Rejected()
    if isinstance(state, Modified):
        return Modified(state.delivery_failed, state.undeliverable_here)
    return state
