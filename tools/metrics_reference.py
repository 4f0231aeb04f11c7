"""docs/reference/metrics-reference.md: every metric, as the tables that are read for Prometheus have them."""

from __future__ import annotations

from collections.abc import Iterable

from forebay.admin.metrics.broker import ROWS, SPREADS, TIMINGS
from forebay.admin.metrics.family import Metric
from forebay.admin.metrics.objects import CHANNELS, CONNECTIONS, COUNTED, EXCHANGES, GROUPS, QUEUES, VHOSTS

INTRODUCTION = """\
This page lists all metrics with their types and meanings; [monitoring](../how-to/metrics.md) shows how to scrape
them. The group is what `/metrics/detailed?family=` takes. Counters start at 0 with the broker, and only grow.
"""
BOTH = "`/metrics` has the sum over all of them, gone ones included; per object they have these labels."
SUMS = "`/metrics` has the sum over all of them where that says something."


def table(metrics: Iterable[Metric]) -> str:
    """Rows of metrics."""
    rows = ["| metric | is | labels | group | meaning |", "|---|---|---|---|---|"]
    for each in metrics:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append(f"| `{each.written}` | {each.kind} | {labels} | `{each.group}` | {each.doc} |")
    return "\n".join(rows) + "\n"


def metrics_page(head: str) -> str:
    """The page."""
    parts = [head, "# Every metric\n", INTRODUCTION, "## The broker\n"]
    parts.append(table([row.metric for row in ROWS] + [spread.metric for spread in SPREADS]))
    parts.append("## How long things take\n\nOne bucket for each power of two, in microseconds or octets.\n")
    parts.append(table(timing.metric for timing in TIMINGS))
    parts.append("## A vhost\n\nLabel `vhost`, on every path.\n")
    parts.append(table(row.metric for row in VHOSTS))
    parts.append(f"## A queue\n\nLabels `vhost` and `queue`. {SUMS}\n")
    parts.append(table(row.metric for row in QUEUES))
    parts.append(f"## The messages of a queue\n\nLabels `vhost` and `queue`. {BOTH}\n")
    parts.append(table(row.metric for row in COUNTED))
    parts.append(f"## A group\n\nLabels `vhost`, `queue` and `group`. {SUMS}\n")
    parts.append(table(row.metric for row in GROUPS))
    parts.append("## An exchange\n\nLabels `vhost` and `exchange`, per object.\n")
    parts.append(table(row.metric for row in EXCHANGES))
    parts.append(f"## A connection\n\nLabels `connection`, `vhost` and `user`. {SUMS}\n")
    parts.append(table(row.metric for row in CONNECTIONS))
    parts.append(f"## A channel\n\nLabels `connection`, `channel` and `vhost`. {SUMS}\n")
    parts.append(table(row.metric for row in CHANNELS))
    return "\n".join(parts)
