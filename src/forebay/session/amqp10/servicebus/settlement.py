"""The outcomes that clients of Azure Service Bus give locked messages, by disposition or by request.

completed    accepted                        settled
abandoned    modified                        back to the queue, as a failure
released     released                        back to the queue, which is no failure
deferred     modified, undeliverable-here    stays in the queue, and is delivered by its sequence number alone
dead-letter  rejected                        to the queue's dead letters, with the client's reason and description
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.core.errors import PRECONDITION, RequestError
from forebay.queue.leases.lease import FAILED, UNTRIED
from forebay.queue.queue import Queue
from forebay.routing.exchange import text
from forebay.session.amqp10.servicebus.locks import MessageLock, PeekLocks, lock_of
from forebay.session.shared.unsettled import (
    ACCEPT,
    RETURN_FAILED,
    RETURN_UNTRIED,
    SETTLED,
    UnsettledDeliveries,
)
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.states import Accepted, Error, Modified, Rejected, Released
from forebay.wire.amqp10.values import Symbol

LOCK_LOST: Final = "com.microsoft:message-lock-lost"
LOST_TEXT: Final = "the lock of the message is lost: its time is over, or the link or connection that had it has ended"

COMPLETE: Final = 0
ABANDON: Final = 1
RELEASE: Final = 2
DEFER: Final = 3
DEAD_LETTER: Final = 4
HOW: Final = (ACCEPT, RETURN_FAILED, RETURN_UNTRIED, SETTLED, SETTLED)  # of a delivery, by kind

REASON: Final = "DeadLetterReason"
DESCRIPTION: Final = "DeadLetterErrorDescription"
DETAIL_CHARACTERS_MAX: Final = 4096
MARK_OCTETS_MAX: Final = 255
MISSING_MAX: Final = 256  # deliveries of one disposition that are answered though there are none
LOCK_SHIFT: Final = 3  # of the meter: locks that are settled a point


@final
class LockOutcome:
    """The end that a client wants for a locked message: `kind`, and for a dead letter the client's words."""

    def __init__(self, kind: i64, reason: str = "", description: str = "") -> None:
        self.kind: i64 = kind
        self.reason = reason[:DETAIL_CHARACTERS_MAX]
        self.description = description[:DETAIL_CHARACTERS_MAX]


def outcome_of(state: object, is_settled: bool) -> LockOutcome | None:
    """Return what a delivery state asks for; None if it is no outcome."""
    if isinstance(state, Accepted):
        return LockOutcome(COMPLETE)
    if isinstance(state, Modified):
        return LockOutcome(DEFER if state.undeliverable_here else ABANDON)
    if isinstance(state, Rejected):
        info = None if state.error is None else state.error.info
        return LockOutcome(DEAD_LETTER, detail(info, REASON), detail(info, DESCRIPTION))
    if isinstance(state, Released) or is_settled:
        return LockOutcome(RELEASE)
    return None


def detail(info: dict[str, object] | None, name: str) -> str:
    """Return a text of an error's info; "" if there is none."""
    value = None if info is None else info.get(name)
    if isinstance(value, Symbol):
        return value.text
    return value if isinstance(value, str) else ""


# ---- one lock


def settle_lock(vhost: VhostContract, locks: PeekLocks, lock: MessageLock, outcome: LockOutcome) -> None:
    """Settle a locked message.

    raises  RequestError, and it stays locked: LOCK_LOST, PRECONDITION if the queue has no dead letters, TOO_MANY if
            too many messages are deferred
    """
    if lock.is_lost():
        drop_lock(locks, lock)
        raise RequestError(LOCK_LOST, LOST_TEXT)
    if outcome.kind == DEAD_LETTER:
        move_to_dead_letters(vhost, lock, outcome)
    elif outcome.kind == DEFER:
        vhost.settlement.defer(lock.lease, lock.offset, UNTRIED)
    elif lock.deliveries is None and outcome.kind != COMPLETE:  # a deferred message is one until it is completed
        vhost.settlement.defer(lock.lease, lock.offset, FAILED if outcome.kind == ABANDON else UNTRIED)
    deliveries = lock.deliveries
    if deliveries is not None:
        deliveries.settle(lock.tag, lock.tag, HOW[outcome.kind])
        return
    locks.held.pop(lock.token, None)
    if outcome.kind == COMPLETE:
        vhost.settlement.ack(lock.lease, lock.offset, 1)


