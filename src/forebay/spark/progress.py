"""The progress of a session's streaming queries: a table in a terminal, elsewhere a line for each micro-batch.

with forebay.spark.show_progress(spark):
    query.awaitTermination()
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql.streaming.listener import StreamingQueryListener
from rich.console import Console
from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from uuid import UUID

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )

PARTS_HEADING: Final = "parts of it"
PARTS_COLUMNS: Final = 100  # of a terminal that has room for them
REFRESH_S: Final = 0.5
NAME_CHARACTERS: Final = 8  # of the id of a query that has no name
# The parts of a micro-batch as Spark calls them, in their order, and as they are shown.
PARTS: Final = {
    "latestOffset": "look",
    "queryPlanning": "plan",
    "walCommit": "note",
    "addBatch": "work",
    "commitOffsets": "commit",
}
WHOLE: Final = "triggerExecution"


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch of one query.

    arriving, done  rows a second that came in since the batch before, and that this one dealt with
    lag             by queue: records that were there and not in it or a batch before
    parts_ms        how long its parts took, by PARTS
    state_rows      what aggregations, joins and the like keep
    watermark       "" where there is none
    """

    query: str
    number: int
    rows: int
    arriving: float
    done: float
    lag: Mapping[str, int]
    whole_ms: int
    parts_ms: Mapping[str, int]
    state_rows: int
    watermark: str

    def line(self) -> str:
        """The progress in words, for a log."""
        parts = ", ".join(f"{name} {ms:,}" for name, ms in self.parts_ms.items())
        said = [
            f"{self.query} batch {self.number}: {self.rows:,} rows in {self.whole_ms:,} ms ({parts})",
            f"{self.arriving:,.0f}/s in, {self.done:,.0f}/s done",
        ]
        if self.lag:
            said.append("lag " + lag_text(self.lag))
        if self.state_rows:
            said.append(f"state {self.state_rows:,} rows")
        if self.watermark:
            said.append(f"watermark {self.watermark}")
        return "; ".join(said)


def batch_of(progress: StreamingQueryProgress) -> MicroBatch:
    """The part of Spark's report on a micro-batch that is shown."""
    took = progress.durationMs
    lag: dict[str, int] = {}
    for source in progress.sources:
        for queue, count in lag_of(source).items():
            lag[queue] = lag.get(queue, 0) + count
    return MicroBatch(
        query=shown_name(progress.name, progress.id),
        number=progress.batchId,
        rows=progress.numInputRows,
        arriving=number_of(progress.inputRowsPerSecond),
        done=number_of(progress.processedRowsPerSecond),
        lag=lag,
        whole_ms=took.get(WHOLE, 0),
        parts_ms={shown: took[name] for name, shown in PARTS.items() if name in took},
        state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
        watermark=progress.eventTime.get("watermark", ""),
    )


def shown_name(name: str | None, query: UUID) -> str:
    """The name of a query, or what of its id tells it from others."""
    return name or str(query)[:NAME_CHARACTERS]


def number_of(rate: float) -> float:
    """A rate; 0 where Spark has none yet, which it writes as NaN."""
    return rate if rate == rate else 0.0  # noqa: PLR0124  NaN alone is not itself


def lag_of(source: SourceProgress) -> dict[str, int]:
    """Records between the end of a batch and what there was, by queue; empty of a source that does not say."""
    ends, latest = offsets(source.endOffset), offsets(source.latestOffset)
    return {queue: max(0, there - ends.get(queue, 0)) for queue, there in latest.items()}


def offsets(text: str | None) -> dict[str, int]:
    """Offsets by queue, from JSON as this source and Spark's Kafka source have it: {"queue": {"0": offset}}."""
    try:
        parsed = json.loads(text or "")
    except ValueError:
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {
        queue: sum(offset for partition, offset in each.items() if partition.isdigit())
        for queue, each in parsed.items()
        if isinstance(each, dict)
    }


def lag_text(lag: Mapping[str, int]) -> str:
    if len(lag) == 1:
        return f"{next(iter(lag.values())):,}"
    longest = sorted(lag.items(), key=lambda each: -each[1])
    return f"{sum(lag.values()):,} (" + ", ".join(f"{queue} {count:,}" for queue, count in longest) + ")"


