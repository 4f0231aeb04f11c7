"""Metrics as text: Prometheus's format 0.0.4, and OpenMetrics 1.0.0 for who asks for it.

The two differ in how a counter's family is named, and in the end of the document.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.admin.metrics.family import COUNTER, Metric, Number
from forebay.server.telemetry.histograms import BUCKETS, Histogram, bound

PLAIN_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def wants_open_metrics(accept: str) -> bool:
    """True if who sends this Accept header reads OpenMetrics."""
    return "application/openmetrics-text" in accept


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a sample, and how they stand behind its name."""

    pairs: tuple[tuple[str, str], ...]
    text: str


UNLABELLED: Final = Labels((), "")
Samples = Sequence[tuple[Labels, Number]]


def labelled(names: Sequence[str], values: Sequence[str]) -> Labels:
    """Labels of these names."""
    pairs = tuple(zip(names, values, strict=True))
    if not pairs:
        return UNLABELLED
    return Labels(pairs, "{" + ",".join([f'{name}="{escaped(value)}"' for name, value in pairs]) + "}")


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Sink(ABC):
    """The text that metrics are written to."""

    @abstractmethod
    def add(self, metric: Metric, samples: Samples) -> None:
        """A family with its samples; one that is there already is not written again."""

    @abstractmethod
    def more(self, metric: Metric, samples: Samples) -> None:
        """Further samples of the family that was added last."""

    @abstractmethod
    def add_histogram(self, metric: Metric, measured: Histogram, scale: float) -> None:
        """A histogram, of which `scale` makes the metric's unit."""


class Text(Sink):
    """The document while it is written: each family once, with all its samples.

    prefix  put behind the first word of the names: `rabbitmq_` becomes `rabbitmq_detailed_`
    """

    def __init__(self, open_metrics: bool, prefix: str = "") -> None:
        self.open_metrics = open_metrics
        self.prefix = prefix
        self.parts: list[str] = []
        self.seen: set[str] = set()

    def named(self, name: str) -> str:
        """A metric's name in this document."""
        if not self.prefix:
            return name
        first, _, rest = name.partition("_")
        return f"{first}_{self.prefix}{rest}"

    def add(self, metric: Metric, samples: Samples) -> None:
        if samples and self.head(metric):
            self.more(metric, samples)

    def more(self, metric: Metric, samples: Samples) -> None:
        name = self.named(metric.written)
        self.parts.append("".join([f"{name}{labels.text} {value}\n" for labels, value in samples]))

    def head(self, metric: Metric) -> bool:
        """Write what comes before the samples; False for a family that is there already."""
        if metric.name in self.seen:
            return False
        self.seen.add(metric.name)
        is_plain_counter = metric.kind == COUNTER and not self.open_metrics
        name = self.named(metric.written if is_plain_counter else metric.name)
        self.parts.append(f"# HELP {name} {metric.doc}\n# TYPE {name} {metric.kind}\n")
        return True

    def add_histogram(self, metric: Metric, measured: Histogram, scale: float) -> None:
        if not self.head(metric):
            return
        name = self.named(metric.name)
        counts = measured.counts.copy()
        total = measured.total
        lines: list[str] = []
        below = 0  # buckets are cumulative here
        for bucket in range(BUCKETS - 1):
            below += counts[bucket]
            lines.append(f'{name}_bucket{{le="{bound(bucket) / scale}"}} {below}\n')
        count = sum(counts)
        lines.append(f'{name}_bucket{{le="+Inf"}} {count}\n{name}_sum {total / scale}\n{name}_count {count}\n')
        self.parts.append("".join(lines))

    def document(self) -> bytes:
        """All of it."""
        if self.open_metrics:
            self.parts.append("# EOF\n")
        return "".join(self.parts).encode()

    @property
    def content_type(self) -> str:
        """The content type of the document."""
        return OPEN_TYPE if self.open_metrics else PLAIN_TYPE
