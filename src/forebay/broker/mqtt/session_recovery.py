"""MQTT sessions after a restart: what was noted of them, applied again, and what each still has to get.

A message queue is not written down. A checkpoint says which records of the log still wait; what came after it is
matched again with the subscriptions, without what the notes say was taken out since.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.mqtt.audience import LOGGED
from forebay.broker.mqtt.client_session import (
    AWAIT_PUBACK,
    AWAIT_PUBCOMP,
    COMPLETED,
    FORGOTTEN,
    PHASE_BITS,
    RELEASED,
    ClientSession,
    Owner,
    Subscription,
    Will,
)
from forebay.broker.mqtt.fanout import is_zero, topic_at
from forebay.broker.mqtt.noted_sessions import (
    NOTES,
    EndedSession,
    EndedSubscription,
    HeldSession,
    HeldSubscription,
    KeptMessages,
    NextSession,
    SessionNote,
    kept_note,
    session_note,
    subscription_note,
)
from forebay.broker.mqtt.sessions import NOT_YET, Sessions, is_topic, pairs
from forebay.core.errors import DamagedBlock
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.core.units import US_PER_S
from forebay.directory.command import decoded
from forebay.log.block import Block
from forebay.log.housekeeping import merged
from forebay.log.store import FrameEntry
from forebay.message.annotations import ORIGIN, RECIPIENT, number_annotation


@final
class StoredSessions(Sessions):
    """The sessions of a vhost, with their way to the disk and back."""

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        found = [(max(base, int(first)), min(stop, int(end))) for base, stop in self.unreadable if base < end]
        found = [each for each in found if each[0] < each[1]]
        for client in self.by_number.values():
            found += client.wanted(first, end)
        for run in self.fanout.wide.waiting(LOGGED):
            if run.first() < end and first < run.first() + run.count:
                found.append((int(max(first, run.first())), int(min(end, run.first() + run.count))))
        return merged(found)

    def checkpoint(self) -> list[FrameEntry]:
        self.keep_out()
        self.keep_wide(None)
        entries = [self.entry(0, NextSession(int(self.next_number)).encoded())]
        for client in self.by_number.values():
            if not client.durable:
                continue
            client.take_notes()
            notes: list[SessionNote] = [session_note(client), kept_note(client, self.log.end)]
            notes += [subscription_note(subscription) for subscription in client.subscriptions.values()]
            for note in notes:
                entries.append(self.entry(int(client.number), note.encoded()))
        return entries

    def entry(self, group: int, payload: bytes) -> FrameEntry:
        return FrameEntry(INTERNAL, self.number, group, payload)

    def restore(self, group: int, payload: bytes) -> None:
        if payload[0] <= FORGOTTEN:
            client = self.by_number.get(group)
            if client is not None:
                client.restore_operations(payload)
            return
        restore_note(self, group, decoded(NOTES, payload))

    def recovered(self, now_us: i64) -> None:
        self.now_us = now_us
        were_here: list[ClientSession] = []
        for client in self.by_number.values():
            if client.ended_us == 0:  # it was connected when the broker stopped
                client.ended_us = now_us
                if client.will is not None:
                    client.will_due_us = now_us + client.will.delay_s * US_PER_S
                were_here.append(client)
            self.offline[int(client.number)] = client
        Backlogs(self).fill()
        for client in were_here:
            client.away_from = self.log.end
            client.away_to = NOT_YET


@final
class Backlogs:
    """Recovery's last step: what each session still has to get, from the log."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.log = sessions.log
        self.block: Block | None = None

    def fill(self) -> None:
        log = self.log
        offset = log.end
        for client in self.sessions.by_number.values():
            self.check_inflight(client)
            client.taken = [bound for pair in merged(pairs(client.taken)) for bound in pair]
            kept = client.kept
            for place in range(0, len(kept), 2):
                for each in range(kept[place], kept[place + 1]):
                    self.put_back(client, each)
            offset = min(offset, max(client.covered, log.start))
        while offset < log.end:
            try:
                block = log.block(offset)
            except DamagedBlock as error:
                self.keep_unreadable(error)
                offset = i64(error.end)
                continue
            if block is None:
                break
            for index in range(max(i64(0), offset - block.base), block.count):
                self.match(block, index)
            offset = block.end
        for client in self.sessions.by_number.values():
            client.kept = []
            client.taken = []

    def check_inflight(self, client: ClientSession) -> None:
        """Take as acknowledged what the log has no more: the note of that was lost, and is made now."""
        for id, value in list(client.inflight.items()):
            word: i64 = value
            phase = word & 3
            if phase == AWAIT_PUBCOMP or self.has(word >> PHASE_BITS):
                continue
            client.restore_operation(COMPLETED if phase == AWAIT_PUBACK else RELEASED, id, 0)

    def has(self, offset: i64) -> bool:
        block = self.block
        if block is None or not block.base <= offset < block.end:
            try:
                block = self.log.block(offset)
            except DamagedBlock as error:
                self.keep_unreadable(error)
                return True
            if block is not None:
                self.block = block
        return offset >= self.log.start and block is not None and block.base <= offset < block.end

    def keep_unreadable(self, error: DamagedBlock) -> None:
        """Keep messages of which nobody can know whose they are."""
        span = (error.base, error.end)
        if span not in self.sessions.unreadable:
            self.sessions.unreadable.append(span)

    def put_back(self, client: ClientSession, offset: i64) -> None:
        """Let a record wait that waited when the last checkpoint was made."""
        if client.has_taken(offset) or not self.has(offset):
            return
        block = self.block
        if block is None or not block.base <= offset < block.end:
            # The disk refuses it. The next checkpoint says that it waits, for the start that finds it readable.
            client.unreadable.append(int(offset))
            client.unreadable.append(int(offset) + 1)
            return
        recipient = self.sessions.recipient(client, block, offset - block.base)
        self.sessions.keep(recipient, block, offset - block.base, 1)

    def match(self, block: Block, index: i64) -> None:
        """A record of after it: whoever was subscribed in time and has not got it yet."""
        offset = block.base + index
        annotations = block.annotations(index)
        alone = number_annotation(annotations, RECIPIENT, 0)
        if alone:
            client = self.sessions.by_number.get(int(alone))
            if client is not None and offset >= client.covered and not client.has_taken(offset):
                self.sessions.keep(self.sessions.recipient(client, block, index), block, index, 1)
            return
        audience = self.sessions.fanout.audience(topic_at(block, index), number_annotation(annotations, ORIGIN, 0))
        if audience is None:
            return
        if is_zero(block, index):
            audience = audience.zero
        for recipient in audience.logged:
            client = recipient.client
            if offset < recipient.since or offset < client.covered or client.has_taken(offset):
                continue
            if recipient.qos or client.away_from <= offset < client.away_to:
                self.sessions.keep(recipient, block, index, 1)


