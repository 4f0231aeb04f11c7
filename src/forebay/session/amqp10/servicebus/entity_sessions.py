"""Sessions of Azure Service Bus, which are message groups here: locks on them, and their states."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.consuming.message_sessions import QueueSessions, SessionLock, octets_of_state, select_group
from forebay.broker.contract import ANY_SESSION
from forebay.core.errors import INVALID, NOT_IMPLEMENTED, PRECONDITION, TOO_MANY, RequestError
from forebay.core.units import US_PER_MS
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.outgoing.sending import SendingLink
from forebay.session.amqp10.servicebus.fields import session_in, session_name
from forebay.session.amqp10.servicebus.node_requests import number_in
from forebay.wire.amqp10.values import STRING_32, Array, Described, Map, Symbol, Timestamp

SESSION_FILTER: Final = "com.microsoft:session-filter"
LOCKED_UNTIL: Final = "com.microsoft:locked-until-utc"
SESSION_LOST: Final = "com.microsoft:session-lock-lost"
CANNOT_BE_LOCKED: Final = "com.microsoft:session-cannot-be-locked"
NONE_AVAILABLE: Final = "com.microsoft:timeout"
TICKS_AT_EPOCH: Final = 621_355_968_000_000_000  # of 100 ns, from the year 1 to 1970
TICKS_PER_US: Final = 10
LISTED_MAX: Final = 1000
LOOK_SHIFT: Final = 4  # of the meter: message groups that are looked at, a point


# ---- links


def asks_for_session(filters: dict[str, object] | None) -> bool:
    """Return whether the filters of a source ask for one session."""
    return filters is not None and SESSION_FILTER in filters


def asked_session(filters: dict[str, object] | None) -> bytes | None:
    """Return the session that the filters of a source name; None for the next one that is free."""
    value = None if filters is None else filters.get(SESSION_FILTER)
    if isinstance(value, Described):
        value = value.value
    if isinstance(value, Symbol):
        value = value.text
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise RequestError(INVALID, f"attach: source: filter '{SESSION_FILTER}': {value!r:.100} must be a string")
    return session_name(value)


def lock_session(context: LinkContext, queue: Queue, session: bytes | None, until_us: i64) -> SessionLock:
    """Lock a session for a connection, or the next one that is free if none is named.

    raises  RequestError: CANNOT_BE_LOCKED, NONE_AVAILABLE
    """
    sessions = context.vhost.message_sessions_of(queue)
    if session is None:
        context.meter.take(i64(sessions.group_count()) >> LOOK_SHIFT)
        session = sessions.next_group()
        if session is None:
            name = text(queue.name)
            raise RequestError(NONE_AVAILABLE, f"queue '{name}': no session that is not locked has a message")
    made = sessions.lock(session, context.session.id, until_us)
    if made is None:
        raise RequestError(CANNOT_BE_LOCKED, f"session '{text(session)}' is locked by another receiver")
    return made


def give_session(context: LinkContext, link: SendingLink, lock: SessionLock) -> dict[str, object]:
    """Have a link receive the messages of its session alone; return the properties of the answer to its attach."""
    group = context.vhost.queue_of(link.consumer).groups.get(link.consumer.group)
    if not isinstance(group, WorkGroup):
        raise RequestError(NOT_IMPLEMENTED, f"queue '{text(link.consumer.queue_name)}' has no sessions")
    link.session_lock = lock
    select_group(group, link.consumer, lock.group)
    return {LOCKED_UNTIL: int(TICKS_AT_EPOCH + lock.until_us * TICKS_PER_US)}


# ---- requests


@final
class EntitySessions:
    """The requests about sessions of one queue, for one connection."""

    def __init__(self, context: LinkContext, queue: bytes) -> None:
        self.context = context
        self.vhost = context.vhost
        self.queue = queue

    def do(self, name: str, fields: dict[str, object]) -> Map | None:
        """Do an operation of this name; None if there is no such one."""
        if name == "get-message-sessions":
            return self.list_sessions(fields)
        if name not in ("renew-session-lock", "get-session-state", "set-session-state"):
            return None
        session = session_in(fields)
        if session is None:
            raise RequestError(INVALID, "field 'session-id': missing")
        sessions = self.vhost.message_sessions_of(self.vhost.queue(self.queue, ANY_SESSION))
        lock = self.find_lock(sessions, session)
        if name == "renew-session-lock":
            return self.renew(lock)
        if name == "get-session-state":
            return Map([("session-state", sessions.state(session))])
        return self.set_state(sessions, session, fields)

    def find_lock(self, sessions: QueueSessions, session: bytes) -> SessionLock:
        """Return this connection's lock of a session; RequestError(SESSION_LOST) if it has none."""
        lock = sessions.find_lock(session)
        if lock is None or lock.connection != self.context.session.id or lock.until_us <= self.vhost.now_us():
            raise RequestError(SESSION_LOST, f"session '{text(session)}' is not locked by this connection")
        return lock

    def find_link(self, lock: SessionLock) -> SendingLink:
        """Return the link that has a lock."""
        for link in self.context.receivers.values():
            if isinstance(link, SendingLink) and link.session_lock is lock:
                return link
        raise RequestError(SESSION_LOST, f"session '{text(lock.group)}': the link that had it has ended")

    def renew(self, lock: SessionLock) -> Map:
        """Renew a session's lock and those of its messages, and return until when they are."""
        consumer = self.find_link(lock).consumer
        lock.until_us = self.vhost.now_us() + consumer.timeout_us
        queue = self.vhost.queue(self.queue, ANY_SESSION)
        group = queue.groups.get(consumer.group)
        if isinstance(group, WorkGroup):
            for lease in group.leases.of_consumer(consumer):
                self.vhost.settlement.extend(lease, lease.first, lease.count, 0)
        return Map([("expiration", Timestamp(int(lock.until_us // US_PER_MS)))])

    def set_state(self, sessions: QueueSessions, session: bytes, fields: dict[str, object]) -> Map:
        """Keep a state for a session, or none."""
        state = fields.get("session-state")
        if state is not None and not isinstance(state, bytes):
            raise RequestError(INVALID, f"field 'session-state': {state!r:.100} must be binary, or null")
        if not sessions.queue.log.durable:
            name = text(self.queue)
            raise RequestError(PRECONDITION, f"queue '{name}' is not durable, and so are no states of its sessions")
        if state is not None and not self.vhost.take_room(octets_of_state(state)):
            raise RequestError(TOO_MANY, "the disk has no room")
        sessions.set_state(session, state)
        self.context.committed = True
        return Map([])

    def list_sessions(self, fields: dict[str, object]) -> Map:
        """Return sessions that have a state."""
        skip = number_in(fields, "skip")
        top = number_in(fields, "top")
        if skip < 0 or top < 1:
            raise RequestError(INVALID, "fields 'skip' and 'top': must be at least 0 and 1")
        sessions = self.vhost.message_sessions_of(self.vhost.queue(self.queue, ANY_SESSION))
        found = sessions.groups_with_state()[skip : skip + min(top, LISTED_MAX)]
        names: list[object] = [text(each) for each in found]
        return Map([("skip", skip + len(names)), ("sessions-ids", Array(STRING_32, names))])
