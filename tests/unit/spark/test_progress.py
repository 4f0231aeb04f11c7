"""What is shown of what Spark says of a micro-batch."""

from __future__ import annotations

import io
import json
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from rich.console import Console

from forebay.spark.progress import ProgressDisplay, batch_of, lag_of, offsets

RATES = {"inputRowsPerSecond": 1234.5, "processedRowsPerSecond": 2345.6}
SOURCE: dict[str, Any] = {
    "description": "forebay",
    "startOffset": "{}",
    "endOffset": json.dumps({"b": {"0": 90, "id": 7, "group": "spark-x"}, "a": {"0": 5, "id": 1, "group": "spark-x"}}),
    "latestOffset": json.dumps({"b": {"0": 1190}, "a": {"0": 25}}),
    "numInputRows": 5000,
    "metrics": {},
    **RATES,
}
PROGRESS: dict[str, Any] = {
    "id": "5fbbd4f6-6b0c-4ee9-8d4b-2f0f6b3f5d10",
    "runId": "0d5c4e0c-1d0c-4cc1-9d52-2d5d2f4a2c11",
    "name": "flights",
    "timestamp": "2026-11-21T12:00:00.000Z",
    "batchId": 12,
    "batchDuration": 210,
    "durationMs": {"addBatch": 150, "latestOffset": 20, "triggerExecution": 210, "getBatch": 1, "walCommit": 15},
    "eventTime": {"watermark": "2013-05-01T00:00:00.000Z"},
    "stateOperators": [],
    "sources": [SOURCE],
    "sink": {"description": "noop", "numOutputRows": -1, "metrics": {}},
    "numInputRows": 5000,
    "observedMetrics": {},
    **RATES,
}


def progress(**changed: Any) -> StreamingQueryProgress:
    return StreamingQueryProgress.fromJson({**PROGRESS, **changed})


def test_a_batch_in_one_line() -> None:
    assert batch_of(progress()).line() == (
        "flights batch 12: 5,000 rows in 210 ms (look 20, note 15, work 150); 1,234/s in, 2,346/s done; "
        "lag 1,120 (b 1,100, a 20); watermark 2013-05-01T00:00:00.000Z"
    )


def test_a_query_without_name_lag_and_rates() -> None:
    first = batch_of(progress(name=None, sources=[], eventTime={}, inputRowsPerSecond=float("nan")))
    assert first.line() == "5fbbd4f6 batch 12: 5,000 rows in 210 ms (look 20, note 15, work 150); 0/s in, 2,346/s done"


def test_the_lag_of_a_source() -> None:
    def lag(end: object, latest: object) -> dict[str, int]:
        source = {**SOURCE, "endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}
        return lag_of(progress(sources=[source]).sources[0])

    assert lag({"q": {"0": 5}}, {"q": {"0": 5}}) == {"q": 0}
    assert lag({}, {"q": {"0": 5}}) == {"q": 5}  # it joined
    assert lag({"q": {"0": 9}}, {"q": {"0": 5}}) == {"q": 0}  # deleted and made anew
    assert lag({"t": {"0": 1, "1": 2}}, {"t": {"0": 4, "1": 4}}) == {"t": 5}  # Kafka's
    assert lag(17, 23) == {}
    assert lag({"q": {"0": 5}}, None) == {}
    assert offsets(None) == {}
    assert offsets("no JSON") == {}


class Streams:
    """Of a session, what a display needs."""

    def __init__(self) -> None:
        self.streams = self
        self.listeners: list[object] = []
        self.addListener = self.listeners.append
        self.removeListener = self.listeners.remove


def test_the_table_has_a_row_for_each_query() -> None:
    spark: Any = Streams()
    out = io.StringIO()
    console = Console(file=out, width=150, force_terminal=True, color_system=None)
    with ProgressDisplay(spark, console) as display:
        assert spark.listeners == [display]
        first = batch_of(progress())
        display.batches = {"1": first, "2": batch_of(progress(name="other", sources=[]))}
        display.ended = {"2": "failed"}
        console.print(display.table())
    assert spark.listeners == []
    text = out.getvalue()
    assert (
        "│ flights        │    12 │ 5,000 │ 1,234 │  2,346 │ 1,120 (b 1,100, a 20) │ 210 │ look 20 note 15 work" in text
    )
    assert "│ other (failed) │    12 │ 5,000 │ 1,234 │  2,346 │ " in text


def test_the_table_fits_a_narrow_terminal() -> None:
    spark: Any = Streams()
    out = io.StringIO()
    with ProgressDisplay(spark, Console(file=out, width=80, force_terminal=True, color_system=None)) as display:
        display.batches = {"1": batch_of(progress(sources=[]))}
        display.console.print(display.table())
        head = out.getvalue().splitlines()[1]
    words = head.replace("┃", " ").split()
    assert words == ["query", "batch", "rows", "in/s", "done/s", "ms", "watermark"]
    assert "…" not in out.getvalue()
