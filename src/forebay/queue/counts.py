"""Counters of a queue's messages since the broker started."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

# Causes of a record's death.
REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
MAX_DELIVERIES: Final = "max_deliveries"
MAX_CANCELS: Final = "max_cancels"
FORCED_EXPIRE: Final = "forced_expire"
TIME_LIMIT: Final = "time_limit"  # AMPS's term for EXPIRED


def stated_reason(cause: str, is_amps: bool) -> str:
    """Return the reason that dead letters state for a cause, in AMPS's words or RabbitMQ's."""
    if cause == EXPIRED and is_amps:
        return TIME_LIMIT
    if cause == FORCED_EXPIRE and not is_amps:
        return EXPIRED
    return cause


@final
class Counts:
    """The counters of one queue, or sums of them. No counter ever falls.

    published          records accepted
    refused            publishes refused because the queue was full
    delivered, got     deliveries to consumers, and to clients that get one message at a time, with an acknowledgement
    to come
    delivered_settled, got_settled  the same deliveries, settled when sent
    redelivered        those of all these deliveries that were not the first
    acked              records acknowledged
    expired, dropped, rejected, limited  dead records: too old, too many, rejected by a consumer, failed too often. For
    a stream `expired` counts the records that a group has passed over, once for each group
    purged             records removed on request
    replaced           records of a last-value queue that a newer one of their key replaced
    """

    def __init__(self) -> None:
        self.published: i64 = 0
        self.refused: i64 = 0
        self.delivered: i64 = 0
        self.delivered_settled: i64 = 0
        self.got: i64 = 0
        self.got_settled: i64 = 0
        self.redelivered: i64 = 0
        self.acked: i64 = 0
        self.expired: i64 = 0
        self.dropped: i64 = 0
        self.rejected: i64 = 0
        self.limited: i64 = 0
        self.purged: i64 = 0
        self.replaced: i64 = 0

    def deliver(self, count: i64, settled: bool, again: bool) -> None:
        """Count `count` deliveries to a consumer. `again` says that they are redeliveries."""
        if settled:
            self.delivered_settled += count
        else:
            self.delivered += count
        if again:
            self.redelivered += count

    def get(self, settled: bool, again: bool) -> None:
        """Count one delivery to a client that asked for it."""
        if settled:
            self.got_settled += 1
        else:
            self.got += 1
        if again:
            self.redelivered += 1

    def die(self, cause: str, count: i64) -> None:
        """Count records that died of one cause."""
        if cause in (EXPIRED, TIME_LIMIT, FORCED_EXPIRE):
            self.expired += count
        elif cause == REJECTED:
            self.rejected += count
        elif cause == MAXLEN:
            self.dropped += count
        else:
            assert cause in (DELIVERY_LIMIT, MAX_DELIVERIES, MAX_CANCELS), cause
            self.limited += count

    def add(self, other: Counts) -> None:
        """Add the counters of another queue to this sum."""
        self.published += other.published
        self.refused += other.refused
        self.delivered += other.delivered
        self.delivered_settled += other.delivered_settled
        self.got += other.got
        self.got_settled += other.got_settled
        self.redelivered += other.redelivered
        self.acked += other.acked
        self.expired += other.expired
        self.dropped += other.dropped
        self.rejected += other.rejected
        self.limited += other.limited
        self.purged += other.purged
        self.replaced += other.replaced

    def sum(self) -> i64:
        """Return the sum of all counters. No counter falls, so equal sums mean equal counters."""
        moved = self.delivered + self.got + self.delivered_settled + self.got_settled + self.redelivered + self.acked
        dead = self.expired + self.dropped + self.rejected + self.limited + self.purged + self.replaced
        return self.published + self.refused + moved + dead

    def fields(self) -> dict[str, int]:
        """Return the counters by name."""
        return {
            "published": int(self.published),
            "refused": int(self.refused),
            "delivered": int(self.delivered),
            "delivered_settled": int(self.delivered_settled),
            "got": int(self.got),
            "got_settled": int(self.got_settled),
            "redelivered": int(self.redelivered),
            "acked": int(self.acked),
            "expired": int(self.expired),
            "dropped": int(self.dropped),
            "rejected": int(self.rejected),
            "limited": int(self.limited),
            "purged": int(self.purged),
            "replaced": int(self.replaced),
        }


@final
class SampledNumbers:
    """The numbers of a queue when it was last sampled. Before the first sample they match no queue."""

    def __init__(self) -> None:
        self.counts: i64 = -1
        self.ready: i64 = 0
        self.wanted: i64 = 0
        self.unacked: i64 = 0
        self.octets: i64 = 0

    def differ(self, counts: i64, ready: i64, wanted: i64, unacked: i64, octets: i64) -> bool:
        """Record these numbers, and return whether any of them changed."""
        if (
            counts == self.counts
            and ready == self.ready
            and wanted == self.wanted
            and unacked == self.unacked
            and octets == self.octets
        ):
            return False
        self.counts = counts
        self.ready = ready
        self.wanted = wanted
        self.unacked = unacked
        self.octets = octets
        return True
