"""The display of streaming queries that run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from forebay.spark import show_progress
from tests.spark.conftest import Feed
from tests.waiting import until

WAIT_S_MAX = 120  # a guard against a hang


def fail(batch: DataFrame, number: int) -> None:
    raise ValueError(f"batch {number} is refused")


@pytest.mark.timeout(3 * WAIT_S_MAX)
def test_a_line_for_each_batch_and_a_row_for_each_query(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", [b"%d" % at for at in range(300)])
    stream = (
        feed.spark.readStream.format("forebay")
        .option("forebay.servers", feed.server)
        .option("subscribe", "s")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200")
        .load()
    )
    counts = stream.groupBy((F.col("offset") % 10).alias("digit")).count()
    writer = counts.writeStream.queryName("digits").format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path / "digits")).trigger(availableNow=True)
    lines, table = io.StringIO(), io.StringIO()
    log = show_progress(feed.spark, Console(file=lines, width=200))
    screen = show_progress(feed.spark, Console(file=table, width=200, force_terminal=True))
    with log, screen:
        assert writer.start().awaitTermination(WAIT_S_MAX)
        until(lambda: "digits ended" in lines.getvalue(), "the end of the query is told", seconds=WAIT_S_MAX)
        until(lambda: "ended" in screen.ended.values(), "the end of the query is shown", seconds=WAIT_S_MAX)
        broken: StreamingQuery = (
            stream.writeStream.queryName("broken")
            .foreachBatch(fail)
            .option("checkpointLocation", str(tmp_path / "broken"))
            .start()
        )
        until(lambda: "broken failed:" in lines.getvalue(), "the failure of the query is told", seconds=WAIT_S_MAX)
        assert not broken.isActive
    said = lines.getvalue().splitlines()
    first = next(line for line in said if line.startswith("digits batch 0: 200 rows in "))
    assert "; lag 100; state 10 rows" in first
    second = next(line for line in said if line.startswith("digits batch 1: 100 rows in "))
    assert "; lag 0; state 10 rows" in second
    assert "digits (ended)" in table.getvalue()