def restore_note(sessions: Sessions, number: int, note: SessionNote) -> None:
    """Apply one note."""
    client = sessions.by_number.get(number)
    if isinstance(note, NextSession):
        sessions.next_number = max(sessions.next_number, note.number)
    elif isinstance(note, HeldSession):
        restore_session(sessions, number, note)
    elif client is None:
        return
    elif isinstance(note, KeptMessages):
        client.covered = note.covered
        client.kept = note.waiting
        client.taken = []
        client.inflight = dict(note.inflight)
        client.received = set(note.received)
    elif isinstance(note, HeldSubscription):
        restore_subscription(sessions, client, note)
    elif isinstance(note, EndedSubscription):
        subscription = client.subscriptions.pop(note.filter, None)
        if subscription is not None:
            sessions.count_filter(subscription, -1)
            if is_topic(subscription.filter):
                sessions.fanout.remove(subscription)
    else:
        assert isinstance(note, EndedSession), note
        client.durable = False  # so that its end is not noted again
        sessions.end(client)
        sessions.take_wills()
        sessions.take_left()


def restore_session(sessions: Sessions, number: int, note: HeldSession) -> None:
    client = sessions.by_number.get(number)
    if client is None:
        client = ClientSession(number, note.id, True, 1, sessions.rules)
        client.covered = note.covered
        sessions.insert(client)
        sessions.next_number = max(sessions.next_number, number + 1)
    client.owner = Owner(note.user, note.authority)
    client.expiry_s = note.expiry
    client.ended_us = note.ended
    client.will_due_us = note.due
    client.away_from, client.away_to = note.away
    client.will = None if note.will is None else Will(*note.will)


def restore_subscription(sessions: Sessions, client: ClientSession, note: HeldSubscription) -> None:
    subscription = client.subscriptions.get(note.filter)
    if subscription is None:
        subscription = Subscription(client, note.filter, 0, note.since)
        client.subscriptions[note.filter] = subscription
        if is_topic(note.filter):
            sessions.fanout.add(subscription)
    else:
        sessions.count_filter(subscription, -1)
    subscription.since = note.since
    subscription.qos = note.qos
    subscription.no_local = note.no_local
    subscription.keep_retain = note.keep_retain
    subscription.identifier = note.identifier
    subscription.arguments = note.arguments
    sessions.count_filter(subscription, 1)
    if subscription.id:
        sessions.fanout.subscription_changed(subscription)
