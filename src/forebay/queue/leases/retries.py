"""The retry policy: whether a returned record counts as failed, and how long it is delayed before the next delivery."""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

from forebay.queue.declaration.limits import RETRY_DISABLED, RETRY_FAILED, RETRY_RETURNED, Limits
from forebay.queue.leases.lease import FAILED, NACKED

GROWTH_MAX: Final = 60.0  # logarithm of the growth of a delay, beyond which every delay is the longest
TIMES_MAX: Final = 1 << 20


def is_failure(limits: Limits, how: i64) -> bool:
    """Return whether a record that came back by `how` counts for the delivery limit."""
    return how == FAILED or (how == NACKED and limits.nack_counts)


def retry_us(limits: Limits, how: i64, deliveries: i64, failures: i64) -> i64:
    """Return the delay of a record before it is delivered again, in µs; 0 for none.

    The delay grows with each time the record came back, linearly or by a factor, up to the longest.
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
