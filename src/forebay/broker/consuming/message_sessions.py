"""Message sessions: a client locks a message group of a queue, has its messages alone, and keeps a state for it.

The states are in a log of the broker's own, one record for each state. A lock lives as long as its connection.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, final

from mypy_extensions import i64

from forebay.broker.internal_log import MESSAGE_SESSIONS_LOG, RECORD_OVERHEAD, LedgerLog
from forebay.core.errors import TOO_LARGE, TOO_MANY, RequestError, note_half_change
from forebay.filter.nodes import EITHER, FilterNode
from forebay.filter.parser import Filter
from forebay.filter.subject import Subject
from forebay.log.block import Block
from forebay.log.store import Store
from forebay.message.formats.table import format_of
from forebay.message.subject import RecordSubject
from forebay.queue.leases.lease import Consumer
from forebay.queue.queue import Queue
from forebay.queue.ready.order import Order
from forebay.queue.turn import SCAN_RECORDS
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

LOG_NAME: Final = "$message-sessions"
STATE_OCTETS_MAX: Final = 256 << 10
STATES_MAX: Final = 100_000  # of one vhost
STATES_OCTETS_MAX: Final = 64 << 20  # of one vhost
STATE_FORMAT: Final = 0  # octet of a record: a state is no message of any protocol
TOP_LEVEL: Final = 100


@final
class SessionLock:
    """One message group that a connection has for itself.

    sessions    those of its vhost
    connection  that has it
    until_us    when it ends, unless it is renewed
    """

    def __init__(self, sessions: MessageSessions, queue: i64, group: bytes, connection: i64, until_us: i64) -> None:
        self.sessions = sessions
        self.queue: i64 = queue
        self.group = group
        self.connection: i64 = connection
        self.until_us: i64 = until_us

    def release(self) -> None:
        """End the lock, unless another one has its place."""
        key = (int(self.queue), self.group)
        if self.sessions.locks.get(key) is self:
            del self.sessions.locks[key]


@final
class MessageSessions(LedgerLog):
    """The locks and states of the message groups of a vhost's queues.

    locks    by number of the queue and name of the message group
    states   offsets of the records that have them, by the same
    lengths  of these records' bodies, of `octets` together
    counts   of these states, by number of the queue
    """

    def __init__(self, store: Store, vhost: i64) -> None:
        super().__init__(MESSAGE_SESSIONS_LOG, LOG_NAME, store, vhost)
        self.locks: dict[tuple[int, bytes], SessionLock] = {}
        self.states: dict[tuple[int, bytes], int] = {}
        self.lengths: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.octets: i64 = 0
        self.gone: list[int] = []
        self.now_us: i64 = 0

    # ---- locks

    def lock(self, queue: i64, group: bytes, connection: i64, until_us: i64) -> SessionLock | None:
        """Lock a message group; None if it is locked already."""
        key = (int(queue), group)
        if key in self.locks:
            return None
        made = self.locks[key] = SessionLock(self, queue, group, connection, until_us)
        return made

    def find_lock(self, queue: i64, group: bytes) -> SessionLock | None:
        """Return the lock of a message group, if there is one."""
        return self.locks.get((int(queue), group))

    def next_group(self, queue: i64, order: Order) -> bytes | None:
        """Return the message group that is not locked and whose next message has waited longest; None for none."""
        first = -1
        found: bytes | None = None
        for offset, key in order.keys.items():
            if (first < 0 or offset < first) and key and (int(queue), key) not in self.locks and order.waits(offset):
                first, found = offset, key
        return found

    # ---- states

    def set_state(self, queue: i64, group: bytes, state: bytes | None) -> None:
        """Keep a state in place of the one before; None for no state.

        raises  RequestError: TOO_LARGE, TOO_MANY, and nothing is changed
        """
        key = (int(queue), group)
        old = self.states.get(key)
        if state is not None:
            if len(state) > STATE_OCTETS_MAX:
                raise RequestError(TOO_LARGE, f"a session state of {len(state)} bytes: at most {STATE_OCTETS_MAX}")
            more = len(state) - (0 if old is None else self.lengths[old])
            if self.octets + more > STATES_OCTETS_MAX or (old is None and len(self.states) >= STATES_MAX):
                raise RequestError(TOO_MANY, "no room for more session states in the vhost")
        try:
            if old is not None:
                self.leave(key, old)
            if state is not None:
                offset = self.log.end + self.log.writer.count
                self.log.append_annotated(STATE_FORMAT, b"%d" % int(queue), group, b"", state, b"")
                self.keep(key, int(offset), len(state))
        except Exception as error:
            note_half_change(error)
            raise

    def state(self, queue: i64, group: bytes) -> bytes | None:
        """Return the state of a message group; None if it has none."""
        offset = self.states.get((int(queue), group))
        if offset is None:
            return None
        if offset >= self.log.end:
            self.make_readable(self.now_us)
        block = self.log.block(offset)
        assert block is not None and block.base <= offset, "a state that is kept is in the log"
        return block.body(offset - block.base)

    def groups_with_state(self, queue: i64) -> list[bytes]:
        """Return the message groups of a queue that have a state."""
        return sorted([group for number, group in self.states if number == queue])

    def keep(self, key: tuple[int, bytes], offset: int, octets: int) -> None:
        self.states[key] = offset
        self.counts[key[0]] = self.counts.get(key[0], 0) + 1
        self.lengths[offset] = octets
        self.octets += octets

    def leave(self, key: tuple[int, bytes], offset: int) -> None:
        del self.states[key]
        self.counts[key[0]] -= 1
        if not self.counts[key[0]]:
            del self.counts[key[0]]
        self.octets -= self.lengths.pop(offset)
        self.gone.append(offset)

    def forget_queues(self, queues: Container[int]) -> None:
        """Forget the states of queues that there are not any more."""
        gone = [number for number in self.counts if number not in queues]
        if gone:
            for key, offset in list(self.states.items()):
                if key[0] in gone:
                    self.leave(key, offset)

    # ---- the turn, and the log

    def end_turn(self, now_us: i64) -> None:
        self.now_us = now_us
        self.make_readable(now_us)
        self.source.truncate()
        if not self.gone:
            return
        for offset in sorted(self.gone):
            self.ledger.settle(offset, 1)
        self.gone = []
        self.note(0, self.ledger.progress(), True)

    def take_in(self, block: Block, first: i64, end: i64, now_us: i64) -> None:
        for offset in range(first, end):
            index = offset - block.base
            key = (int(block.exchange(index)), block.routing_key(index))
            old = self.states.get(key)
            if old is not None:  # whose settlement was lost
                self.leave(key, old)
            self.keep(key, int(offset), int(block.body_span(index, 1)))


@final
class QueueSessions:
    """The message sessions of one queue."""

    def __init__(self, sessions: MessageSessions, queue: Queue) -> None:
        self.sessions = sessions
        self.queue = queue

    def lock(self, group: bytes, connection: i64, until_us: i64) -> SessionLock | None:
        """Lock a message group; None if it is locked already."""
        return self.sessions.lock(self.queue.id, group, connection, until_us)

    def find_lock(self, group: bytes) -> SessionLock | None:
        """Return the lock of a message group, if there is one."""
        return self.sessions.find_lock(self.queue.id, group)

    def next_group(self) -> bytes | None:
        """Return the message group that is not locked and whose next message has waited longest; None for none."""
        found = self.queue.find_group(b"")
        order = found.ready_queue.order if isinstance(found, WorkGroup) else None
        if not isinstance(found, WorkGroup) or order is None:
            return None
        found.turn.looks = SCAN_RECORDS
        found.ready_queue.take_in(order)
        return self.sessions.next_group(self.queue.id, order)

    def group_count(self) -> int:
        """Return the number of message groups that `next_group` looks at."""
        found = self.queue.find_group(b"")
        order = found.ready_queue.order if isinstance(found, WorkGroup) else None
        return 0 if order is None else len(order.keys)

    def state(self, group: bytes) -> bytes | None:
        """Return the state of a message group; None if it has none."""
        return self.sessions.state(self.queue.id, group)

    def set_state(self, group: bytes, state: bytes | None) -> None:
        """Keep a state in place of the one before, or none; RequestError as `MessageSessions.set_state`."""
        self.sessions.set_state(self.queue.id, group, state)

    def groups_with_state(self) -> list[bytes]:
        """Return the message groups that have a state."""
        return self.sessions.groups_with_state(self.queue.id)


def octets_of_state(state: bytes) -> i64:
    """Return the octets that a state takes on disk, at most."""
    return len(state) + RECORD_OVERHEAD + 300


# ---- the filter of a consumer that has one message group


@final
class GroupNode(FilterNode):
    """The condition that a message is of one message group."""

    def __init__(self, group: bytes) -> None:
        super().__init__(EITHER, TOP_LEVEL, [])
        self.group = group

    def evaluate(self, subject: Subject) -> object:
        if not isinstance(subject, RecordSubject):
            return None
        block, index = subject.block, subject.index
        return format_of(block.format(index)).group_key(block.properties(index)) == self.group

    def written(self) -> str:
        return f"message group '{text(self.group)}'"


def select_group(group: WorkGroup, consumer: Consumer, key: bytes) -> None:
    """Give a consumer without credit nothing but the messages of one message group from here on."""
    group.select(consumer, Filter("", GroupNode(key)))
    group.choose_fairness()
