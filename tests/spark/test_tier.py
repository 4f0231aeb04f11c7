"""Queues tiered into tables by a real Spark, and read back together with what is still in the broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

import forebay.spark
from forebay.client.control import ControlClient
from forebay.core.errors import OptionError
from forebay.spark.jobs import tier as job
from forebay.spark.jobs.tier import Tiered
from forebay.spark.reading.logs import DataLost
from forebay.spark.tables.layout import TableError
from forebay.spark.tables.opening import open_table
from tests.spark.conftest import Feed
from tests.spark.streams import wait_until

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FORMATS = ["parquet", "delta", "iceberg"]
WAIT_S = 120


def bodies(first: int, end: int) -> list[bytes]:
    return [b"body %d" % at for at in range(first, end)]


def options(feed: Feed) -> dict[str, str]:
    return {"forebay.servers": feed.server}


def once(feed: Feed, queues: str | Sequence[str], into: Path, format: str | None = None, **more: Any) -> Tiered:
    done = forebay.spark.tier(feed.spark, queues, options(feed), str(into), format, once=True, **more)
    assert isinstance(done, Tiered)
    return done


def whole(feed: Feed, queue: str, into: Path) -> list[bytes]:
    """Every body of the queue, past and present, by offset; no offset twice."""
    rows = forebay.spark.read_tiered(feed.spark, queue, str(into), options(feed)).select("offset", "value").collect()
    assert sorted(row["offset"] for row in rows) == list(range(len(rows)))
    return [bytes(row["value"]) for row in sorted(rows, key=lambda row: int(row["offset"]))]


def in_table(into: Path, queue: str) -> int:
    return sum(file.rows for file in open_table(str(into)).files() if file.queue == queue)


def wait_for_rows(into: Path, queue: str, count: int, query: StreamingQuery) -> None:
    wait_until(lambda: in_table(into, queue) >= count, query, f"{count} rows")


@pytest.mark.parametrize("format", FORMATS)
def test_once_and_again(feed: Feed, tmp_path: Path, format: str) -> None:
    into = tmp_path / "lake"
    feed.stream("s")
    feed.channel.queue_declare("work/1", durable=True)
    feed.publish("s", bodies(0, 700))
    feed.publish("work/1", bodies(0, 300))
    done = once(feed, ["s", "work/1"], into, format, compact=False)
    assert (done.rows, done.batches) == (1000, 1)
    assert once(feed, ["s", "work/1"], into, format) == Tiered()
    feed.publish("s", bodies(700, 1000))
    assert whole(feed, "s", into) == bodies(0, 1000), "700 from the table, 300 from the broker"
    assert once(feed, ["s", "work/1"], into).rows == 300
    feed.publish("work/1", bodies(300, 310))
    assert (whole(feed, "s", into), whole(feed, "work/1", into)) == (bodies(0, 1000), bodies(0, 310))
    table = open_table(str(into))
    assert table.ends() == {"s": 1000, "work/1": 300}
    if format == "parquet":
        rows = feed.spark.read.parquet(str(into))
        assert dict(rows.groupBy("queue").count().collect()) == {"s": 1000, "work/1": 300}
        assert rows.select("day").distinct().count() <= 2
    frame = pl.read_parquet([table.path(file) for file in table.files()], hive_partitioning=True)
    assert len(frame.filter(pl.col("queue") == "s")) == 1000


def test_all_columns_are_the_same_in_both_parts(feed: Feed, tmp_path: Path) -> None:
    into = tmp_path / "lake"
    feed.stream("s")
    for name in ("", "a.b", "ünï/=%41"):
        feed.channel.queue_bind("s", "amq.topic", name)
    columns = [
        *("value", "key", "exchange", "format", "raw_properties", "headers", "properties", "content_type"),
        "priority",
    ]

    def publish() -> None:
        for number in range(12):
            properties = pika.BasicProperties(
                content_type="text/plain" if number % 2 else None,
                priority=number % 3 or None,
                headers={"n": number, "t": "x"} if number % 4 else None,
            )
            key = ("", "a.b", "ünï/=%41")[number % 3]
            feed.channel.basic_publish("amq.topic", key, b"%d" % number, properties)
        feed.publish("s", [b"last"])

    for format in FORMATS:
        publish()
        done = once(feed, "s", into / format, format, columns=columns, partition_by=["hour", "routing_key"])
        assert done.files >= 4
    publish()
    schema = (
        "offset bigint, timestamp timestamp, value binary, key binary, exchange string, format int, "
        "raw_properties binary, headers array<struct<key:string,value:binary>>, properties map<string,string>, "
        "content_type string, priority int, routing_key string"
    )
    frame = feed.reader("s").schema(schema).load()
    live = sorted(frame.collect(), key=lambda row: int(row["offset"]))
    wanted = [row.asDict(recursive=True) for row in live]
    for format in FORMATS:
        frame = forebay.spark.read_tiered(feed.spark, "s", str(into / format), options(feed))
        assert frame.columns == ["offset", "timestamp", *columns, "queue", "day", "hour", "routing_key"]
        found = sorted(frame.collect(), key=lambda row: int(row["offset"]))
        rows = [row.asDict(recursive=True) for row in found]
        for row in rows:
            assert row.pop("queue") == "s"
            assert (row.pop("day"), row.pop("hour")) == (row["timestamp"].date(), row["timestamp"].hour)
        assert rows == wanted, format


@pytest.mark.parametrize("format", FORMATS)
def test_continuously_and_after_a_restart(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """Files are merged while they come."""
    monkeypatch.setattr(job, "COMPACT_FILES", 4)
    into = tmp_path / "lake"
    feed.stream("s")
    end = 0
    for _ in range(2):
        query = forebay.spark.tier(feed.spark, "s", options(feed), str(into), format, trigger="100 milliseconds")
        assert not isinstance(query, Tiered)
        for _ in range(5):
            feed.publish("s", bodies(end, end + 50))
            end += 50
            wait_for_rows(into, "s", end, query)
        query.stop()
    table = open_table(str(into))
    assert len(table.files()) < 10, "ten micro-batches at least"
    assert whole(feed, "s", into) == bodies(0, end)
    forebay.spark.compact(feed.spark, str(into), safe_s=0)
    there = [path.name for path in into.rglob("queue=*/**/*.parquet")]
    assert sorted(there) == sorted(os.path.basename(file.path) for file in open_table(str(into)).files())
    assert whole(feed, "s", into) == bodies(0, end)


def test_a_job_without_its_checkpoint_goes_on_where_the_table_ends(feed: Feed, tmp_path: Path) -> None:
    into = tmp_path / "lake"
    feed.stream("s")
    feed.publish("s", bodies(0, 100))
    assert once(feed, "s", into, checkpoint=str(tmp_path / "c1")).rows == 100
    feed.publish("s", bodies(100, 150))
    assert once(feed, "s", into, checkpoint=str(tmp_path / "c2")).rows == 50
    feed.publish("s", bodies(150, 160))
    with pytest.raises(Exception, match=r"offsets 100 to below .* were to be added"):
        once(feed, "s", into, checkpoint=str(tmp_path / "c1"))
    assert once(feed, "s", into, checkpoint=str(tmp_path / "c2")).rows == 10
    assert whole(feed, "s", into) == bodies(0, 160)


def test_what_is_in_the_table_may_go_in_the_broker(feed: Feed, tmp_path: Path) -> None:
    into = tmp_path / "lake"
    feed.stream("s")
    feed.publish("s", bodies(0, 100))
    assert once(feed, "s", into, "delta", truncate=True).rows == 100
    feed.publish("s", bodies(100, 130))
    assert once(feed, "s", into, truncate=True).rows == 30
    feed.publish("s", bodies(130, 140))
    assert whole(feed, "s", into) == bodies(0, 140)
    frame = forebay.spark.read_tiered(feed.spark, "s", str(into), options(feed), starting_offset=95, ending_offset=135)
    assert sorted(row["offset"] for row in frame.collect()) == list(range(95, 135))
    assert frame.where((F.col("offset") > 100) & (F.col("offset") < 103)).count() == 2
    stamps = {row["offset"]: row["timestamp"].astimezone(UTC) for row in frame.collect()}
    for low, high in [(97, 133), (100, 130), (131, 134)]:
        between = {"starting_time": stamps[low], "ending_time": stamps[high]}
        found = forebay.spark.read_tiered(feed.spark, "s", str(into), options(feed), **between).collect()
        times = {at: stamp for at, stamp in stamps.items() if stamps[low] <= stamp < stamps[high]}
        assert {row["offset"] for row in found} >= set(times)
        assert {row["timestamp"].astimezone(UTC) for row in found} == set(times.values())
    feed.channel.queue_declare("work", durable=True)
    with pytest.raises(OptionError, match="truncate: queue 'work' is of kind"):
        once(feed, "work", tmp_path / "other", truncate=True)


def test_a_gap_is_an_error_that_names_it(start_feed: Callable[..., Feed], tmp_path: Path) -> None:
    into = tmp_path / "lake"
    feed = start_feed()
    feed.stream("s")
    feed.publish("s", bodies(0, 10))
    once(feed, "s", into, compact=False)
    feed.publish("s", bodies(10, 40))
    # Not through `options`: the hold of the job that ended would keep them.
    with ControlClient.connect(feed.server, "guest", "guest") as control:
        with feed.client() as client:
            for group in [str(each["group"]) for each in control.items("group.list", vhost="/", queue="s")]:
                client.release("s", group)
        control.run("queue.truncate", vhost="/", queue="s", below=25)
    with pytest.raises(DataLost, match=r"offsets 10 to 24 are neither in the table .* nor in the broker"):
        forebay.spark.read_tiered(feed.spark, "s", str(into), options(feed))
    lax = {**options(feed), "failOnDataLoss": "false"}
    rows = forebay.spark.read_tiered(feed.spark, "s", str(into), lax).select("offset").collect()
    assert sorted(row["offset"] for row in rows) == [*range(10), *range(25, 40)]
    feed.channel.queue_delete("s")
    feed.stream("s")
    with pytest.raises(DataLost, match="deleted and made anew"):
        forebay.spark.read_tiered(feed.spark, "s", str(into), options(feed))


def test_from_the_data_directory(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", bodies(0, 100))
    feed.wait_named("s")
    given = {"forebay.data": str(feed.broker.data)}
    done = forebay.spark.tier(feed.spark, "s", given, str(tmp_path / "lake"), once=True)
    assert isinstance(done, Tiered)
    assert done.rows == 100
    feed.publish("s", bodies(100, 120))
    assert forebay.spark.read_tiered(feed.spark, "s", str(tmp_path / "lake"), given).count() == 120


def test_bad_options_fail_at_once(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    for more, words in [
        ({"format": "orc"}, "format: 'orc'"),
        ({"compression": "rar"}, "compression: 'rar'"),
        ({"target_octets": 7}, "target_octets: 7"),
        ({"partition_by": "week"}, "partition_by: 'week'"),
        ({"columns": ["nope"]}, "columns: 'nope'"),
    ]:
        with pytest.raises(OptionError, match=words):
            once(feed, "s", tmp_path / "bad", **more)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="filter"):
        forebay.spark.tier(feed.spark, "s", {**options(feed), "filter": "offset > 1"}, str(tmp_path / "bad"))
    assert not (tmp_path / "bad").exists()
    feed.publish("s", bodies(0, 1))
    once(feed, "s", tmp_path / "good", "delta")
    with pytest.raises(TableError, match="columns do not change"):
        once(feed, "s", tmp_path / "good", columns=["value"])
    with pytest.raises(TableError, match="there is no table"):
        forebay.spark.read_tiered(feed.spark, "s", str(tmp_path / "none"), options(feed))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 40)),
        st.tuples(st.sampled_from(["tier", "tier and truncate", "compact"]), st.just(0)),
    ),
    min_size=3,
    max_size=7,
)


def test_whatever_is_done_nothing_is_missing_or_twice(feed: Feed, tmp_path_factory: pytest.TempPathFactory) -> None:
    numbers = iter(range(1_000_000))

    # Each step that tiers is a run of Spark.
    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS, st.sampled_from(FORMATS))
    def check(steps: list[tuple[str, int]], format: str) -> None:
        queue = f"q{next(numbers)}"
        into = tmp_path_factory.mktemp("lake") / queue
        feed.stream(queue)
        once(feed, queue, into, format)
        end = 0
        for step, count in steps:
            if step == "publish":
                feed.publish(queue, bodies(end, end + count))
                end += count
            elif step == "compact":
                forebay.spark.compact(feed.spark, str(into), safe_s=0)
            else:
                once(feed, queue, into, truncate=step != "tier", compact=False)
        assert whole(feed, queue, into) == bodies(0, end)

    check()
