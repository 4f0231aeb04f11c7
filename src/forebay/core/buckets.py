"""Token buckets: how much of something may come a second, and how much at once after a rest."""

from __future__ import annotations

from forebay.core.units import US_PER_S


class Bucket:
    """A bucket that is full at first.

    rate   that flows in a second, above 0
    burst  that it holds at most
    """

    def __init__(self, rate: float, burst: float, now_us: int) -> None:
        self.rate = rate
        self.burst = burst
        self.level = burst
        self.seen_us = now_us

    def fill(self, now_us: int) -> None:
        """Let flow in what has come since the last time."""
        if now_us > self.seen_us:
            self.level = min(self.burst, self.level + (now_us - self.seen_us) * self.rate / US_PER_S)
            self.seen_us = now_us

    def take(self, now_us: int) -> bool:
        """Take one, if there is one."""
        self.fill(now_us)
        if self.level < 1:
            return False
        self.level -= 1
        return True

    def charge(self, count: float, now_us: int) -> float:
        """Take what has come already; in how many seconds that is paid, 0 if there was enough."""
        self.fill(now_us)
        self.level -= count
        return 0.0 if self.level >= 0 else -self.level / self.rate
