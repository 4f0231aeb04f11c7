"""The end of a turn in the queues: records are sealed and delivered, dead letters move, settlements are noted."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.dead_letter.dead_letters import DeadLetters
from forebay.broker.turn import Turn
from forebay.core.errors import note_half_change
from forebay.core.stored.entry_kinds import INTAKE, RETURNS, SETTLED
from forebay.queue.group import Group
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.properties import Looks
from forebay.queue.queue import Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.sifting import apply_early_acks
from forebay.queue.work.work_group import WorkGroup

PASSES_MAX: Final = 16  # through the queues in one turn, each for the dead letters of the one before


@final
class Dispatcher:
    """Delivers what the queues of a vhost have for their consumers.

    early  deliveries of this turn, before its end: see `catch_up`
    """

    def __init__(self, catalog: Catalog, turn: Turn, dead_letters: DeadLetters, filter_budget: Looks) -> None:
        self.catalog = catalog
        self.turn = turn
        self.dead_letters = dead_letters
        self.store = catalog.store
        self.filter_budget = filter_budget
        self.early: list[Delivery] = []

    def catch_up(self, queue: Queue) -> None:
        """Do for the queue what the turn's end would do with all that has happened so far.

        For whoever asks what is left of it then: consumers come first, and what is too much or too old is not there.
        """
        try:
            self.dead_letters.forward_refused()
            if not queue.dirty and not queue.log.writer.count:
                return
            self.turn.now_us = self.store.clock.now_us()
            if queue.log.writer.count:
                self.turn.seal(queue)
            self.prepare(queue)
            before = len(self.early)
            queue.dispatch(self.turn.now_us, self.early)
            if queue.limits.notes_deliveries:
                self.sync_first(queue, self.early, before)
        except Exception as error:
            note_half_change(error)
            raise

    def sync_first(self, queue: Queue, deliveries: list[Delivery], first: int) -> None:
        """Have the deliveries of a queue, those from index `first` on, leave once the disk has what is noted of them.

        Nothing else waits: the turn goes on, and so do other connections.
        """
        for at in range(first, len(deliveries)):
            delivery = deliveries[at]
            group = queue.groups.get(delivery.consumer.group)
            if isinstance(group, WorkGroup):
                group.note_delivery(delivery)
            self.turn.sync_first(queue, delivery.consumer.session_id)

    def prepare(self, queue: Queue) -> None:
        """Give a queue what it needs to deliver the records that it has now."""
        if queue.met_marks:
            marks, queue.met_marks = queue.met_marks, 0
            self.catalog.note_marks(queue, marks)
        if queue.work_groups == 0 and queue.needs_group():
            self.catalog.add_group(queue, b"", b"", True, queue.start(), True)
        if queue.has_early_acks:
            self.apply_early_acks(queue)

    def apply_early_acks(self, queue: Queue) -> None:
        """Settle what was acknowledged before it came."""
        queue.has_early_acks = False
        for group in queue.groups.values():
            if isinstance(group, WorkGroup) and group.attempts.early.runs:
                apply_early_acks(group, self.turn.now_us)
                if group.attempts.early.runs:
                    queue.has_early_acks = True

    def take_early(self, consumer: Consumer) -> list[Delivery]:
        """The deliveries that a consumer about to go would get at the turn's end; nobody else delivers them."""
        try:
            queue = self.catalog.queues_by_id.get(consumer.queue)
            if queue is None or (not queue.dirty and not queue.log.writer.count):
                return []
            self.catch_up(queue)
            own: list[Delivery] = []
            others: list[Delivery] = []
            for delivery in self.early:
                if delivery.consumer is consumer:
                    own.append(delivery)
                else:
                    others.append(delivery)
            self.early = others
            self.turn.trace.early += own
            return own
        except Exception as error:
            note_half_change(error)
            raise

    def count_early(self, consumer: Consumer) -> i64:
        """Return the number of records that a consumer has been delivered before the turn's end."""
        count: i64 = 0
        for delivery in self.early:
            if delivery.consumer is consumer:
                count += delivery.count
        return count

    def forget(self, consumer: Consumer) -> None:
        """Drop the early deliveries of a consumer that has just returned all its records."""
        if self.early:
            self.early = still_held(self.early, consumer)

    def end_turn(self, out: list[Delivery]) -> None:
        """Deliver what may go, note what was settled; what dies in a queue goes on in the same turn."""
        turn = self.turn
        if self.early:
            out += self.early
            self.early = []
        again: list[Queue] = []
        for _ in range(PASSES_MAX):
            self.dead_letters.forward_refused()
            if not turn.dirty:
                break
            dirty = turn.dirty
            turn.dirty = []
            for queue in dirty:
                queue.dirty = False
                turn.watch(queue)
            for queue in dirty:
                self.end_turn_of(queue, out, again)
        self.dead_letters.forward_refused()
        for queue in turn.dirty:  # dead letters that go round: they are in one frame with their settlement all the same
            if queue.log.writer.count:
                turn.seal(queue)
        if self.filter_budget.left <= 0:
            again = again[1:] + again[:1]  # so that each queue with filters is the first in its turn
        for queue in again:
            turn.mark(queue)

    def end_turn_of(self, queue: Queue, out: list[Delivery], again: list[Queue]) -> None:
        """Do one queue's part of `end_turn`; what dies in it may give others something to do in the same turn."""
        now_us = self.turn.now_us
        if queue.log.writer.count:
            self.turn.seal(queue)
        self.prepare(queue)
        before = len(out)
        if queue.dispatch(now_us, out):
            again.append(queue)
        if queue.limits.notes_deliveries:
            self.sync_first(queue, out, before)
        for group in list(queue.groups.values()):
            if group.reader.damage is not None and group.consumers:
                self.lose_consumers(group, group.reader.damage.error().text)
            if isinstance(group, WorkGroup):
                if group.overdue:
                    self.turn.cancelled += group.overdue
                    group.overdue = []
                if group.dead_letters.runs:
                    order = group.ready_queue.order
                    before = 0 if order is None else order.count
                    # A dead letter that has gone may let the next of its message group, or key, come.
                    is_cut = self.dead_letters.move(queue, group, now_us)
                    if is_cut or (order is not None and order.count > before):
                        again.append(queue)
        self.note_progress(queue)
        if self.dead_letters.awaited:
            self.dead_letters.made_room(queue)

    def lose_consumers(self, group: Group, why: str) -> None:
        """Detach a group's consumers: what they would get next cannot be read."""
        for consumer in list(group.consumers):
            consumer.lost = why
            group.detach(consumer)
            self.turn.cancelled.append(consumer)

    def note_progress(self, queue: Queue) -> None:
        """Log the settlements of a queue, and let its source forget what no reader needs."""
        try:
            log = queue.log
            for group in queue.groups.values():
                if isinstance(group, WorkGroup):
                    progress = group.take_progress()
                    returns = group.attempts.take_notes()
                    if progress:
                        group.active_us = self.turn.now_us
                    if log.durable:
                        if returns:
                            self.store.note(RETURNS, queue.id, group.id, returns, False)
                        if progress:
                            self.store.note(SETTLED, queue.id, group.id, progress, False)
            intake = queue.intake
            if intake is not None and intake.finished:
                note = intake.take_note(queue.start())
                if note:
                    self.store.note(INTAKE, queue.id, 0, note, False)
            if queue.source.is_shared:
                queue.needed_from()  # moves its own start, whoever holds the log back
            queue.source.truncate()
        except Exception as error:
            note_half_change(error)
            raise

    def synced(self) -> None:
        """Take note that what the store had in hand is on disk: readers that wait for that may have it."""
        awaiting = self.turn.awaiting
        self.turn.awaiting = []
        for queue in awaiting:
            if queue.log.durable_end < queue.log.end:
                self.turn.awaiting.append(queue)
            if has_readers(queue):
                self.turn.mark(queue)
            if queue.watches:
                self.turn.wake_watches(queue)


def still_held(deliveries: list[Delivery], gone: Consumer) -> list[Delivery]:
    """Return the deliveries except the leased ones of a consumer that has just returned all its records."""
    kept: list[Delivery] = []
    for delivery in deliveries:
        if delivery.consumer is not gone or delivery.lease is None:
            kept.append(delivery)
    return kept


def has_readers(queue: Queue) -> bool:
    for group in queue.groups.values():  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
        if isinstance(group, StreamGroup) and group.consumers:
            return True
    return False
