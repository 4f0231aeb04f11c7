"""The deliveries of one session to its client, as far as the client's incoming window goes (2.5.6).

Each transfer frame takes one of the window. What the window does not take waits, and as long as anything of a link
waits, its consumer gets nothing more: a client that has granted much credit and has closed its window costs the broker
what one turn had delivered, and no whole queue.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.queue.counts import Counts
from forebay.queue.leases.lease import UNTRIED, Delivery
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.outgoing.sending import SendingLink
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.windows import SERIAL_MASK
from forebay.session.shared.like_records import has_like_records
from forebay.session.shared.unsettled import BY_DEFAULT, UnsettledDeliveries
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.outgoing import (
    NO_STATE,
    first_head_octets,
    next_head_octets,
    put_delivery,
    put_first_head,
    put_next_head,
    put_small_delivery,
)
from forebay.wire.amqp10.states import TransactionalState

HEAD_ROOM: Final = 200  # octets that the head of a frame takes at most


@final
class PartialMessage:
    """A message whose first frames are sent, and whose rest waits for the window.

    at    octets that are sent, of `sections` and of `body` behind it
    left  octets that are not
    """

    def __init__(self, link: SendingLink, sections: bytes, body: bytes) -> None:
        self.link = link
        self.sections = sections
        self.body = body
        self.at: i64 = 0
        self.left: i64 = i64(len(sections)) + i64(len(body))

    def take(self, octets: i64) -> bytes:
        """Return the next octets, at most so many."""
        start = self.at
        octets = min(octets, self.left)
        self.at += octets
        self.left -= octets
        border = i64(len(self.sections))
        if start >= border:
            return self.body[start - border : self.at - border]
        if self.at <= border:
            return self.sections[start : self.at]
        return self.sections[start:] + self.body[: self.at - border]


@final
class SessionDeliveries:
    """Writes the deliveries of one session, and keeps those that the window does not take yet.

    runs      the deliveries that are not settled
    counts    of the deliveries and acknowledgements
    backlog   deliveries that wait for the window
    partial   message of which the rest waits, before all of the backlog
    stalled   links whose consumers get nothing more while deliveries wait
    """

    def __init__(self, state: LinkContext, output: SessionOutput) -> None:
        self.state = state
        self.output = output
        self.windows = output.windows
        self.counts = Counts()
        self.runs = UnsettledDeliveries(state.vhost.settlement, self.counts)
        self.backlog: deque[tuple[SendingLink, Delivery]] = deque()
        self.partial: PartialMessage | None = None
        self.stalled: list[SendingLink] = []

    def deliver(self, link: SendingLink, delivery: Delivery) -> None:
        """Send the records of a delivery, as many as the window takes."""
        sent: i64 = 0
        if not self.backlog and self.partial is None:
            sent = self.send(link, delivery, delivery.index, delivery.count)
            if sent == delivery.count:
                return
        rest = Delivery(delivery.consumer, delivery.block, delivery.index + sent, delivery.count - sent, delivery.lease)
        rest.deliveries = delivery.deliveries
        rest.failures = delivery.failures
        rest.redelivered = delivery.redelivered
        self.backlog.append((link, rest))
        link.waiting += rest.count
        if not link.is_stalled:
            link.stall()
            self.stalled.append(link)

    def send_waiting(self) -> None:
        """Send what waits, as far as the window goes."""
        backlog = self.backlog
        self.send_partial()
        while backlog and self.partial is None and self.windows.remote_incoming > 0:
            link, delivery = backlog[0]
            lease = delivery.lease
            count = delivery.count
            if lease is None or lease.left:  # else it has ended while it waited
                count = self.send(link, delivery, delivery.index, delivery.count)
            link.waiting -= count
            delivery.index += count
            delivery.count -= count
            if delivery.count == 0:
                backlog.popleft()
        if not backlog and self.partial is None:
            stalled = self.stalled
            self.stalled = []
            for link in stalled:
                link.resume()

    def send(self, link: SendingLink, delivery: Delivery, first: i64, count: i64) -> i64:
        """Write records of a delivery from index `first` on; return how many of them the window has taken."""
        output = self.output
        windows = self.windows
        tag = output.next_tag
        lease = delivery.lease
        block = delivery.block
        encoder = link.encoder
        state = self.state
        most = state.frame_octets_max
        now_us = state.vhost.now_us()
        acquisition = link.acquisition
        state_octets = NO_STATE if acquisition is None else encode_value(TransactionalState(acquisition.id))
        sent: i64 = 0
        is_uniform = count > 1 and has_like_records(block, first, count)
        # Octets of a message whose delivery-tag is its delivery-id, and which no transaction has acquired.
        small = most - HEAD_ROOM if acquisition is None and link.tokens is None else -1
        while sent < count and windows.remote_incoming > 0 and self.partial is None:
            index = first + sent
            if sent == 0 or not is_uniform or encoder.varies():
                encoder.prepare(delivery, index, now_us)
            body = encoder.body(block, index)
            sections = encoder.sections(body)
            number = tag + sent
            id = number & SERIAL_MASK
            sent += 1
            octets = i64(len(sections)) + i64(len(body))
            if octets <= small:
                put_small_delivery(output.out, output.channel, link.handle, id, lease is None, sections, body)
                windows.sent(1)
                continue
            if 2 + octets // (most - HEAD_ROOM) > windows.remote_incoming:
                self.send_first(link, number, lease is None, sections, body, state_octets)
                continue
            frames = put_delivery(
                output.out, output.channel, link.handle, id, link.delivery_tag(number), lease is None, sections,
                body, most, state_octets, state.parts,
            )  # fmt: skip
            windows.sent(frames)
        if lease is not None and sent:
            self.runs.add(link, lease, tag, block.base + first, sent)
            if acquisition is not None:
                acquisition.acquire(self.runs, tag, tag + sent - 1)
        self.counts.deliver(sent, lease is None, delivery.deliveries > 1)
        output.next_tag = tag + sent
        link.count_deliveries(sent)
        return sent

    # ---- messages that the window cuts

    def send_first(
        self, link: SendingLink, number: i64, settled: bool, sections: bytes, body: bytes, state: bytes
    ) -> None:
        """Write the first frame of a message that may take more frames than the window has, and what else fits."""
        output = self.output
        id = number & SERIAL_MASK
        tag = link.delivery_tag(number)
        made = PartialMessage(link, sections, body)
        piece = made.take(self.state.frame_octets_max - first_head_octets(link.handle, id, tag, state))
        put_first_head(output.out, output.channel, link.handle, id, tag, settled, made.left > 0, state, i64(len(piece)))
        output.out.write(piece)
        self.windows.sent(1)
        if made.left:
            self.partial = made
            self.send_partial()

    def send_partial(self) -> None:
        """Write further frames of the message that the window has cut."""
        partial = self.partial
        if partial is None:
            return
        output = self.output
        handle = partial.link.handle
        room = self.state.frame_octets_max - next_head_octets(handle)
        while partial.left and self.windows.remote_incoming > 0:
            piece = partial.take(room)
            put_next_head(output.out, output.channel, handle, partial.left > 0, i64(len(piece)))
            output.out.write(piece)
            self.windows.sent(1)
        if partial.left == 0:
            self.partial = None

    # ---- links that end

    def drop(self, link: SendingLink) -> None:
        """Give back what waits of one link. What is in no queue any more is lost with it."""
        partial = self.partial
        if partial is not None and partial.link is link:
            self.partial = None
        if link.waiting == 0:
            return
        kept: deque[tuple[SendingLink, Delivery]] = deque()
        for each in self.backlog:
            if each[0] is link:
                self.give_back(each[1])
            else:
                kept.append(each)
        self.backlog = kept
        link.waiting = 0

    def drop_all(self, is_lost: bool) -> None:
        """Give back everything.

        is_lost  the client has not settled what is out because its connection has ended
        """
        self.partial = None
        self.stalled = []
        for link, delivery in self.backlog:
            link.waiting = 0
            self.give_back(delivery)
        self.backlog.clear()
        if is_lost:
            self.runs.forget_all()  # the queues take it back with their consumers
        else:
            self.runs.take_back_all(BY_DEFAULT)

    def give_back(self, delivery: Delivery) -> None:
        """Return records to their queue that the client has not been sent."""
        lease = delivery.lease
        if lease is not None:
            first = delivery.block.base + delivery.index
            self.state.vhost.settlement.nack(lease, first, delivery.count, 0, UNTRIED)
