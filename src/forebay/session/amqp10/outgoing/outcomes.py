"""The outcomes that clients give deliveries (3.4), and what each means for the record in its queue.

accepted    settled
rejected    to the dead letters
released    back to the queue, which is no failure
modified    back to the queue, as a failure with `delivery-failed`; to the dead letters with `undeliverable-here`,
            as with RabbitMQ, and of a queue without any, as a failure; not before the annotation `x-opt-delivery-time`
none        settled without an outcome: the default outcome of the link, released if it has not asked for another
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.units import US_PER_MS
from forebay.session.shared.unsettled import (
    ACCEPT,
    BY_DEFAULT,
    REJECT,
    RETURN_FAILED,
    RETURN_UNTRIED,
    UNDELIVERABLE,
)
from forebay.wire.amqp10.states import Accepted, Modified, Rejected, Released
from forebay.wire.amqp10.values import Symbol, Timestamp

OUTCOMES: Final = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
DELIVERY_TIME: Final = Symbol("x-opt-delivery-time")


@final
class OutcomeEffect:
    """The effect of an outcome on records: `kind` is one of session/shared/unsettled.py.

    delay_ms  after which records may be delivered again, 0 for at once
    """

    def __init__(self, kind: i64, delay_ms: i64 = 0) -> None:
        self.kind: i64 = kind
        self.delay_ms: i64 = delay_ms


ACCEPTING: Final = OutcomeEffect(ACCEPT)
REJECTING: Final = OutcomeEffect(REJECT)
RETURNING: Final = OutcomeEffect(RETURN_UNTRIED)  # its delivery-count must not grow (3.4.4)
FAILING: Final = OutcomeEffect(RETURN_FAILED)
DEFAULTING: Final = OutcomeEffect(BY_DEFAULT)
PASSING_ON: Final = OutcomeEffect(UNDELIVERABLE)


def settle_how(state: object, is_settled: bool, now_us: i64) -> OutcomeEffect | None:
    """Return what a delivery state means; None if it is no outcome, and nothing is to be done yet."""
    if isinstance(state, Accepted):
        return ACCEPTING
    if isinstance(state, Released):
        return RETURNING
    if isinstance(state, Rejected):
        return REJECTING
    if isinstance(state, Modified):
        if state.undeliverable_here:
            return PASSING_ON
        kind = RETURN_FAILED if state.delivery_failed else RETURN_UNTRIED
        delay_ms = delay_of(state, now_us)
        if delay_ms > 0:
            return OutcomeEffect(kind, delay_ms)
        return FAILING if state.delivery_failed else RETURNING
    return DEFAULTING if is_settled else None


def delay_of(state: Modified, now_us: i64) -> i64:
    """Return the milliseconds until a modified message may be delivered again; 0 for at once."""
    if state.annotations is None:
        return 0
    time = state.annotations.get(DELIVERY_TIME)
    if not isinstance(time, Timestamp):
        return 0
    return max(0, time.value - int(now_us // US_PER_MS))