class ProgressDisplay(StreamingQueryListener):
    """Shows each micro-batch until it is stopped. Spark calls it from a thread of its own."""

    def __init__(self, spark: SparkSession, console: Console) -> None:
        self.session = spark  # not `spark`: that is the base class's
        self.console = console
        self.lock = threading.Lock()
        self.batches: dict[str, MicroBatch] = {}  # the last one of each query, by the query's run
        self.names: dict[str, str] = {}
        self.ended: dict[str, str] = {}
        self.live: Live | None = None
        if console.is_terminal:
            self.live = Live(get_renderable=self.table, console=console, refresh_per_second=1 / REFRESH_S)
            self.live.start()
        spark.streams.addListener(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Show nothing more; what is shown stays."""
        self.session.streams.removeListener(self)
        if self.live is not None:
            self.live.stop()

    # ---- what Spark calls

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  PySpark's name
        """Keep the query's name: it may fail before its first batch."""
        with self.lock:
            self.names[str(event.runId)] = shown_name(event.name, event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  PySpark's name
        """A micro-batch has ended, or there was none for ten seconds."""
        batch = batch_of(event.progress)
        run = str(event.progress.runId)
        with self.lock:
            before = self.batches.get(run)
            self.batches[run] = batch
        is_new = before is None or before.number != batch.number or batch.rows > 0
        if self.live is None and is_new:
            self.console.print(batch.line(), highlight=False, soft_wrap=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  PySpark's name
        """Leave on the screen what is shown."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  PySpark's name
        """Note that the query was stopped, had nothing more to do, or failed."""
        run = str(event.runId)
        with self.lock:
            name = self.names.get(run) or shown_name(None, event.id)
            self.ended[run] = "failed" if event.exception else "ended"
        if self.live is None:
            first = (event.exception or "").strip().split("\n")[0]
            self.console.print(f"{name} {f'failed: {first}' if first else 'ended'}", highlight=False, soft_wrap=True)

    # ---- what is shown

    def table(self) -> Table:
        """A row for each query; columns that say nothing of any are left out, and on a narrow terminal the parts."""
        headings = ("query", "batch", "rows", "in/s", "done/s", "lag", "ms", PARTS_HEADING, "state", "watermark")
        with self.lock:
            shown = [(batch, self.ended.get(run, "")) for run, batch in self.batches.items()]
        rows = [cells_of(batch, ended) for batch, ended in shown]
        kept = [
            at
            for at, heading in enumerate(headings)
            if (not rows or any(cells[at] for cells in rows))
            and (heading != PARTS_HEADING or self.console.width >= PARTS_COLUMNS)
        ]
        made = Table()
        for at in kept:
            is_text = headings[at] in {"query", "lag", PARTS_HEADING, "watermark"}
            made.add_column(headings[at], justify="left" if is_text else "right")
        for cells, (_, ended) in zip(rows, shown, strict=True):
            style = "red" if ended == "failed" else "dim" if ended else None
            made.add_row(*(cells[at] for at in kept), style=style)
        return made


def cells_of(batch: MicroBatch, ended: str) -> tuple[str, ...]:
    """The row of a query, as `ProgressDisplay.table` heads it."""
    return (
        f"{batch.query} ({ended})" if ended else batch.query,
        f"{batch.number:,}",
        f"{batch.rows:,}",
        f"{batch.arriving:,.0f}",
        f"{batch.done:,.0f}",
        lag_text(batch.lag) if batch.lag else "",
        f"{batch.whole_ms:,}",
        " ".join(f"{name} {ms:,}" for name, ms in batch.parts_ms.items()),
        f"{batch.state_rows:,}" if batch.state_rows else "",
        batch.watermark,
    )


def show_progress(spark: SparkSession, console: Console | None = None) -> ProgressDisplay:
    """Show what the streaming queries of a session do, until `stop()` or the end of a `with`.

    console  where to; standard output by default
    """
    return ProgressDisplay(spark, console or Console())
