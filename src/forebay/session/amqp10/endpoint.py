"""One session of AMQP 1.0, from begin to end (2.5): its windows, its links, and the deliveries that are out."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64

from forebay.core.errors import CHANNEL, PeerError, RequestError
from forebay.queue.counts import Counts
from forebay.queue.leases.lease import UNTRIED, Delivery
from forebay.session.amqp10.attach import attach_link
from forebay.session.amqp10.conditions import condition_of
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.entry.opening import HANDLE_MAX
from forebay.session.amqp10.incoming.confirms import SessionConfirms
from forebay.session.amqp10.link import LinkEndpoint
from forebay.session.amqp10.management.link_pair import pair_links
from forebay.session.amqp10.outgoing.outcomes import settle_how
from forebay.session.amqp10.outgoing.sending import SendingLink
from forebay.session.amqp10.output import OUTGOING_WINDOW, SessionOutput
from forebay.session.amqp10.transactions import HeldOutcome, OpenTransaction
from forebay.session.amqp10.windows import SERIAL_MASK, SessionWindows, serial_difference
from forebay.session.shared.unsettled import UnsettledDeliveries
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.fields import ABSENT
from forebay.wire.amqp10.frames import PerformativeReader
from forebay.wire.amqp10.outgoing import ACCEPTED_STATE, NO_STATE, RELEASED_STATE, put_delivery, put_disposition
from forebay.wire.amqp10.performatives import (
    ROLE_RECEIVER,
    ROLE_SENDER,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
)
from forebay.wire.amqp10.states import (
    HANDLE_IN_USE,
    IS_ACCEPTED,
    IS_RELEASED,
    RESOURCE_DELETED,
    STOLEN,
    UNATTACHED_HANDLE,
    Error,
    TransactionalState,
)

HEAD_ROOM: Final = 200  # octets that the head of a frame takes at most


@final
class SessionEndpoint:
    """One session of a connection.

    channel      its number, in both directions
    is_ending    the broker has ended it, and hears nothing but the client's end
    links        by handle
    senders      those of them that deliver, by their consumer's number
    backlog      deliveries that wait for the client's window, with their links
    held_frames  of a delivery that the window has cut
    asked        links whose client waits for a flow
    """

    def __init__(self, state: LinkContext, reader: PerformativeReader, channel: i64, begin: Begin) -> None:
        self.state = state
        self.reader = reader
        self.out = state.out
        self.channel: i64 = channel
        self.windows = SessionWindows(begin.next_outgoing_id, begin.incoming_window)
        self.output = SessionOutput(state.out, channel, self.windows)
        self.confirms = SessionConfirms(state.out, channel)
        self.counts = Counts()
        self.runs = UnsettledDeliveries(state.vhost, self.counts)
        self.links: dict[int, LinkEndpoint] = {}
        self.is_ending = False
        self.backlog: list[tuple[SendingLink, Delivery]] = []
        self.held_frames: list[bytes] = []
        self.asked: list[LinkEndpoint] = []
        answer = Begin(0, self.windows.incoming, OUTGOING_WINDOW)
        answer.remote_channel = channel
        answer.handle_max = HANDLE_MAX
        self.output.put(answer)

    # ---- frames in

    def on_attach(self, attach: Attach) -> None:
        """Attach a link, or answer why not. Raises Later, Undecided, and nothing is done."""
        if attach.handle > HANDLE_MAX:
            raise PeerError(HANDLE_IN_USE, f"attach: handle {attach.handle}: must be at most {HANDLE_MAX}", CHANNEL)
        if int(attach.handle) in self.links:
            raise PeerError(HANDLE_IN_USE, f"attach: handle {attach.handle} is in use", CHANNEL)
        for link in list(self.links.values()):
            if link.name == attach.name and link.is_sender is not attach.role and link.is_attached:
                self.detach(link, STOLEN, f"link '{attach.name}' was attached again")
        link = attach_link(self.state, self.output, self.confirms, self.runs, attach)
        self.links[int(attach.handle)] = link
        pair_links(list(self.links.values()), link.name)
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
            link.on_transfer(transfer, data, start, end)
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
                if link not in self.asked:
                    self.asked.append(link)
        if self.backlog or self.held_frames:
            self.send_backlog()

    def on_disposition(self, data: bytes, at: i64, end: i64) -> None:
        self.reader.read_disposition(data, at, end)
        read = self.reader.disposition
        if read.role != ROLE_RECEIVER:
            return  # of deliveries that were settled when they were taken
        first = self.output.next_tag + serial_difference(read.first, self.output.next_tag & SERIAL_MASK)
        last = first + ((read.last - read.first) & SERIAL_MASK)
        state = read.state
        transaction: OpenTransaction | None = None
        if isinstance(state, TransactionalState):
            transaction = self.find_transaction(state.txn_id)
            state = state.outcome
        effect = settle_how(state, read.settled, self.state.vhost.now_us())
        if effect is None:
            return
        if not read.settled:
            self.answer_disposition(read, max(first, 0), min(last, self.output.next_tag - 1))
        if transaction is None:
            self.runs.settle(first, last, effect.kind, effect.delay_ms)
        else:
            transaction.settle(HeldOutcome(self.runs, first, last, effect))

    def find_transaction(self, id: bytes) -> OpenTransaction:
        """Return an open transaction; the session ends if there is no such one."""
        try:
            return self.state.transactions.find(id)
        except RequestError as error:
            raise PeerError(error.reason, error.text, CHANNEL) from None

    def answer_disposition(self, read: Disposition, first: i64, last: i64) -> None:
        """Settle what the client has given an outcome and not settled itself."""
        state = encode_value(read.state)
        if read.state is IS_ACCEPTED:
            state = ACCEPTED_STATE
        elif read.state is IS_RELEASED:
            state = RELEASED_STATE
        for start, stop in self.runs.unsettled_ranges(first, last):
            self.put_settled(start, stop, state)

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
        if link.is_attached:
            self.drop(link, detach.closed)
            self.output.put(Detach(link.handle, detach.closed))

    def unattached(self, performative: str, handle: i64) -> PeerError:
        text = f"{performative}: no link is attached with handle {handle}"
        return PeerError(UNATTACHED_HANDLE, text, CHANNEL)

    # ---- the broker ends links

    def detach(self, link: LinkEndpoint, reason: str, text: str) -> None:
        """End a link for the broker, and say why."""
        if not link.is_attached:
            return
        self.drop(link, True)
        link.is_detaching = True
        self.output.put(Detach(link.handle, True, Error(condition_of(reason), text)))

    def drop(self, link: LinkEndpoint, is_closed: bool) -> None:
        """Give back all that a link has."""
        if isinstance(link, SendingLink) and self.backlog:
            self.return_backlog(link)
        link.release(is_closed)
        if link in self.asked:
            self.asked.remove(link)

    def return_backlog(self, link: SendingLink) -> None:
        """Give back what waits for the window; what is in no queue any more is lost with the link."""
        kept: list[tuple[SendingLink, Delivery]] = []
        for each, delivery in self.backlog:
            lease = delivery.lease
            if each is not link:
                kept.append((each, delivery))
            elif lease is not None:
                first = delivery.block.base + delivery.index
                self.state.vhost.settling.nack(lease, first, delivery.count, 0, UNTRIED)
        self.backlog = kept

    def lose(self, link: SendingLink, reason: str) -> None:
        """The broker has ended the consumer of a link, or its queue."""
        link.is_lost = not reason
        text = reason or f"queue '{link.queue.name.decode('utf-8', 'backslashreplace')}' was deleted"
        self.detach(link, RESOURCE_DELETED, text)

    # ---- deliveries out

    def deliver(self, link: SendingLink, delivery: Delivery) -> None:
        """Send records, as many as the client's window takes."""
        if self.backlog or self.held_frames or self.windows.remote_incoming < delivery.count:
            self.backlog.append((link, delivery))
            link.waiting += delivery.count
            self.send_backlog()
            return
        self.send(link, delivery, delivery.count)

    def send_backlog(self) -> None:
        """Send what waits, as far as the window goes."""
        windows = self.windows
        self.send_held_frames()
        while self.backlog and not self.held_frames and windows.remote_incoming > 0:
            link, delivery = self.backlog[0]
            lease = delivery.lease
            if lease is not None and lease.left == 0:
                link.waiting -= delivery.count  # the lease has ended while it waited
                del self.backlog[0]
                continue
            count = min(delivery.count, windows.remote_incoming)
            link.waiting -= count
            self.send(link, delivery, count)
            delivery.index += count
            delivery.count -= count
            if delivery.count == 0:
                del self.backlog[0]

    def send(self, link: SendingLink, delivery: Delivery, count: i64) -> None:
        """Write the first `count` records of a delivery; each takes at least one frame of the window."""
        tag = self.output.next_tag
        lease = delivery.lease
        block = delivery.block
        if lease is not None:
            self.runs.add(link, lease, tag, block.base + delivery.index, count)
        self.counts.deliver(count, lease is None, delivery.deliveries > 1)
        self.output.next_tag = tag + count
        link.count_deliveries(count)
        encoder = link.encoder
        state = self.state
        windows = self.windows
        most = state.frame_octets_max
        now_us = state.vhost.now_us()
        for place in range(count):
            index = delivery.index + place
            sections = encoder.sections(delivery, index, now_us)
            body = encoder.body(block, index)
            id = (tag + place) & SERIAL_MASK
            name = tag_octets(id)
            needed = 1 + (i64(len(sections)) + i64(len(body))) // (most - HEAD_ROOM)
            if needed <= windows.remote_incoming and not self.held_frames:
                frames = put_delivery(
                    self.out, self.channel, link.handle, id, name, lease is None, sections, body, most, NO_STATE,
                    state.parts,
                )  # fmt: skip
                windows.sent(frames)
            else:
                self.hold_frames(link, id, name, lease is None, sections, body)

    def hold_frames(self, link: SendingLink, id: i64, name: bytes, settled: bool, sections: bytes, body: bytes) -> None:
        """Write as many frames of a long message as the window takes, and keep the others."""
        made = BytesWriter()
        most = self.state.frame_octets_max
        put_delivery(made, self.channel, link.handle, id, name, settled, sections, body, most)
        octets = made.getvalue()
        at: i64 = 0
        while at < len(octets):
            size = i64(read_i32_be(octets, at))
            self.held_frames.append(octets[at : at + size])
            at += size
        self.send_held_frames()

    def send_held_frames(self) -> None:
        """Send the rest of what the window has cut, as far as it goes."""
        while self.held_frames and self.windows.remote_incoming > 0:
            self.out.write(self.held_frames.pop(0))
            self.windows.sent(1)

    # ---- turns, and the end

    def end_turn(self, lsn: int, durable: int) -> None:
        """Answer what this turn was asked for, and accept what it published once that is on disk."""
        self.confirms.end_turn(lsn, durable)
        if self.asked:
            still: list[LinkEndpoint] = []
            for link in self.asked:
                link.end_turn()
                if isinstance(link, SendingLink) and link.is_asked() and link.is_attached:
                    still.append(link)
            self.asked = still

    def end(self, reason: str, text: str) -> None:
        """End the session for the broker, and say why."""
        self.release()
        self.is_ending = True
        self.output.put(End(Error(condition_of(reason), text)))

    def on_end(self) -> None:
        """Take the client's end, and answer it."""
        if not self.is_ending:
            self.release()
            self.output.put(End())

    def release(self) -> None:
        """Give back all that the session has."""
        for link in list(self.links.values()):
            if link.is_attached:
                self.drop(link, False)
        self.links = {}
        self.backlog = []
        self.held_frames = []
        self.asked = []

    def describe(self) -> dict[str, object]:
        """Return the session for people."""
        return {
            "channel": int(self.channel),
            "consumers": len([each for each in self.links.values() if not each.is_sender]),
            "publishers": len([each for each in self.links.values() if each.is_sender]),
            "unacked": int(self.runs.unsettled),
            "window": int(self.windows.remote_incoming),
            "links": [each.describe() for each in self.links.values()],
        }


def tag_octets(id: i64) -> bytes:
    """Return the delivery-tag of a delivery-id."""
    return bytes([int(id >> 24), int(id >> 16 & 255), int(id >> 8 & 255), int(id & 255)])
