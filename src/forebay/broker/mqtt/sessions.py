"""The MQTT sessions of a vhost: who is there, and the log of what durable ones have to get.

A message for any number of durable sessions is stored once, in the sessions' log. What of it a session still has to
get is runs of offsets in its message queue, and its packets in flight; both can be made again from the log, the
subscriptions and the notes of `client_session`, which is what recovery does.

The `exchange` column of a record says for whom it is not meant among all that match: 1 and a session's number is for
that session only (a retained message, or what overflowed), 2 and a number is not for that one's no-local subscriptions.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, u8

from forebay.broker.internal_log import SESSIONS_LOG, InternalLog
from forebay.broker.limits.topology_memory import TopologyMemory, filter_octets
from forebay.broker.mqtt.audience import DIRECT, LOGGED, WIDE_MIN, Audience, Recipient
from forebay.broker.mqtt.client_session import (
    NEVER,
    NOBODY,
    TAKEN,
    ClientSession,
    Owner,
    Subscription,
    Will,
)
from forebay.broker.mqtt.fanout import Fanout, Runs, is_zero, topic_at
from forebay.broker.mqtt.noted_sessions import (
    EndedSession,
    EndedSubscription,
    SessionNote,
    kept_note,
    session_note,
    subscription_note,
)
from forebay.broker.mqtt.session_quota import SessionQuota
from forebay.broker.mqtt.wide_deliveries import OFFLINE_POINTS, ONLINE_POINTS
from forebay.core.errors import REFUSED, RequestError, note_half_change
from forebay.core.units import US_PER_S
from forebay.log.block import Block
from forebay.log.store import Store
from forebay.message.address import DEAD_LETTER_PREFIX, QUEUE_PREFIX
from forebay.message.annotations import RECIPIENT, with_number
from forebay.queue.leases.lease import Delivery
from forebay.queue.mqueue import MqueueRules
from forebay.wire.mqtt.codes import SHARE_PREFIX

BLOCK_OCTETS: Final = 64 << 20  # a block longer than this is sealed before the turn ends
CACHED_OCTETS_MAX: Final = 16 << 20  # who is far behind reads from the disk; who is not finds all of it here
NOT_YET: Final = 1 << 62  # above all offsets
NOT_TOPICS: Final = (QUEUE_PREFIX, SHARE_PREFIX, DEAD_LETTER_PREFIX)


class Sessions(InternalLog):
    """All MQTT sessions of a vhost; `StoredSessions` brings them back after a restart.

    A client identifier names a session among those of one user: another user's session of the same name is another one.

    clients  by client identifier, the first of the sessions that users have under it: see `of_identifier`
    taken    connections that have lost their session to another one, for the server to end
    wills    to be published in this turn, with the sessions that left them
    memory   what subscriptions take, among all that is declared
    left     subscriptions of sessions that have ended, except to topics
    """

    def __init__(
        self,
        store: Store,
        fanout: Fanout,
        rules: MqueueRules,
        sessions_max: i64,
        memory: TopologyMemory,
        vhost: i64 = 0,
    ) -> None:
        super().__init__(SESSIONS_LOG, "$sessions", store, vhost)
        self.log.cached_max = CACHED_OCTETS_MAX
        self.fanout = fanout
        self.quota = SessionQuota(self.log, fanout.crowding)
        self.rules = rules
        self.sessions_max: i64 = sessions_max
        self.memory = memory
        self.clients: dict[bytes, ClientSession] = {}
        self.by_number: dict[int, ClientSession] = {}
        self.offline: dict[int, ClientSession] = {}
        self.connected: dict[int, ClientSession] = {}  # by connection
        self.next_number: i64 = 1
        self.taken: list[int] = []
        self.unreadable: list[tuple[int, int]] = []  # offsets of which nobody knows whose they are
        self.wills: list[tuple[ClientSession, Will]] = []
        self.left: list[Subscription] = []
        self.changed: list[ClientSession] = []
        self.runs = Runs()
        self.out: list[Delivery] = []
        self.expired: i64 = 0  # sessions that ended by their expiry
        self.dropped: i64 = 0  # by the message queues of sessions that have ended
        self.now_us: i64 = 0

    # ---- sessions come and go

    def find(self, client_id: bytes, user: str) -> ClientSession | None:
        """Return the session that a user has under a client identifier, or None."""
        client = self.clients.get(client_id)
        while client is not None and client.owner.user != user:
            client = client.next
        return client

    def of_identifier(self, client_id: bytes) -> list[ClientSession]:
        """Return the sessions that users have under one client identifier."""
        found: list[ClientSession] = []
        client = self.clients.get(client_id)
        while client is not None:
            found.append(client)
            client = client.next
        return found

    def insert(self, client: ClientSession) -> None:
        """Add a session to those of its client identifier."""
        client.next = self.clients.get(client.client_id)
        self.clients[client.client_id] = client
        self.by_number[int(client.number)] = client

    def remove(self, client: ClientSession) -> None:
        """Remove a session from those of its client identifier."""
        rest = [each for each in self.of_identifier(client.client_id) if each is not client]
        del self.clients[client.client_id]
        del self.by_number[int(client.number)]
        client.next = None
        for each in rest:
            self.insert(each)

    def attach(
        self,
        client_id: bytes,
        connection: i64,
        clean_start: bool,
        expiry_s: i64,
        will: Will | None,
        owner: Owner = NOBODY,
    ) -> ClientSession:
        """Return the session of a client that connects, its user's earlier one unless that is over.

        expiry_s  how long it outlives the connection; 0: not at all, even where the client comes back at once [3.1.4-3]
        raises    RequestError(REFUSED) if there are too many sessions
        """
        try:
            old = self.find(client_id, owner.user)
            is_there = old is not None and old.durable and old.expiry_s > 0 and not clean_start
            if old is not None:
                if old.connection:
                    self.fanout.crowding.relieve(old)
                    self.taken.append(int(old.connection))
                    self.connected.pop(int(old.connection), None)
                self.settle_will(old, is_there)
                if not is_there:
                    self.end(old)
            if is_there:
                assert old is not None
                client = old
                self.offline.pop(int(client.number), None)
                client.away_to = self.next_offset()
                self.mark(client)
            else:
                client = self.make(client_id, expiry_s)
            client.owner = owner
            client.connection = connection
            client.resumed = is_there
            self.connected[int(connection)] = client
            client.paused = False
            client.full = False
            # Nobody who publishes now is held back for what has gathered.
            client.given_up = 0 < self.rules.crowd_at < client.mqueue.count
            client.expiry_s = expiry_s
            client.ended_us = 0
            client.will = will
            client.will_due_us = 0
            self.fanout.client_changed(client)
            self.describe(client, True)
            return client
        except Exception as error:
            note_half_change(error)
            raise

    def make(self, client_id: bytes, expiry_s: i64) -> ClientSession:
        if self.sessions_max and i64(len(self.by_number)) >= self.sessions_max:
            raise RequestError(REFUSED, f"client identifier: there are {self.sessions_max} sessions, mqtt_sessions_max")
        client = ClientSession(self.next_number, client_id, expiry_s > 0, expiry_s, self.rules)
        self.next_number += 1
        client.covered = client.away_from = client.away_to = self.next_offset()
        self.insert(client)
        return client

    def detach(self, client: ClientSession, connection: i64, now_us: i64) -> None:
        """Detach a closed connection from its session. Does nothing if another has taken the session over."""
        if client.connection != connection or client.ended:
            return
        self.fanout.crowding.relieve(client)
        client.connection = 0
        client.ended_us = now_us
        client.away_from = self.next_offset()
        client.away_to = NOT_YET
        self.connected.pop(int(connection), None)
        will = client.will
        if will is not None and will.delay_s and client.expiry_s:
            delay_s = min(will.delay_s, client.expiry_s)
            client.will_due_us = now_us + delay_s * US_PER_S
        else:
            self.settle_will(client, False)
        self.fanout.client_changed(client)
        if client.expiry_s == 0:
            self.end(client)
            return
        self.offline[int(client.number)] = client
        self.describe(client, False)

    def settle_will(self, client: ClientSession, resumed: bool) -> None:
        """Publish the will unless its delay lets it off: the connection has ended, or the client is back [3.1.3-9]."""
        will = client.will
        client.will = None
        client.will_due_us = 0
        if will is not None and not (resumed and will.delay_s):
            self.wills.append((client, will))

    def end(self, client: ClientSession) -> None:
        """End a session, and discard all that it kept."""
        self.settle_will(client, False)
        client.ended = True
        self.quota.forget(client)
        self.fanout.crowding.relieve(client)
        client.connection = 0
        for subscription in client.subscriptions.values():
            self.count_filter(subscription, -1)
            if is_topic(subscription.filter):
                self.fanout.remove(subscription)
            else:
                self.left.append(subscription)
        client.subscriptions = {}
        self.dropped += client.mqueue.dropped
        client.mqueue.clear()
        client.inflight = {}
        self.remove(client)
        self.offline.pop(int(client.number), None)
        if client.durable:
            self.note_of(client, EndedSession(), True)

    def tick(self, now_us: i64) -> None:
        """End sessions whose time is over, publish wills whose delay is over, let the log forget."""
        for client in list(self.offline.values()):
            if client.will is not None and client.will_due_us and client.will_due_us <= now_us:
                self.settle_will(client, False)
                self.describe(client, True)
            if client.expiry_s < NEVER and client.ended_us + client.expiry_s * US_PER_S <= now_us:
                self.expired += 1
                self.end(client)
        self.quota.look(self.by_number, now_us)
        if self.out:
            return  # sealed before the turn's end: nobody wants these yet
        self.source.truncate()

    def needed_from(self) -> i64:
        floor = self.undelivered(self.log.end)
        for base, _ in self.unreadable:
            floor = min(floor, i64(base))
        for client in self.by_number.values():
            floor = min(floor, client.floor(floor))
        return floor

    # ---- subscriptions

    def subscribe(self, client: ClientSession, wanted: Subscription) -> bool:
        """Add a subscription, or give the one to the same filter the options of this one; whether it is new."""
        old = client.subscriptions.get(wanted.filter)
        if old is None:
            client.subscriptions[wanted.filter] = wanted
            self.count_filter(wanted, 1)
            if is_topic(wanted.filter):
                self.fanout.add(wanted)
        else:
            if old.qos == 0 and wanted.qos:
                old.since = wanted.since  # what came at QoS 0 was given away already, if others have it in the log
            elif old.qos and wanted.qos == 0 and client.durable:
                # Recovery could not tell by the subscription that these wait; they must not be lost [MQTT-3.8.4-4].
                self.note_of(client, kept_note(client, self.undelivered(self.log.end)), False)
                client.lowered = True
                self.mark(client)
            old.qos = wanted.qos
            old.no_local = wanted.no_local
            old.keep_retain = wanted.keep_retain
            old.identifier = wanted.identifier
            self.count_filter(old, -1)
            old.arguments = wanted.arguments
            self.count_filter(old, 1)
            if old.id:
                self.fanout.subscription_changed(old)
        if client.durable:
            self.note_of(client, subscription_note(client.subscriptions[wanted.filter]), True)
        return old is None

    def unsubscribe(self, client: ClientSession, filter: bytes) -> bool:
        """End a subscription; False where there is none."""
        subscription = client.subscriptions.pop(filter, None)
        if subscription is None:
            return False
        self.count_filter(subscription, -1)
        if is_topic(filter):
            self.fanout.remove(subscription)
        if client.durable:
            self.note_of(client, EndedSubscription(filter), True)
        return True

    def check_room(self, client: ClientSession, wanted: Subscription) -> None:
        """Refuse a subscription with RequestError(TOO_MANY) if there is no memory for its filter and arguments."""
        octets = filter_octets(wanted.filter, wanted.arguments)
        old = client.subscriptions.get(wanted.filter)
        if old is not None:
            octets -= filter_octets(old.filter, old.arguments)
        self.memory.check(-client.number, octets, "topic filter")

    def count_filter(self, subscription: Subscription, sign: i64) -> None:
        """Count the memory of a subscription, or with sign -1 give it back."""
        octets = filter_octets(subscription.filter, subscription.arguments)
        self.memory.add(-subscription.client.number, sign * octets)

    def recipient(self, client: ClientSession, block: Block, index: i64) -> Recipient:
        """Return the recipient for delivering a logged record to this client, by its current subscriptions."""
        found = self.fanout.audience(topic_at(block, index), 0)
        if found is not None:
            if is_zero(block, index):
                found = found.zero
            for recipient in found.logged:
                if recipient.client is client:
                    return recipient
        return Recipient(client, LOGGED, 2)

    # ---- messages

    def next_offset(self) -> i64:
        """Return the offset that the next record will have."""
        return self.log.end + self.log.writer.count

    def append(
        self, audience: Audience, format: u8, origin: bytes, topic: bytes, properties: bytes, body: bytes
    ) -> None:
        """One message for the logged recipients of an audience, at the turn's end."""
        writer = self.log.writer
        writer.append_annotated(format, b"", topic, properties, body, origin)
        self.runs.add(audience)
        if writer.bodies.size() > BLOCK_OCTETS:
            self.end_turn(self.now_us)

    def append_private(
        self, client: ClientSession, audience: Audience, format: u8, topic: bytes, properties: bytes, body: bytes
    ) -> None:
        """One message for one session; its audience has that session's recipient, or none where it is on its way."""
        try:
            self.append(audience, format, with_number(b"", RECIPIENT, client.number), topic, properties, body)
        except Exception as error:
            note_half_change(error)
            raise

    def end_turn(self, now_us: i64) -> None:
        """Seal what was appended, and find who gets it: see `take_deliveries`."""
        try:
            self.now_us = now_us
            writer = self.log.writer
            if writer.count == 0:
                return
            runs = self.runs
            self.runs = Runs()
            runs.cut()
            block = self.log.seal(now_us)
            assert block is not None
            self.store.append(self.log, block)
            index: i64 = 0
            for at in range(len(runs.audiences)):
                count = runs.counts[at]
                recipients = runs.audiences[at].logged
                if len(recipients) > WIDE_MIN:
                    self.fanout.wide.add(recipients, block, index, count, None)
                else:
                    for recipient in recipients:
                        self.out.append(Delivery(recipient, block, index, count, None))
                index += count
        except Exception as error:
            note_half_change(error)
            raise

    def keep(self, recipient: Recipient, block: Block, index: i64, count: i64) -> None:
        """Let records of the log wait for a session; what gives way to them is noted."""
        try:
            client = recipient.client
            mqueue = client.mqueue
            dropped = mqueue.dropped
            offset = block.base + index
            zero = recipient.qos == 0
            if zero and client.refuses:
                self.pass_by(client, offset, count)
                return
            if mqueue.rules.priorities:
                for step in range(count):
                    priority = mqueue.rules.priority(topic_at(block, index + step))
                    mqueue.push(recipient, None, offset + step, 1, zero, priority)
            else:
                mqueue.push(recipient, None, offset, count, zero, 0)
            if mqueue.lost:
                self.note_lost(client)
            if mqueue.dropped != dropped:
                self.fanout.losers[client] = None
            if client.connection:
                self.fanout.crowding.check(client, self.now_us)
        except Exception as error:
            note_half_change(error)
            raise

    def pass_by(self, client: ClientSession, offset: i64, count: i64) -> None:
        """Records of QoS 0, of which nobody awaits anything, are not kept where too much waits already."""
        try:
            client.mqueue.dropped += count
            self.fanout.losers[client] = None
            for each in range(offset, offset + count):
                self.operate(client, TAKEN, 0, each, False)
        except Exception as error:
            note_half_change(error)
            raise

    def keep_out(self) -> None:
        """Let what is in `out` wait, as all that is not in a packet has to."""
        out, self.out = self.out, []
        for delivery in out:
            recipient = delivery.consumer
            assert isinstance(recipient, Recipient)
            if not recipient.client.ended:
                self.keep(recipient, delivery.block, delivery.index, delivery.count)

    def note_lost(self, client: ClientSession) -> None:
        """Note what of the log has given way in a message queue."""
        try:
            for first, end in pairs(client.mqueue.take_lost()):
                for each in range(first, end):
                    self.operate(client, TAKEN, 0, each, False)
        except Exception as error:
            note_half_change(error)
            raise

    def take_wills(self) -> list[tuple[ClientSession, Will]]:
        """Return the wills to be published, with the sessions that left them, since the last call."""
        wills, self.wills = self.wills, []
        return wills

    def take_left(self) -> list[Subscription]:
        """Return the subscriptions of sessions that have ended since the last call, except to topics."""
        left, self.left = self.left, []
        return left

    def take_taken(self) -> list[int]:
        """Return the connections whose session another connection has taken over since the last call."""
        taken, self.taken = self.taken, []
        return taken

    def take_deliveries(self) -> list[Delivery]:
        """Return the pending deliveries whose connections are still open. Keeps the others for their sessions."""
        out: list[Delivery] = []
        for delivery in self.out:
            recipient = delivery.consumer
            assert isinstance(recipient, Recipient)
            if recipient.client.connection:
                recipient.session_id = recipient.client.connection
                out.append(delivery)
            elif not recipient.client.ended:
                self.keep(recipient, delivery.block, delivery.index, delivery.count)
        self.out = []
        return out

    def deliver_wide(self, out: list[Delivery]) -> None:
        """Go on with what is delivered to very many, as far as this turn is for it."""
        wide = self.fanout.wide
        wide.begin()
        run = wide.run()
        while run is not None:
            while run.at < len(run.recipients) and wide.left > 0:
                recipient = run.recipients[run.at]
                run.at += 1
                client = recipient.client
                wide.left -= ONLINE_POINTS if client.connection else OFFLINE_POINTS
                if client.ended or client in run.passed_by:
                    continue
                if recipient.queue == DIRECT:
                    self.fanout.deliver_to(recipient, run.block, run.index, run.count, run.encodings, out)
                elif client.connection:
                    recipient.session_id = client.connection
                    out.append(Delivery(recipient, run.block, run.index, run.count, None))
                else:
                    self.keep(recipient, run.block, run.index, run.count)
            run = wide.run()

    def keep_wide(self, client: ClientSession | None) -> None:
        """Let what is on its way to a client among very many wait in its message queue; None for all clients."""
        for run in self.fanout.wide.waiting(LOGGED):
            for at in range(run.at, len(run.recipients)):
                recipient = run.recipients[at]
                if client is not None and recipient.client is not client:
                    continue
                if not recipient.client.ended and recipient.client not in run.passed_by:
                    self.keep(recipient, run.block, run.index, run.count)
                    run.passed_by[recipient.client] = None
            if client is None:
                run.at = len(run.recipients)

    def undelivered(self, none: i64) -> i64:
        """Return the lowest offset that is still to be delivered to somebody; `none` if there is none."""
        lowest = none
        for each in self.out:
            lowest = min(lowest, each.block.base + each.index)
        for run in self.fanout.wide.waiting(LOGGED):
            lowest = min(lowest, run.first())
        return lowest

    # ---- notes

    def operate(self, client: ClientSession, operation: i64, id: i64, offset: i64, urgent: bool) -> None:
        """Note what happened to a packet; if urgent, what is written after it waits for the disk."""
        try:
            if not client.durable:
                return
            client.operate(operation, id, offset)
            if urgent:
                client.urgent = True
            self.mark(client)
        except Exception as error:
            note_half_change(error)
            raise

    def mark(self, client: ClientSession) -> None:
        if not client.noted:
            client.noted = True
            self.changed.append(client)

    def note_changes(self) -> None:
        """Write down the operations of this turn, along with the records that they are about."""
        self.end_turn(self.now_us)
        self.keep_out()  # put there while deliveries were written: behind others that wait already
        changed = self.changed
        if not changed:
            return
        self.changed = []
        for client in changed:
            client.noted = False
            payload = client.take_notes()
            if payload and not client.ended:
                self.note(int(client.number), payload, client.urgent)
            client.urgent = False
            if client.lowered:
                client.lowered = False
                if not client.ended:
                    self.keep_wide(client)
                    self.note_of(client, kept_note(client, self.log.end), False)

    def note_of(self, client: ClientSession, said: SessionNote, urgent: bool) -> None:
        payload = client.take_notes()
        if payload:  # these and operations keep their order
            self.note(int(client.number), payload, client.urgent)
        self.note(int(client.number), said.encoded(), urgent)

    def describe(self, client: ClientSession, urgent: bool) -> None:
        if client.durable and not client.ended:
            self.note_of(client, session_note(client), urgent)


def is_topic(filter: bytes) -> bool:
    """Return whether a subscription is to topics, and not to a queue or a share of one."""
    return filter[:1] != b"$" or not filter.startswith(NOT_TOPICS)


def pairs(bounds: list[int]) -> list[tuple[int, int]]:
    """First, end, first, end, ... as intervals."""
    return [(bounds[at], bounds[at + 1]) for at in range(0, len(bounds), 2)]
