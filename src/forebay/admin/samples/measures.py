"""The numbers that RabbitMQ has no names for: deaths, sizes, octets, the times of confirms and deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from forebay.admin.samples.samples import UNKNOWN, Numbers, Series
from forebay.queue.counts import Counts
from forebay.queue.queue import Queue
from forebay.server.broker_view import BrokerView
from forebay.server.telemetry.histograms import Histograms, quantile_of

DEATHS: Final = ("rejected", "expired", "dropped", "limited", "refused")
OCTETS: Final = ("recv_oct", "send_oct", "written_oct")
# Histograms, and the quantiles of them that are shown.
TIMES: Final = (
    ("confirm", 0.5, "confirm_p50_us"),
    ("confirm", 0.99, "confirm_p99_us"),
    ("delivery", 0.5, "delivery_p50_us"),
    ("delivery", 0.99, "delivery_p99_us"),
    ("sync", 0.99, "sync_p99_us"),
    ("turn", 0.99, "turn_p99_us"),
)


class SampledTimes:
    """The quantiles of what histograms have counted between two looks at them."""

    def __init__(self, histograms: Histograms) -> None:
        self.histograms = histograms
        self.before: dict[str, list[int]] = {}

    def since_last(self) -> list[int]:
        """The numbers that TIMES names, in microseconds; UNKNOWN where nothing came."""
        found = self.histograms.all()
        grown: dict[str, list[int]] = {}
        for name in {name for name, _, _ in TIMES}:
            now = found[name].counts.copy()
            before = self.before.get(name)
            grown[name] = now if before is None else [new - old for new, old in zip(now, before, strict=True)]
            self.before[name] = now
        return [round(quantile_of(grown[name], part)) if any(grown[name]) else UNKNOWN for name, part, _ in TIMES]


def deaths(counts: Counts) -> list[int]:
    """The numbers that DEATHS names."""
    return [int(counts.rejected), int(counts.expired), int(counts.dropped), int(counts.limited), int(counts.refused)]


def more_of_queue(queue: Queue) -> list[int]:
    """The size of a queue's log, and its deaths."""
    return [int(queue.stored_octets()), *deaths(queue.counts)]


def octets(app: BrokerView) -> list[int]:
    """The numbers that OCTETS names."""
    totals = app.readings.totals()
    return [totals.octets_received, totals.octets_sent, app.histograms.commit.total]


def flow_of(series: Series, channels: Iterable[tuple[Series, Numbers]], first: int) -> list[int]:
    """A connection's own counts of messages: those before, from number `first` on, and the growth of its channels.

    A channel that is closed keeps its part; one with less than before is another of the same number.
    """
    total = list(series.numbers[-1][first:]) if series.numbers else []
    for channel, numbers in channels:
        total = total or [0] * len(numbers)
        before = channel.numbers[-1] if channel.numbers else None
        if before is None or any(new < old for new, old in zip(numbers, before, strict=True)):
            grown = list(numbers)
        else:
            grown = [new - old for new, old in zip(numbers, before, strict=True)]
        total = [old + new for old, new in zip(total, grown, strict=True)]
    return total
