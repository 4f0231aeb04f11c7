"""Spark reads a running broker: rows, columns, ranges, and what it says when it cannot."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from tests.spark.conftest import Feed
from tests.spark_schema import full_schema
from tests.waiting import until, until_past

BODIES = [b"body %d" % at for at in range(1000)]


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.select("offset").collect())


def test_every_message_is_a_row(feed: Feed) -> None:
    feed.stream("s")
    feed.channel.queue_bind("s", "amq.topic", "a.#")
    before = datetime.now(UTC) - timedelta(seconds=5)
    feed.publish("s", BODIES)
    feed.channel.basic_publish("amq.topic", "a.b.c", "ünï".encode())
    feed.publish("s", [b"last"])
    rows = feed.reader("s").schema(full_schema()).load().orderBy("offset").collect()
    assert [bytes(row["value"]) for row in rows] == [*BODIES, "ünï".encode(), b"last"]
    assert [row["offset"] for row in rows] == list(range(1002))
    first, topic = rows[0], rows[1000]
    assert (first["topic"], first["partition"], first["timestampType"]) == ("s", 0, 1)
    assert (bytes(first["key"]), first["routing_key"], first["exchange"]) == (b"s", "s", "")
    assert (bytes(topic["key"]), topic["routing_key"], topic["exchange"]) == (b"a.b.c", "a.b.c", "amq.topic")
    now = datetime.now(UTC) + timedelta(seconds=5)
    assert all(before < row["timestamp"].astimezone(UTC) < now for row in rows)
    assert first["format"] == 1


def test_only_the_columns_of_the_schema(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", BODIES)
    frame = feed.reader("s").schema("offset bigint, value binary").load()
    assert frame.columns == ["offset", "value"]
    assert frame.count() == 1000
    assert frame.agg(F.sum("offset"), F.sum(F.length("value"))).first() == (499_500, sum(map(len, BODIES)))


def test_ranges_by_offset(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", BODIES)
    assert offsets(feed.read("s", startingOffsets="990")) == list(range(990, 1000))
    assert offsets(feed.read("s", endingOffsets='{"s": {"0": 7}}')) == list(range(7))
    assert offsets(feed.read("s", startingOffsets="500", endingOffsets="503")) == [500, 501, 502]
    assert offsets(feed.read("s", startingOffsets="500", endingOffsets="500")) == []
    frame = feed.read("s", minPartitions=7)
    assert frame.rdd.getNumPartitions() == 7
    assert offsets(frame) == list(range(1000))


def test_ranges_by_time(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:10])
    between = int(time.time() * 1000) + 1
    until_past(between / 1000)
    feed.publish("s", BODIES[10:30])
    assert offsets(feed.read("s", startingTimestamp=between)) == list(range(10, 30))
    assert offsets(feed.read("s", endingTimestamp=between)) == list(range(10))
    later = between + 3_600_000
    with pytest.raises(PySparkException, match=f"startingTimestamp: no record of queue 's' is at or after {later} ms"):
        feed.read("s", startingTimestamp=later).collect()
    empty = feed.read("s", startingTimestamp=later, startingOffsetsByTimestampStrategy="latest")
    assert empty.collect() == []


def test_several_queues_are_one_table(feed: Feed) -> None:
    feed.stream("a")
    feed.channel.queue_declare("b", durable=True)
    feed.publish("a", BODIES[:20])
    feed.publish("b", BODIES[:30])
    counts = feed.read("a,b").groupBy("topic").count().collect()
    assert {row["topic"]: row["count"] for row in counts} == {"a": 20, "b": 30}


def test_an_empty_queue_has_no_rows(feed: Feed) -> None:
    feed.stream("s")
    assert feed.read("s").count() == 0


def test_an_ephemeral_queue_is_read_from_memory(start_feed: Callable[..., Feed]) -> None:
    feed = start_feed(address_queues="memory")
    tag = feed.channel.basic_consume("$queue/e", lambda *_: None)  # what makes it
    feed.channel.basic_cancel(tag)
    feed.publish("e", [b"1", b"2"])
    assert [bytes(row["value"]) for row in feed.read("e").orderBy("offset").collect()] == [b"1", b"2"]


def test_long_bodies(feed: Feed) -> None:
    feed.stream("s")
    bodies = [bytes([at]) * (3 << 20) for at in range(6)]
    feed.publish("s", bodies)
    rows = feed.read("s").select(F.length("value"), F.md5("value")).distinct().collect()
    assert len(rows) == 6
    assert {row[0] for row in rows} == {3 << 20}


def test_sql_by_name(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:10])
    feed.read("s").createOrReplaceTempView("messages")
    row = feed.spark.sql("SELECT count(*), min(cast(value AS string)) FROM messages WHERE offset >= 5").first()
    assert row == (5, "body 5")


def test_data_that_retention_removed_is_missed(start_feed: Callable[..., Feed]) -> None:
    feed = start_feed()
    feed.stream("s", **{"x-max-length-bytes": 20_000})
    for at in range(0, 1000, 50):
        feed.publish("s", BODIES[at : at + 50])
    with feed.client() as client:
        start = until(lambda: client.describe("s").start)
    lost = f"offsets 0 to {start - 1} of queue 's' are gone: retention"
    with pytest.raises(PySparkException, match=lost):
        feed.read("s", startingOffsets="0").collect()
    assert offsets(feed.read("s", startingOffsets="0", failOnDataLoss="false")) == list(range(start, 1000))
    assert offsets(feed.read("s")) == list(range(start, 1000))


def test_offsets_beyond_the_end_are_named(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:10])
    with pytest.raises(PySparkException, match="was to be read with end 11, but it ends at 10"):
        feed.read("s", endingOffsets="11").collect()
    assert offsets(feed.read("s", endingOffsets="11", failOnDataLoss="false")) == list(range(10))
    with pytest.raises(PySparkException, match="startingOffsets: 8 for queue 's' is after the end of the read, 5"):
        feed.read("s", startingOffsets="8", endingOffsets="5").collect()


def test_bad_options_fail_at_load(feed: Feed) -> None:
    with pytest.raises(AnalysisException, match=r"forebay.server: no option .* did you mean forebay.servers"):
        feed.reader("s").option("forebay.server", "x").load()
    with pytest.raises(AnalysisException, match="startingOffsets: 'soon' is none of"):
        feed.read("s", startingOffsets="soon")


def test_what_cannot_be_read_says_why(feed: Feed) -> None:
    with pytest.raises(PySparkException, match="no queue 'nowhere'"):
        feed.read("nowhere").collect()
    feed.stream("s")
    with pytest.raises(PySparkException, match="maxOffsetsPerTrigger: an option of streams only; this is a batch read"):
        feed.read("s", maxOffsetsPerTrigger=5).collect()
    with pytest.raises(PySparkException, match=r"Login was refused\..* \(user 'guest', vhost '/'\)"):
        feed.reader("s").option("forebay.password", "wrong").load().collect()
    with pytest.raises(PySparkException, match="no column 'body'; known are key, value, topic"):
        feed.reader("s").schema("body binary").load().collect()
    with pytest.raises(PySparkException, match="column 'offset' is bigint, not string"):
        feed.reader("s").schema("offset string").load().collect()
    server = feed.server
    feed.connection.close()
    feed.broker.stop()
    with pytest.raises(PySparkException, match=f"no broker answers: {server}: .*refused"):
        feed.read("s", retryMs=0).collect()


def test_the_next_of_several_servers(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:3])
    mqtt = f"127.0.0.1:{feed.broker.mqtt_port}"
    frame = feed.spark.read.format("forebay").option("forebay.servers", f"127.0.0.1:1,{mqtt}").option("subscribe", "s")
    assert frame.load().count() == 3


def test_the_source_is_found_by_itself() -> None:
    """As PySpark looks for sources: in a process of its own, without register()."""
    code = (
        "import pkgutil, importlib\n"
        "from pyspark.sql.datasource import DataSource\n"
        "found = [importlib.import_module(m.name) for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')]\n"
        "print([m.DefaultSource.name() for m in found if issubclass(m.DefaultSource, DataSource)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'forebay'" in done.stdout


def test_discovery_survives_without_pyspark() -> None:
    """A package that fails to import would hide every other source from PySpark."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import pyspark_forebay\n"
        "print(hasattr(pyspark_forebay, 'DefaultSource'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
