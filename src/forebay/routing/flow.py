"""The messages that went through an exchange since the broker started."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class ExchangeCounts:
    """The counters of one exchange, or sums of them; none ever falls.

    published_in   messages published to it
    published_out  copies of them that went to queues and topic subscribers, by way of other exchanges too
    unroutable     of those that came in, led nowhere
    """

    def __init__(self) -> None:
        self.published_in: i64 = 0
        self.published_out: i64 = 0
        self.unroutable: i64 = 0

    def add(self, other: ExchangeCounts) -> None:
        """Take the other's counts into this sum."""
        self.published_in += other.published_in
        self.published_out += other.published_out
        self.unroutable += other.unroutable
