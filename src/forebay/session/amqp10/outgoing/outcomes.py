"""The outcomes that clients give deliveries (3.4), and what each means for the record in its queue.

accepted    settled
rejected    to the dead letters
released    back to the queue, which is no failure
modified    back to the queue, as a failure with `delivery-failed`, and with its annotations; not to this consumer again
            with `undeliverable-here`; not before the annotation `x-opt-delivery-time`
none        settled without an outcome: the default outcome of the link, released if it has not asked for another
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.units import US_PER_MS
from forebay.session.shared.unsettled import (
    ACCEPT,
    BY_DEFAULT,
    REFUSE_FAILED,
    REFUSE_UNTRIED,
    REJECT,
    RETURN_FAILED,
    RETURN_UNTRIED,
    UnsettledDeliveries,
)
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.states import Accepted, Modified, Rejected, Released
from forebay.wire.amqp10.values import Symbol, Timestamp

OUTCOMES: Final = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
DELIVERY_TIME: Final = Symbol("x-opt-delivery-time")


@final
class OutcomeEffect:
    """The effect of an outcome on records: `kind` is one of session/shared/unsettled.py.

    delay_ms     after which records may be delivered again, 0 for at once
    annotations  encoded map of message annotations that records get; b"" for none
    """

    def __init__(self, kind: i64, delay_ms: i64 = 0, annotations: bytes = b"") -> None:
        self.kind: i64 = kind
        self.delay_ms: i64 = delay_ms
        self.annotations = annotations

    def apply(self, deliveries: UnsettledDeliveries, first: i64, last: i64) -> None:
        """Settle the unsettled deliveries with tags from `first` to `last`."""
        if self.annotations:
            deliveries.modify(first, last, self.annotations)
        deliveries.settle(first, last, self.kind, self.delay_ms)


ACCEPTING: Final = OutcomeEffect(ACCEPT)
REJECTING: Final = OutcomeEffect(REJECT)
RETURNING: Final = OutcomeEffect(RETURN_UNTRIED)  # its delivery-count must not grow (3.4.4)
DEFAULTING: Final = OutcomeEffect(BY_DEFAULT)


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
            kind = REFUSE_FAILED if state.delivery_failed else REFUSE_UNTRIED
        else:
            kind = RETURN_FAILED if state.delivery_failed else RETURN_UNTRIED
        return OutcomeEffect(kind, delay_of(state, now_us), annotations_of(state))
    return DEFAULTING if is_settled else None


def annotations_of(state: Modified) -> bytes:
    """Return the encoded annotations of an outcome that are for the message; b"" if there are none."""
    given = state.annotations
    if given is None or not given.pairs:
        return b""
    return encode_value(given)


def delay_of(state: Modified, now_us: i64) -> i64:
    """Return the milliseconds until a modified message may be delivered again; 0 for at once."""
    if state.annotations is None:
        return 0
    time = state.annotations.get(DELIVERY_TIME)
    if not isinstance(time, Timestamp):
        return 0
    return max(0, time.value - int(now_us // US_PER_MS))
