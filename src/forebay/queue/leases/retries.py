"""Records that come back: whether that is a failure, and how long they rest before the next try."""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

from forebay.queue.declaration.limits import RETRY_DISABLED, RETRY_FAILED, RETRY_RETURNED, Limits
from forebay.queue.leases.lease import FAILED, NACKED

GROWTH_MAX: Final = 60.0  # logarithm of how much a delay may have grown: beyond that every delay is the longest
TIMES_MAX: Final = 1 << 20


def is_failure(limits: Limits, how: i64) -> bool:
    """True if the delivery limit counts that a record came back in this way."""
    return how == FAILED or (how == NACKED and limits.nack_counts)


def retry_us(limits: Limits, how: i64, deliveries: i64, failures: i64) -> i64:
    """The time for which a record rests; 0 if it does not.

    The delay grows with each time that the record came back, linearly or by a factor, up to the longest.
    """
    wanted = limits.retry_type
    if wanted == RETRY_DISABLED or limits.retry_min_us <= 0:
        return 0
    failed = is_failure(limits, how)
    if wanted == RETRY_FAILED and not failed:
        return 0
    if wanted == RETRY_RETURNED and how == FAILED:
        return 0
    times = max(failures if failed else deliveries, 1)
    if not limits.retry_exponential:
        return min(limits.retry_min_us * min(times, TIMES_MAX), limits.retry_max_us)
    growth = float(min(times - 1, TIMES_MAX)) * math.log(limits.retry_factor)
    if growth > GROWTH_MAX:
        return limits.retry_max_us
    delay_us = float(limits.retry_min_us) * math.exp(growth)
    return limits.retry_max_us if delay_us >= float(limits.retry_max_us) else i64(int(delay_us + 0.5))
