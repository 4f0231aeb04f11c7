"""Histograms of times and amounts, with one bucket for each power of two.

Recording is an index and an addition, for it happens in every turn. The last minute is what has come since the
snapshot of a minute ago.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from time import monotonic_ns
from typing import Final

from forebay.queue.leases.lease import Delivery

BUCKETS: Final = 32
SNAPSHOT_S: Final = 5
MINUTE_S: Final = 60
QUANTILES: Final = (0.5, 0.9, 0.99)
NANOSECONDS: Final = 1000  # a microsecond


class Histogram:
    """Counts of values by size: bucket k holds those from 2^(k-1) to below 2^k, bucket 0 the zeros, the last the rest.

    counts  one for each bucket
    total   sum of all values
    unit    "us" or "octets"
    """

    __slots__ = ("counts", "past", "total", "unit")

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.counts = [0] * BUCKETS
        self.total = 0
        self.past: deque[tuple[list[int], int]] = deque(maxlen=MINUTE_S // SNAPSHOT_S + 1)

    def record(self, value: int) -> None:
        """Count one value, not below 0."""
        bucket = value.bit_length()
        self.counts[bucket if bucket < BUCKETS else BUCKETS - 1] += 1
        self.total += value

    def keep(self) -> None:
        """Take a snapshot; due every `SNAPSHOT_S`."""
        self.past.append((self.counts.copy(), self.total))

    def last_minute(self) -> tuple[list[int], int]:
        """Return the counts and the sum of the last minute, or since the start if that is less."""
        if len(self.past) < MINUTE_S // SNAPSHOT_S + 1:
            return self.counts.copy(), self.total
        counts, total = self.past[0]
        return [now - then for now, then in zip(self.counts, counts, strict=True)], self.total - total

    def fields(self) -> dict[str, object]:
        """Return the fields for people: count, mean and quantiles, since the start and in the last minute."""
        counts, total = self.last_minute()
        return {
            "unit": self.unit,
            "total": summary(self.counts, self.total),
            "minute": summary(counts, total),
            "bounds": [bound(bucket) for bucket in range(BUCKETS - 1)],
            "counts": self.counts.copy(),
            "minute_counts": counts,
        }


def bound(bucket: int) -> int:
    """Return the largest value of a bucket other than the last."""
    return (1 << bucket) - 1


def summary(counts: list[int], total: int) -> dict[str, float]:
    """Return the count, the mean, and the quantiles as far as the buckets tell."""
    count = sum(counts)
    found: dict[str, float] = {"count": count, "mean": total / count if count else 0.0}
    for quantile in QUANTILES:
        found[f"p{quantile * 100:.0f}"] = quantile_of(counts, quantile)
    return found


def quantile_of(counts: list[int], quantile: float) -> float:
    """Return the value below which this share of all values lies, assuming an even spread within each bucket."""
    wanted = quantile * sum(counts)
    below = 0
    for bucket, count in enumerate(counts):
        if count and below + count >= wanted:
            least = (1 << bucket) >> 1
            return least + (wanted - below) / count * (bound(bucket) - least)
        below += count
    return 0.0


class Histograms:
    """The server's measurements of itself.

    turn      a turn of the loop, from the first connection that had something to the last that was written
    commit    octets that one write and sync took to the disk
    sync      one fdatasync
    wait      from when a commit is given to the disk to when it is back
    confirm   from when a publish that somebody waits for came in to when it is on the disk; the first of each turn
    delivery  from publish to delivery; the first of each turn
    replicate  from when a commit is given to the own disk to when all nodes in sync have it; nothing on a single one
    """

    def __init__(self) -> None:
        self.turn = Histogram("us")
        self.commit = Histogram("octets")
        self.sync = Histogram("us")
        self.wait = Histogram("us")
        self.confirm = Histogram("us")
        self.delivery = Histogram("us")
        self.replicate = Histogram("us")
        self.turn_ns = 0  # start of the present turn
        self.commit_ns = 0
        self.unconfirmed: deque[tuple[int, int]] = deque()  # (lsn, when its turn began), ascending
        self.shipped: deque[tuple[int, int]] = deque()  # (lsn, when it was given to the disk), ascending
        self.lock = Lock()  # files are synced by two threads

    def all(self) -> dict[str, Histogram]:
        """Return all histograms by name."""
        return {
            "turn": self.turn,
            "commit": self.commit,
            "sync": self.sync,
            "wait": self.wait,
            "confirm": self.confirm,
            "delivery": self.delivery,
            "replicate": self.replicate,
        }

    def begin_turn(self) -> None:
        """Note the time at which a turn's first connection has something to do."""
        self.turn_ns = monotonic_ns()

    def end_turn(self) -> None:
        """Record the duration of the turn: all connections are written to."""
        self.turn.record((monotonic_ns() - self.turn_ns) // NANOSECONDS)

    def begin_commit(self, octets: int) -> None:
        """Record the size of a commit, and the time at which it goes to the disk."""
        self.commit.record(octets)
        self.commit_ns = monotonic_ns()

    def end_commit(self) -> None:
        """Note that the commit is back."""
        self.wait.record((monotonic_ns() - self.commit_ns) // NANOSECONDS)

    def ship(self, lsn: int) -> None:
        """Note the time at which frames up to `lsn` leave for the local disk and the other nodes."""
        self.shipped.append((lsn, monotonic_ns()))

    def replicating_us(self) -> int:
        """Return the age, in microseconds, of the oldest commit that some in-sync node lacks; 0 if none does."""
        return (monotonic_ns() - self.shipped[0][1]) // NANOSECONDS if self.shipped else 0

    def on_committed(self, lsn: int) -> None:
        """Record the replication time of the frames up to `lsn`: all in-sync nodes have them."""
        now_ns = monotonic_ns()
        while self.shipped and self.shipped[0][0] <= lsn:
            self.replicate.record((now_ns - self.shipped.popleft()[1]) // NANOSECONDS)

    def deliver(self, delivery: Delivery, now_us: int) -> None:
        """Record the delay of a delivery from a queue. Topic subscribers' messages have not waited anywhere."""
        if delivery.consumer.queue > 0:
            self.delivery.record(max(0, now_us - int(delivery.block.timestamp_us(delivery.index))))

    def await_disk(self, lsn: int) -> None:
        """Note that a publisher of this turn waits for the confirm until `lsn` is durable."""
        waiting = self.unconfirmed
        if not waiting or waiting[-1][0] < lsn:
            waiting.append((lsn, self.turn_ns))

    def on_durable(self, lsn: int) -> None:
        """Note that everything up to `lsn` is on the disk."""
        waiting = self.unconfirmed
        if waiting and waiting[0][0] <= lsn:
            now_ns = monotonic_ns()
            while waiting and waiting[0][0] <= lsn:
                self.confirm.record((now_ns - waiting.popleft()[1]) // NANOSECONDS)

    def synced(self, began_ns: int) -> None:
        """Record the sync of a file that took from `began_ns` to now. Any thread may call this."""
        took_us = (monotonic_ns() - began_ns) // NANOSECONDS
        with self.lock:
            self.sync.record(took_us)

    def every_second(self, second: int) -> None:
        """Take the snapshots by which the last minute is found, when they are due."""
        if second % SNAPSHOT_S == 0:
            for histogram in self.all().values():
                histogram.keep()
