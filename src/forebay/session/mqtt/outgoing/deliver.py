"""Deliveries to an MQTT client: records become PUBLISH packets, within the client's window.

What the window has no room for waits: of topics in the session's message queue, which outlives the connection; of
queues as runs that refer to their block, bounded by the consumers' credit.

A delivery from a queue is at QoS 1 or, where nothing is to be settled, at QoS 0. A 3.1.1 client settles by PUBACK; a
version 5 client by a publish to `$queue/<queue>/$ack`, and its PUBACK only frees the window, unless it is an error:
then the record returns to the queue. What was read from a stream, or came by a shared subscription, is settled by
PUBACK in both.

A packet of QoS 2 to a durable session goes to `held`: it leaves when the note of its identifier is on disk.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.audience import DIRECT, LOGGED, Audience, Recipient
from forebay.broker.mqtt.client_session import (
    ASSIGNED_1,
    ASSIGNED_2,
    AWAIT_PUBACK,
    AWAIT_PUBCOMP,
    AWAIT_PUBREC,
    PHASE_BITS,
    TAKEN,
    ClientSession,
)
from forebay.broker.mqtt.client_session import RELEASED as NOTE_RELEASED
from forebay.broker.mqtt.fanout import properties_at, topic_at
from forebay.core.pieces import Part
from forebay.directory.permissions import Rights
from forebay.log.block import Block
from forebay.queue.leases.lease import Consumer, Delivery, Encoded, Encodings, Lease
from forebay.session.mqtt.outgoing.encode import PacketEncoder, QueueSubscription, qos_of
from forebay.session.mqtt.outgoing.feed import Feeder
from forebay.session.mqtt.outgoing.runs import AcknowledgedRun, WaitingRun
from forebay.session.mqtt.outgoing.stored_rights import StoredRights
from forebay.session.mqtt.outgoing.unsent import (
    LOGGED_FLIGHT_1,
    LOGGED_FLIGHT_2,
    RELEASED_LOGGED_FLIGHT,
    Unsent,
    complete,
)
from forebay.session.mqtt.outgoing.window import (
    DIRECT_1,
    DIRECT_2,
    LOGGED_1,
    LOGGED_2,
    QUEUED,
    RELEASED,
    RELEASED_LOGGED,
    SHARED_1,
    SHARED_2,
    Flight,
    Window,
)
from forebay.wire.mqtt.codes import FAILURE, ID_NOT_FOUND, PUBREL, V5, V311, unexpected
from forebay.wire.mqtt.encoding import write_ack

LONG_OCTETS: Final = 32 << 10  # of what many get alike, that each would have a copy of
DIRECT_FLIGHT_1: Final = Flight(DIRECT_1, 0, 0, None)
DIRECT_FLIGHT_2: Final = Flight(DIRECT_2, 0, 0, None)
RELEASED_FLIGHT: Final = Flight(RELEASED, 0, 0, None)


@final
class Outbox:
    """The sending half of one MQTT connection."""

    def __init__(
        self,
        session_id: i64,
        vhost: VhostContract,
        client: ClientSession,
        encoder: PacketEncoder,
        window: Window,
        out: BytesWriter,
        parts: list[Part],
        held: BytesWriter,
        spill_at: i64,
    ) -> None:
        self.session_id = session_id
        self.vhost = vhost
        self.out = out
        self.parts = parts  # of the session: long octets, which all who get them share
        self.held = held
        self.holds_qos2 = False  # packets of QoS 2 are in it, which those of QoS 1 may not overtake
        self.spill_at: i64 = spill_at  # messages in memory beyond which more go to the disk; 0 for no limit
        self.client = client
        self.encoder = encoder
        encoder.out, encoder.parts = out, parts
        self.window = window
        self.queues: dict[int, QueueSubscription] = {}  # by consumer
        self.backlog: deque[WaitingRun] | None = None
        self.feeder = Feeder(vhost)
        self.unsent: Unsent | None = None
        self.stored_rights: StoredRights | None = None  # until what was stored for an earlier connection is gone
        self.acked = AcknowledgedRun()

    # ---- deliveries

    def deliver(self, delivery: Delivery) -> None:
        """Write what the window allows; the rest waits."""
        self.encoder.now_us = self.vhost.now_us()
        consumer = delivery.consumer
        block = delivery.block
        index = delivery.index
        end = index + delivery.count
        if isinstance(consumer, Recipient):
            if consumer.queue == DIRECT:
                self.deliver_direct(consumer, delivery)
                return
            mqueue = self.client.mqueue
            if mqueue.count == 0 and self.unsent is None and not self.is_paused():
                index = self.send_logged(consumer, block, index, end)
            if index < end:
                self.vhost.sessions.keep(consumer, block, index, end - index)
            return
        # A message that is not settled needs no window; and while the connection is paused no queue delivers.
        if consumer.no_ack or (not self.backlog and not self.is_paused()):
            index = self.send_queued(consumer, block, index, end, delivery.lease)
        if index < end:
            if self.backlog is None:
                self.backlog = deque()
            self.backlog.append(WaitingRun(consumer, block, index, end, delivery.lease))

    def deliver_direct(self, recipient: Recipient, delivery: Delivery) -> None:
        index = delivery.index
        end = index + delivery.count
        mqueue = self.client.mqueue
        if recipient.qos == 0:
            rules = mqueue.rules
            at_once = rules.qos0_bypass or not rules.store_qos0
            may_send = at_once or (mqueue.count == 0 and not self.window.is_full())
        else:
            may_send = mqueue.count == 0 and not self.is_paused()
        if may_send:
            encodings = delivery.encodings
            if encodings is not None and not delivery.block.tail and self.encoder.encodings_key(recipient) >= 0:
                index = self.send_encoded(recipient, delivery, encodings)
            else:
                index = self.send_direct(recipient, delivery.block, index, end)
        if index < end:
            self.keep_direct(recipient, delivery.block, index, end)

    def is_paused(self) -> bool:
        """True if the connection takes no more octets for now."""
        return self.vhost.consuming.is_paused(self.session_id)

    def send_encoded(self, recipient: Recipient, delivery: Delivery, encodings: Encodings) -> i64:
        """Write records that many get alike; index of the first one for which the window has no room."""
        key = self.encoder.encodings_key(recipient)
        made = encodings.made.get(int(key))
        if made is None:
            made = encodings.made[int(key)] = self.encoder.encode(delivery, recipient)
        if recipient.qos == 0:
            if len(made.octets) < LONG_OCTETS:
                self.out.write(made.octets)
            else:
                self.write_long(made.octets)
            self.encoder.count_all(made)
            return delivery.index + delivery.count
        return delivery.index + self.send_marked(made, delivery)

    def write_long(self, octets: bytes) -> None:
        """Write a long body: see `Session.write_long`."""
        if len(self.out):
            self.parts.append(self.out.getvalue())
            self.out.truncate(0)
        self.parts.append(octets)

    def send_marked(self, made: Encoded, delivery: Delivery) -> i64:
        """Write encoded records with identifiers of this connection; how many."""
        out = self.out
        window = self.window
        starts = made.starts
        marks = made.marks
        for step in range(delivery.count):
            start: i64 = starts[step]
            end: i64 = starts[step + 1]
            mark: i64 = marks[step]
            if mark >= 0 and window.is_full():
                self.encoder.count_part(made, delivery, step)
                return step
            at: i64 = len(out)
            out.write(made.octets[start:end])
            if mark >= 0 and start < end:
                at += mark - start
                id = window.next_id()
                out[at] = u8(id >> 8)
                out[at + 1] = u8(id & 255)
                window.take(id, DIRECT_FLIGHT_2 if made.octets[start] & 4 else DIRECT_FLIGHT_1)
        self.encoder.count_all(made)
        return delivery.count

    def send_direct(self, recipient: Recipient, block: Block, index: i64, end: i64) -> i64:
        """Write records of memory until the window is full; index of the first one not written."""
        window = self.window
        encoder = self.encoder
        out = self.out
        while index < end:
            qos = qos_of(block, index, recipient)
            if qos == 0:
                encoder.write(out, block, index, recipient, 0, 0, 0, True)
            else:
                if window.is_full():
                    return index
                id = window.next_id()
                if encoder.write(out, block, index, recipient, id, qos, 0, True):
                    window.take(id, DIRECT_FLIGHT_1 if qos == 1 else DIRECT_FLIGHT_2)
            index += 1
        return end

    def send_logged(self, recipient: Recipient, block: Block, index: i64, end: i64) -> i64:
        """Write records of the sessions' log until the window is full; index of the first one not written."""
        window = self.window
        client = self.client
        sessions = self.vhost.sessions
        while index < end:
            offset = block.base + index
            qos = qos_of(block, index, recipient)
            if qos == 0:
                self.encoder.write(self.out, block, index, recipient, 0, 0, 0, True)
                sessions.operate(client, TAKEN, 0, offset, False)
            elif window.is_full():
                return index
            else:
                id = window.next_id()
                holds = qos == 2 or self.holds_qos2
                if not self.encoder.write(
                    self.held if holds else self.out, block, index, recipient, id, qos, 0, not holds
                ):
                    sessions.operate(client, TAKEN, 0, offset, False)
                elif qos == 1:
                    window.take(id, LOGGED_FLIGHT_1)
                    client.inflight[int(id)] = int(offset << PHASE_BITS | AWAIT_PUBACK)
                    sessions.operate(client, ASSIGNED_1, id, offset, False)
                else:
                    self.holds_qos2 = True
                    window.take(id, LOGGED_FLIGHT_2)
                    client.inflight[int(id)] = int(offset << PHASE_BITS | AWAIT_PUBREC)
                    sessions.operate(client, ASSIGNED_2, id, offset, True)
            index += 1
        return end

    def send_queued(self, consumer: Consumer, block: Block, index: i64, end: i64, lease: Lease | None) -> i64:
        """Write records of a queue until the window is full; index of the first one not written."""
        queue = self.queues.get(int(consumer.id))
        if queue is None:
            return end  # cancelled: its leases have returned
        if lease is None:
            while index < end:
                self.encoder.write_queued(self.out, queue, block, index, 0, None)
                index += 1
            return end
        recipient = queue.recipient
        if recipient is not None:
            return self.send_shared(recipient, block, index, end, lease)
        flight: Flight | None = None
        window = self.window
        while index < end:
            if window.is_full():
                return index
            offset = block.base + index
            id = window.next_id()
            if flight is None or id - flight.first_id != offset - flight.first_offset:
                flight = Flight(QUEUED, id, offset, lease)
            expired = self.encoder.expired
            if self.encoder.write_queued(self.out, queue, block, index, id, lease):
                window.take(id, flight)
            elif self.encoder.expired > expired:
                self.vhost.settlement.expire(lease, offset, 1)
            else:
                self.vhost.settlement.reject(lease, offset, 1)  # it cannot be sent to this client, ever [MQTT-3.1.2-25]
            index += 1
        return end

    def send_shared(self, recipient: Recipient, block: Block, index: i64, end: i64, lease: Lease) -> i64:
        """Write records of a shared subscription, as `send_queued`."""
        window = self.window
        while index < end:
            offset = block.base + index
            qos = qos_of(block, index, recipient)
            if qos == 0:
                self.encoder.write(self.out, block, index, recipient, 0, 0, 0, True)
                self.vhost.settlement.ack(lease, offset, 1)
            elif window.is_full():
                return index
            elif qos == 2 and self.client.durable:
                self.send_moved(recipient, block, index)
                self.vhost.settlement.ack(lease, offset, 1)
            else:
                id = window.next_id()
                if self.encoder.write(self.out, block, index, recipient, id, qos, 0, True):
                    window.take(id, Flight(SHARED_1 if qos == 1 else SHARED_2, id, offset, lease))
                else:
                    self.vhost.settlement.ack(lease, offset, 1)
            index += 1
        return end

    def send_moved(self, recipient: Recipient, block: Block, index: i64) -> None:
        """Write a shared record at QoS 2: from here on it is this session's and nobody else's [MQTT-4.8.2-4]."""
        sessions = self.vhost.sessions
        id = self.window.next_id()
        if not self.encoder.write(self.held, block, index, recipient, id, 2, 0, False):
            return
        offset = sessions.next_offset()
        self.move_private(Audience(), block, index)
        self.holds_qos2 = True
        self.window.take(id, LOGGED_FLIGHT_2)
        self.client.inflight[int(id)] = int(offset << PHASE_BITS | AWAIT_PUBREC)
        sessions.operate(self.client, ASSIGNED_2, id, offset, True)

    # ---- what waits

    def keep(self, delivery: Delivery) -> None:
        """The connection takes no more: what is logged waits for the next one, and leases return by themselves."""
        recipient = delivery.consumer
        if isinstance(recipient, Recipient) and recipient.queue == LOGGED:
            self.vhost.sessions.keep(recipient, delivery.block, delivery.index, delivery.count)

    def keep_direct(self, recipient: Recipient, block: Block, index: i64, end: i64) -> None:
        """Let records of memory wait in the session's message queue, or on the disk where memory has enough."""
        client = self.client
        fanout = self.vhost.fanout
        mqueue = client.mqueue
        dropped = mqueue.dropped
        rules = mqueue.rules
        paused = self.is_paused()
        while index < end:
            zero = qos_of(block, index, recipient) == 0
            if zero and not paused and (rules.qos0_bypass or not rules.store_qos0):
                self.encoder.write(self.out, block, index, recipient, 0, 0, 0, True)
            elif zero and not rules.store_qos0:
                fanout.miss(client, 1)
            elif self.spill_at and mqueue.count >= self.spill_at:
                self.spill(recipient, block, index)
            elif rules.priorities:
                mqueue.push(recipient, block, index, 1, zero, rules.priority(topic_at(block, index)))
            else:
                mqueue.push(recipient, block, index, 1, zero, 0)
            index += 1
        if mqueue.lost:
            self.vhost.sessions.note_lost(client)
        if mqueue.dropped != dropped:
            fanout.losers[client] = None
        fanout.crowding.check(client, self.vhost.now_us())

    def spill(self, recipient: Recipient, block: Block, index: i64) -> None:
        """Let one record wait on the disk."""
        audience = recipient.spilled
        if audience is None:
            logged = Recipient(self.client, LOGGED, recipient.qos)
            logged.identifiers = recipient.identifiers
            logged.keep_retain = recipient.keep_retain
            audience = recipient.spilled = Audience()
            audience.logged.append(logged)
        self.move_private(audience, block, index)

    def move_private(self, audience: Audience, block: Block, index: i64) -> None:
        """Put one record into the sessions' log, for this session."""
        self.vhost.sessions.append_private(
            self.client,
            audience,
            block.data[block.formats_at + index],
            block.routing_key(index),
            properties_at(block, index, self.vhost.now_us()),
            block.body(index),
        )

    def has_waiting(self) -> bool:
        return (
            self.client.mqueue.count > 0
            or bool(self.backlog)
            or self.feeder.feeds is not None
            or self.unsent is not None
        )

    def drain(self) -> None:
        """Send what waits, as far as window and connection allow."""
        self.encoder.now_us = self.vhost.now_us()
        if self.is_paused():
            return
        if self.unsent is not None:
            self.send_again(self.unsent)
        if self.backlog:
            self.drain_backlog(self.backlog)
        if self.unsent is None:
            self.drain_mqueue()
        self.feed_on()

    def end_turn(self) -> None:
        """End the turn: what was given in it has been delivered, or waits."""
        self.feeder.given = 0
        self.feed_on()

    def feed_on(self) -> None:
        """Give on what is retained for new subscriptions, once nothing older waits."""
        if self.client.mqueue.count == 0 and self.unsent is None and not self.is_paused():
            self.feeder.give(self.client, self.window.size - self.window.inflight)

    def drain_backlog(self, backlog: deque[WaitingRun]) -> None:
        while backlog:
            waiting = backlog[0]
            lease = waiting.lease
            if lease is not None and lease.left == 0:
                backlog.popleft()  # expired while it waited: the records are somebody else's
                continue
            next = self.send_queued(waiting.consumer, waiting.block, waiting.index, waiting.end, lease)
            if next < waiting.end:
                waiting.index = next
                return
            backlog.popleft()
        self.backlog = None

    def drain_mqueue(self) -> None:
        mqueue = self.client.mqueue
        log = self.vhost.sessions.log
        while mqueue.count and not self.window.is_full() and mqueue.head():
            recipient = mqueue.run_consumer
            assert isinstance(recipient, Recipient)
            block = mqueue.run_block
            index = mqueue.run_first
            count = mqueue.run_count
            is_logged = block is None
            if block is None:
                block = log.block(index)
                assert block is not None and block.base <= index, "what waits is in the log"
                index -= block.base
                count = min(count, block.count - index)
            if self.stored_rights is not None:
                refused = self.stored_rights.keep_back(self.vhost, block, index, index + count, is_logged)
                if refused:
                    mqueue.take(refused)
                    continue
                count = self.stored_rights.count_alike(block, index, index + count, True)
            if is_logged:
                taken = self.send_logged(recipient, block, index, index + count) - index
            else:
                taken = self.send_direct(recipient, block, index, index + count) - index
            mqueue.take(taken)
            if taken < count:
                break
        if self.stored_rights is not None and mqueue.count == 0:
            self.stored_rights = None
        if mqueue.count and self.window.is_full():
            self.vhost.budgets.filters.pace.note(self.window.size)
        if self.client.crowded or self.client.given_up:
            self.vhost.fanout.crowding.look(self.client, self.vhost.now_us())

    def forget(self, consumer: Consumer) -> None:
        """A queue's consumer is cancelled: what waits for it is not its own any more."""
        self.settle()  # what was acknowledged before is nobody else's
        self.queues.pop(int(consumer.id), None)
        self.settle_shared(consumer)
        if self.backlog:
            self.backlog = deque([waiting for waiting in self.backlog if waiting.consumer is not consumer])

    def sweep(self) -> None:
        """Let go of blocks whose lease has expired while they waited, then send what may be sent."""
        if self.backlog:
            kept: deque[WaitingRun] = deque()
            for waiting in self.backlog:
                if waiting.lease is None or waiting.lease.left:
                    kept.append(waiting)
            self.backlog = kept
        if self.has_waiting():
            self.drain()

    # ---- a session goes on

    def resume(self, rights: Rights) -> None:
        """Send again what was left unacknowledged and may still be read, in its order [MQTT-4.4.0-1, 4.6.0-1]."""
        if (self.client.inflight or self.client.mqueue.count) and rights.restricts_topics():
            self.stored_rights = StoredRights(rights, self.client)
        inflight = self.client.inflight
        if not inflight:
            return
        highest: i64 = 0
        for id in inflight:
            highest = max(highest, i64(id))
        self.encoder.now_us = self.vhost.now_us()
        # Messages that became the session's own in this turn (`send_moved`) are in no block before its end.
        self.vhost.sessions.end_turn(self.vhost.now_us())
        self.window.make_slots(highest)
        self.unsent = Unsent(self.vhost, self.client, self.encoder, self.window, self.out)
        self.send_again(self.unsent)

    def send_again(self, unsent: Unsent) -> None:
        if unsent.send(self.stored_rights):
            self.unsent = None

    # ---- acknowledgements

    def acknowledged(self, id: i64, code: i64) -> None:
        """PUBACK: the window has one place more, and the record is settled where that is how the client settles."""
        flight = self.window.find(id)
        if flight is None:
            return
        if flight.kind not in (DIRECT_1, QUEUED, LOGGED_1, SHARED_1):
            raise unexpected(f"PUBACK: packet identifier {id}: its message has QoS 2")
        if flight.kind == LOGGED_1:
            self.complete(id)
            return
        self.window.free(id)
        lease = flight.lease
        if lease is None:
            return
        offset = flight.first_offset + id - flight.first_id
        if code >= FAILURE and flight.kind == QUEUED:
            self.settle()
            self.vhost.settlement.nack(lease, offset, 1, 0)
            return
        is_settled = flight.kind == SHARED_1 or self.encoder.version == V311 or lease.page is None
        if is_settled and not self.acked.extend(lease, offset):
            self.settle()
            self.acked.begin(lease, offset)

    def received(self, id: i64, code: i64) -> None:
        """PUBREC: the message is the client's; PUBREL follows, of a durable session once that is on disk."""
        flight = self.window.find(id)
        if flight is None:
            if code < FAILURE:
                self.encoder.others_sent += 1
                write_ack(self.out, PUBREL, id, ID_NOT_FOUND if self.encoder.version == V5 else 0, b"")
            return
        if flight.kind in (DIRECT_1, QUEUED, LOGGED_1, SHARED_1):
            raise unexpected(f"PUBREC: packet identifier {id}: its message has QoS 1")
        if flight.lease is not None:
            self.vhost.settlement.ack(flight.lease, flight.first_offset + id - flight.first_id, 1)
        if code >= FAILURE:
            if flight.kind not in (RELEASED, RELEASED_LOGGED):
                self.complete(id)
            return
        self.encoder.others_sent += 1
        if flight.kind == LOGGED_2:
            self.window.slots[id] = RELEASED_LOGGED_FLIGHT
            # Last, as PUBREL packets go out in the order in which PUBREC came [MQTT-4.6.0-4].
            del self.client.inflight[int(id)]
            self.client.inflight[int(id)] = AWAIT_PUBCOMP
            self.vhost.sessions.operate(self.client, NOTE_RELEASED, id, 0, True)
            write_ack(self.held, PUBREL, id, 0, b"")
        else:
            if flight.kind == RELEASED_LOGGED:
                write_ack(self.held, PUBREL, id, 0, b"")  # the note of the first PUBREC may be on its way still
                return
            self.window.slots[id] = RELEASED_FLIGHT
            write_ack(self.out, PUBREL, id, 0, b"")

    def completed(self, id: i64) -> None:
        """PUBCOMP: the exchange is over."""
        flight = self.window.find(id)
        if flight is not None and flight.kind not in (RELEASED, RELEASED_LOGGED):
            raise unexpected(f"PUBCOMP: packet identifier {id}: no PUBREL has been sent")
        if flight is not None:
            self.complete(id)

    def complete(self, id: i64) -> None:
        """Complete an identifier: nothing more is expected for it."""
        complete(self.vhost.sessions, self.client, self.window, id)

    def settle(self) -> None:
        """Settle the run of records that the last PUBACKs acknowledged."""
        lease = self.acked.lease
        if lease is not None:
            self.vhost.settlement.ack(lease, self.acked.first, self.acked.count)
            self.acked.lease = None

    def close(self) -> None:
        """The connection is gone: a shared message that left at QoS 2 is nobody else's any more [MQTT-4.8.2-5]."""
        self.settle()
        self.settle_shared(None)

    def settle_shared(self, consumer: Consumer | None) -> None:
        """Settle what has left at QoS 2 of one shared subscription, or of all: nobody else may have it."""
        for slot in self.window.slots:
            if slot is None or slot.kind != SHARED_2 or slot.lease is None:
                continue
            if consumer is None or slot.lease.consumer is consumer:
                self.vhost.settlement.ack(slot.lease, slot.first_offset, 1)
