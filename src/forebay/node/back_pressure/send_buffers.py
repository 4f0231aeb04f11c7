"""Octets that wait for clients to take them, of all connections together.

Each connection has a share of what is left, so that a few that do not read may have much and many little: whoever is
over it is given nothing more until it has read on. So all of them together come near the limit, and never to it, but
for what one turn brings. While there is much already, a turn is kept small; and what would go beyond the limit goes,
at QoS 0, only to who has taken what it was given before.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from forebay.broker.limits.hold_reasons import SEND_BUFFER, SEND_SHARE
from forebay.broker.mqtt.audience import Recipient
from forebay.core.options import Options
from forebay.core.units import US_PER_MS
from forebay.node.back_pressure.flow_control import FlowControl
from forebay.node.link import Link
from forebay.node.telemetry.journal import Journal
from forebay.queue.leases.lease import Delivery
from forebay.queue.properties import TURN_OCTETS

SHARE: Final = 4  # one part in so many of what is left
LEAST_OCTETS: Final = 16 << 10  # a share in any case: a turn's worth for a reader that keeps up
PACKET_OCTETS: Final = 64  # of a packet beside its payload, about
EARLY_OCTETS: Final = 256 << 10  # written in one turn, after which a connection is sent it at once, to see what waits


class SendBuffers:
    """The octets that wait, by connection.

    options   those in force; replaced when they are reloaded
    flow      the table of connections that are held
    total     octets, as of the last look at each connection
    is_tight  there is so much that each turn is looked at
    ended_slow  how many connections the broker has ended because they did not read
    """

    def __init__(self, options: Options, flow: FlowControl, journal: Journal) -> None:
        self.options = options
        self.flow = flow
        self.journal = journal
        self.total = 0
        self.is_tight = False
        self.waiting: dict[Link, None] = {}
        self.ended_slow = 0

    def share(self) -> int:
        """Return the number of bytes that may wait for one connection now."""
        left = self.options.send_buffers_octets_max - self.total
        return min(self.options.send_buffer_octets_max, max(LEAST_OCTETS, left // SHARE))

    def note(self, connection: Link, octets: int) -> None:
        """So much waits for a connection that has just been written to."""
        self.total += octets - connection.left
        connection.left = octets
        if octets:
            self.waiting[connection] = None
        else:
            self.waiting.pop(connection, None)
        self.is_tight = self.total > self.options.send_buffers_octets_max // SHARE
        if octets > LEAST_OCTETS and octets > self.share():
            self.hold(connection)

    def is_too_much(self, octets: int) -> bool:
        """Return whether reading should pause until these bytes of the turn, and those that wait already, are sent."""
        return self.is_tight or octets > self.options.send_buffers_octets_max // SHARE

    def turn_octets(self) -> int:
        """Return the number of bytes that one group of a queue may deliver in a turn."""
        return min(TURN_OCTETS, self.share())

    def send_early(self, connection: Link) -> None:
        """Send much at once: what waits for clients is known then before the next is given as much."""
        session = connection.session
        if session is not None and (session.parts or len(session.out) > EARLY_OCTETS):
            connection.flush()

    def hold(self, connection: Link) -> None:
        """Hold a connection over its share of send buffers. Its transport reports when it accepts bytes again."""
        if connection not in self.flow.held[SEND_SHARE]:
            self.flow.hold(connection, SEND_SHARE)
            connection.limit(self.share())

    def paused(self, connection: Link, paused: bool) -> None:
        """Hold a connection that accepts no more bytes, or release one that accepts them again."""
        if paused:
            self.flow.hold(connection, SEND_BUFFER)
            return
        self.flow.release(connection, SEND_BUFFER)
        if connection in self.flow.held[SEND_SHARE]:
            self.flow.release(connection, SEND_SHARE)
            connection.limit(self.options.send_buffer_octets_max)
        self.note(connection, connection.waiting_octets())

    def forget(self, connection: Link) -> None:
        """Remove the buffer count of a connection that is gone. Remove it from flow control first."""
        self.note(connection, 0)

    def end_slow(self, now_us: int) -> None:
        """End connections that have not read for too long, and where too much waits for all of them, the worst.

        What they held returns to its queues; what was settled as it was sent, QoS 0 above all, does not.
        """
        limit_us = self.options.slow_reader_timeout_ms * US_PER_MS
        waiting: list[tuple[int, Link]] = []
        for connection, entry in list(self.flow.held[SEND_BUFFER].items()):
            if connection.closing:
                continue
            if limit_us and now_us - entry.since_us > limit_us:
                self.end(connection, f"it has not read for {limit_us // 1_000_000} s")
            else:
                waiting.append((connection.waiting_octets(), connection))
        total = sum([octets for octets, _ in waiting])
        most = self.options.send_buffers_octets_max
        waiting.sort(key=itemgetter(0))
        while total > most and waiting:
            octets, connection = waiting.pop()
            total -= octets
            self.end(connection, f"{octets} octets wait for it, and for all together more than {most}")

    def end(self, connection: Link, why: str) -> None:
        """End a connection that does not read, and say so in the log."""
        self.journal.warning("connection from %s ended: %s%s", connection.peer, why, connection.named())
        self.ended_slow += 1
        self.flow.release(connection, SEND_BUFFER)
        connection.broker.cut(connection)

    def look(self) -> None:
        """Count again the bytes that wait for each connection, and hold connections that are over their share."""
        for connection in list(self.waiting):
            self.note(connection, connection.waiting_octets())

    def spares(self, connection: Link, delivery: Delivery) -> bool:
        """Return whether a QoS 0 delivery is dropped, and count it, as buffers are full and its client reads slowly."""
        if not connection.left:
            return False
        session = connection.session
        assert session is not None, "something is delivered to it"
        octets = delivery.block.body_span(delivery.index, delivery.count) + PACKET_OCTETS * delivery.count
        if self.total + octets * session.swell <= self.options.send_buffers_octets_max:
            return False
        target = delivery.consumer
        if not isinstance(target, Recipient) or target.qos != 0:
            return False
        session.vhost.fanout.miss(target.client, delivery.count)
        return True
