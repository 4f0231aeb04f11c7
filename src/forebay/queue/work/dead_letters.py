"""The records of a work group that died and are neither moved nor settled yet."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.work.attempts import deliveries_in, failures_in


@final
class DeadLetterRun:
    """Records [first, first + count) that died of one cause, with equal numbers of deliveries and failures.

    octets  bytes of their bodies, once a move was tried in vain; 0 before
    """

    def __init__(self, first: i64, count: i64, cause: str, deliveries: i64, failures: i64, octets: i64 = 0) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.cause = cause
        self.deliveries: i64 = deliveries
        self.failures: i64 = failures
        self.octets: i64 = octets


@final
class DeadLetterBacklog:
    """Dead letters that wait to be moved.

    runs   runs that nobody is moving, in the order in which they died
    count  number of records, including those being moved
    """

    def __init__(self) -> None:
        self.runs: list[DeadLetterRun] = []
        self.count: i64 = 0

    def octets(self) -> i64:
        """Return the bytes of the bodies of the dead letters whose move was tried in vain."""
        octets: i64 = 0
        for run in self.runs:
            octets += run.octets
        return octets

    def add(self, first: i64, count: i64, cause: str, attempts: i64) -> None:
        """Add records that died, with their attempts (see `Attempts`)."""
        self.count += count
        deliveries = deliveries_in(attempts)
        failures = failures_in(attempts)
        last = self.runs[len(self.runs) - 1] if self.runs else None
        follows = last is not None and last.first + last.count == first and last.cause == cause
        if last is not None and follows and last.deliveries == deliveries and last.failures == failures:
            last.count += count
            return
        self.runs.append(DeadLetterRun(first, count, cause, deliveries, failures))
