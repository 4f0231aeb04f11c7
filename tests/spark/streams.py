"""Streaming queries of tests: what they gave, batch by batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery

from tests.waiting import until

WAIT_S = 180  # a guard against a hang


class Collected:
    """A sink: the rows of each batch. A batch that runs again stands in for its first run, as in an idempotent sink."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.changed = threading.Condition()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.collect()
        with self.changed:
            self.batches[batch] = rows
            self.changed.notify_all()

    def rows(self) -> list[Row]:
        """All rows, in the order of their batches."""
        with self.changed:
            return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def values(self, queue: str | None = None) -> list[bytes]:
        """The bodies, of one queue or of all."""
        return [bytes(row["value"]) for row in self.rows() if queue is None or row["topic"] == queue]

    def offsets(self) -> list[int]:
        """The offsets in their order."""
        return sorted(row["offset"] for row in self.rows())

    def sizes(self) -> list[int]:
        """Rows of each batch that had any."""
        return [len(self.batches[batch]) for batch in sorted(self.batches) if self.batches[batch]]

    def wait(self, rows: int, query: StreamingQuery) -> None:
        """Wait until so many rows have come."""
        wait_until(lambda: len(self.rows()) >= rows, query, f"{rows} rows")
        assert len(self.rows()) == rows


def started(frame: DataFrame, sink: Collected, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """A running query."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def run(frame: DataFrame, sink: Collected, checkpoint: Path) -> StreamingQuery:
    """A query over what is there now; raises what it failed of."""
    query = started(frame, sink, checkpoint, availableNow=True)
    try:
        assert query.awaitTermination(WAIT_S)
    finally:
        query.stop()
    return query


def failure(query: StreamingQuery) -> str:
    """What a query fails of."""
    try:
        query.awaitTermination(WAIT_S)
    except StreamingQueryException as error:
        return str(error)
    raise AssertionError("the query did not fail")


def wait_until(holds: Callable[[], bool], query: StreamingQuery, what: str) -> None:
    """Wait for a condition, while the query runs."""

    def has_come() -> bool:
        assert query.isActive, query.exception()
        return holds()

    until(has_come, what, seconds=WAIT_S)


def end_offsets(query: StreamingQuery) -> dict[str, dict[str, Any]]:
    """How far the last batch has come, by queue."""
    progress = query.lastProgress
    assert progress is not None
    found: dict[str, dict[str, Any]] = json.loads(progress["sources"][0]["endOffset"])
    return found
