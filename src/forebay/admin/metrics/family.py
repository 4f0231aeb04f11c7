"""A metric: its name, kind and meaning, and how it is read of an object.

Names are those of RabbitMQ where it has the metric, so that dashboards and alerts made for it work here; what only this
broker has begins with `forebay_`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

# Groups that /metrics/detailed is asked for; RabbitMQ's, then ours.
CHURN: Final = "connection_churn_metrics"
NODE: Final = "node_metrics"
NODE_COARSE: Final = "node_coarse_metrics"
PERSISTER: Final = "node_persister_metrics"
AUTH: Final = "auth_attempt_metrics"
QUEUE_COARSE: Final = "queue_coarse_metrics"
QUEUE_CONSUMERS: Final = "queue_consumer_count"
QUEUE: Final = "queue_metrics"
QUEUE_DELIVERY: Final = "queue_delivery_metrics"
EXCHANGE: Final = "exchange_metrics"
CONNECTION_COARSE: Final = "connection_coarse_metrics"
CONNECTION: Final = "connection_metrics"
CHANNEL: Final = "channel_metrics"
GLOBAL: Final = "global_metrics"
GROUP: Final = "group_metrics"
VHOST: Final = "vhost_metrics"
MQTT: Final = "mqtt_metrics"
LATENCY: Final = "latency_metrics"
LOG: Final = "log_metrics"
WEBHOOK: Final = "webhook_metrics"
CLUSTER: Final = "cluster_metrics"

Number = int | float
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    name    without `_total`, which the names of counters get when they are written
    labels  of its samples, beside those of the object that it is of
    """

    name: str
    kind: str
    doc: str
    group: str
    labels: tuple[str, ...] = ()

    @property
    def written(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


@dataclass(frozen=True, slots=True)
class Row(Generic[Read]):
    """A metric of each object of one kind, and how it is read; None: this object has none.

    combine  makes one number of those of all objects; None: they say nothing together, or another row does
    """

    metric: Metric
    read: Callable[[Read], Number | None]
    combine: Callable[[Number, Number], Number] | None = None


def plus(one: Number, other: Number) -> Number:
    """The sum: what most numbers of objects come to together."""
    return one + other


def counter(name: str, group: str, doc: str, labels: tuple[str, ...] = ()) -> Metric:
    """A metric that only grows."""
    return Metric(name, COUNTER, doc, group, labels)


def gauge(name: str, group: str, doc: str, labels: tuple[str, ...] = ()) -> Metric:
    """A metric that may also fall."""
    return Metric(name, GAUGE, doc, group, labels)


def histogram(name: str, group: str, doc: str) -> Metric:
    """A metric that is counted by size."""
    return Metric(name, HISTOGRAM, doc, group)


INTERNAL_ERRORS: Final = counter(
    "forebay_internal_errors",
    NODE,
    "Internal errors, by what each ended: a connection, an HTTP request, a callback.",
    ("where",),
)