def drop_lock(locks: PeekLocks, lock: MessageLock) -> None:
    """Forget a lock that is lost."""
    if lock.deliveries is None:
        locks.held.pop(lock.token, None)
    else:
        lock.deliveries.settle(lock.tag, lock.tag, SETTLED)


def queue_of(vhost: VhostContract, lock: MessageLock) -> Queue:
    queue = vhost.find_queue(lock.lease.consumer.queue_name)
    if queue is None or queue.id != lock.lease.consumer.queue:
        raise RequestError(LOCK_LOST, LOST_TEXT)
    return queue


def move_to_dead_letters(vhost: VhostContract, lock: MessageLock, outcome: LockOutcome) -> None:
    """Move a message to the dead letters of its queue, with the client's reason and description as its headers."""
    queue = queue_of(vhost, lock)
    if not queue.limits.dlq and queue.limits.dead_letter_exchange is None:
        raise RequestError(PRECONDITION, f"queue '{text(queue.name)}' has no dead letters: declare it with x-dlq")
    added: list[tuple[str, object]] = []
    if outcome.reason:
        added.append((REASON, outcome.reason))
    if outcome.description:
        added.append((DESCRIPTION, outcome.description))
    mark = outcome.reason.encode()
    vhost.reject_for(lock.lease, lock.offset, mark if len(mark) <= MARK_OCTETS_MAX else b"", added)


# ---- dispositions


@final
class SettledRange:
    """Deliveries that are answered alike: their tags, and the encoded state."""

    def __init__(self, first: i64, state: bytes) -> None:
        self.first: i64 = first
        self.last: i64 = first
        self.state = state


def settle_dispositions(
    vhost: VhostContract,
    locks: PeekLocks,
    deliveries: UnsettledDeliveries,
    first: i64,
    last: i64,
    outcome: LockOutcome,
    state: bytes,
) -> list[SettledRange]:
    """Settle the unsettled deliveries with tags from `first` to `last`, and return how each is answered.

    state  encoded: the answer to what can be done
    """
    answers: list[SettledRange] = []
    lost = encode_value(Rejected(Error(LOCK_LOST, LOST_TEXT)))
    next_tag = first
    for start, stop in deliveries.unsettled_ranges(first, last):
        add_missing(answers, next_tag, start, lost)
        for tag in range(start, stop + 1):
            lock = lock_of(deliveries, tag)
            answer = lost
            if lock is not None:
                try:
                    settle_lock(vhost, locks, lock, outcome)
                    answer = state
                except RequestError as error:
                    if error.reason != LOCK_LOST:
                        answer = encode_value(Rejected(Error(condition_of_refusal(error), error.text)))
            add_answer(answers, tag, answer)
        next_tag = stop + 1
    add_missing(answers, next_tag, last + 1, lost)
    return answers


def condition_of_refusal(error: RequestError) -> str:
    return "amqp:precondition-failed" if error.reason == PRECONDITION else "amqp:resource-limit-exceeded"


def add_missing(answers: list[SettledRange], start: i64, stop: i64, state: bytes) -> None:
    """Answer deliveries that are settled already, unless these are many."""
    if stop - start <= MISSING_MAX:
        for tag in range(start, stop):
            add_answer(answers, tag, state)


def add_answer(answers: list[SettledRange], tag: i64, state: bytes) -> None:
    """Answer one delivery, together with those before it if they are answered alike."""
    if answers and answers[len(answers) - 1].last == tag - 1 and answers[len(answers) - 1].state == state:
        answers[len(answers) - 1].last = tag
    else:
        answers.append(SettledRange(tag, state))
