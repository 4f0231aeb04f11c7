"""One look at the broker as a whole, and how metrics of it are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forebay.admin.metrics.family import Metric, Number
from forebay.core.metrics import Totals
from forebay.queue.counts import Counts
from forebay.routing.flow import ExchangeCounts
from forebay.server.broker_view import BrokerView
from forebay.server.readings import ClientsReading, IntakeReading, LoadReading, LogReading
from forebay.server.telemetry.histograms import Histogram
from forebay.session.traffic import Traffic


@dataclass(frozen=True, slots=True)
class MetricsLook:
    """The sums that one look at the broker has found; they include what is gone since the start.

    counts, flow  of all queues and exchanges
    moved         dead letters, by why they died
    cluster       as it tells of itself; empty where the broker stands alone
    """

    app: BrokerView
    now_us: int
    log: LogReading
    intake: IntakeReading
    load: LoadReading
    clients: ClientsReading
    totals: Totals
    traffic: Traffic
    counts: Counts
    flow: ExchangeCounts
    moved: Counts
    queues: int
    queues_gone: int
    queues_at_start: int
    consumers: int
    channels: int
    took_s: float
    cluster: dict[str, object]


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric with several samples: how their labels' values and their numbers are found."""

    metric: Metric
    read: Callable[[MetricsLook], dict[tuple[str, ...], Number]]


@dataclass(frozen=True, slots=True)
class Timing:
    """A metric that is a histogram, None where a broker has none; `scale` makes its unit of what is recorded."""

    metric: Metric
    read: Callable[[BrokerView], Histogram | None]
    scale: float
