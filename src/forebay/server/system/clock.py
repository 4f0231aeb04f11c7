"""The system's clock as the inner layers see it."""

from __future__ import annotations

import time

from forebay.core.ports import Clock


class SystemClock(Clock):
    """Wall time that never goes back: leases and retention must not jump with the system's clock."""

    def __init__(self) -> None:
        self.offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000 + self.offset_us
