"""How long a record that was given back rests before it may be handed out again."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.queue.limits import RETRY_ALL, RETRY_DISABLED, RETRY_FAILED, RETRY_RETURNED, Limits

DOUBLINGS_MAX: Final = 40  # beyond it every delay is the longest


def retry_us(limits: Limits, failed: bool, deliveries: i64, failures: i64) -> i64:
    """For how long it does, 0 if not at all.

    The delay grows with each time that the record came back, linearly or doubling, up to the longest.
    """
    wanted = limits.retry_type
    if wanted == RETRY_DISABLED or limits.retry_min_us <= 0:
        return 0
    if wanted not in (RETRY_ALL, RETRY_FAILED if failed else RETRY_RETURNED):
        return 0
    times = max(failures if failed else deliveries, 1)
    delay_us = limits.retry_min_us
    if limits.retry_exponential:
        for _ in range(min(times - 1, DOUBLINGS_MAX)):
            delay_us = min(delay_us * 2, limits.retry_max_us)
    else:
        delay_us = min(delay_us * min(times, 1 << 20), limits.retry_max_us)
    return min(delay_us, limits.retry_max_us)
