"""Shows the progress of a session's streaming queries: a table in a terminal, elsewhere a line for each micro-batch.

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
PARTS_COLUMNS: Final = 100  # terminal width from which the parts are shown
REFRESH_S: Final = 0.5
NAME_CHARACTERS: Final = 8  # how much of its id stands for a query without a name
# The parts of a micro-batch in their order: Spark's name and the name on the screen.
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

    arriving, done  rows per second that arrived since the batch before, and that this batch processed
    lag             records not read yet at the end of the batch, by queue
    parts_ms        duration of each part, by the names in PARTS
    state_rows      rows kept as state by aggregations, joins and the like
    watermark       "" if there is none
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
        """Return the progress as one line of text, for a log."""
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
    """Return the figures to show, taken from Spark's report on a micro-batch."""
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
    """Return the name of a query, or the first characters of its id if it has none."""
    return name or str(query)[:NAME_CHARACTERS]


def number_of(rate: float) -> float:
    """Return a rate, or 0 where Spark has none yet and reports NaN."""
    return rate if rate == rate else 0.0  # noqa: PLR0124  NaN alone is not itself


def lag_of(source: SourceProgress) -> dict[str, int]:
    """Return the number of records between a batch's end and the queue's latest offset, by queue.

    The result is empty if the source does not report offsets.
    """
    ends, latest = offsets(source.endOffset), offsets(source.latestOffset)
    return {queue: max(0, there - ends.get(queue, 0)) for queue, there in latest.items()}


def offsets(text: str | None) -> dict[str, int]:
    """Parse offsets by queue from the JSON that this source and Spark's Kafka source report: {"queue": {"0": offset}}.

    Returns an empty dict if the text is no such JSON.
    """
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
    """A display of each micro-batch of a session, until it is stopped.

    Spark calls its methods from a thread of its own.
    """

    def __init__(self, spark: SparkSession, console: Console) -> None:
        self.session = spark  # not `spark`: that is the base class's
        self.console = console
        self.lock = threading.Lock()
        self.batches: dict[str, MicroBatch] = {}  # the latest batch of each query, by the query's run id
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
        """Stop following the queries, and leave on the screen what is shown."""
        self.session.streams.removeListener(self)
        if self.live is not None:
            self.live.stop()

    # ---- called by Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  PySpark's name
        """Record the query's name, as the query may fail before its first batch."""
        with self.lock:
            self.names[str(event.runId)] = shown_name(event.name, event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  PySpark's name
        """Show a micro-batch that has ended, or that a query was idle for ten seconds."""
        batch = batch_of(event.progress)
        run = str(event.progress.runId)
        with self.lock:
            before = self.batches.get(run)
            self.batches[run] = batch
        is_new = before is None or before.number != batch.number or batch.rows > 0
        if self.live is None and is_new:
            self.console.print(batch.line(), highlight=False, soft_wrap=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  PySpark's name
        """Do nothing: the last batch stays on the screen."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  PySpark's name
        """Record and show that a query has ended or failed."""
        run = str(event.runId)
        with self.lock:
            name = self.names.get(run) or shown_name(None, event.id)
            self.ended[run] = "failed" if event.exception else "ended"
        if self.live is None:
            first = (event.exception or "").strip().split("\n")[0]
            self.console.print(f"{name} {f'failed: {first}' if first else 'ended'}", highlight=False, soft_wrap=True)

    # ---- display

    def table(self) -> Table:
        """Build the table, one row per query.

        Leave out columns that are empty in all rows, and the parts on a narrow terminal.
        """
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
    """Return the cells of a query's row, in the order of the headings in `ProgressDisplay.table`."""
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
    """Show the progress of a session's streaming queries until `stop()` or the end of a `with`.

    console  where to show it; standard output by default
    """
    return ProgressDisplay(spark, console or Console())
