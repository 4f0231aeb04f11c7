"""Queues as streams in Spark: every record once, whatever joins, goes or restarts meanwhile.

Limits, waits and all that can be lost are in tests/unit/spark/test_stream.py: a query costs seconds to start.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from forebay.client.control import ControlClient
from tests.spark.conftest import Feed
from tests.spark.streams import Collected, end_offsets, failure, run, started, wait_until

BODIES = [b"body %d" % at for at in range(1000)]


def control(feed: Feed, operation: str, **arguments: object) -> dict[str, object]:
    with ControlClient.connect(feed.server, "guest", "guest") as client:
        return client.run(operation, **arguments)


def groups(feed: Feed, queue: str) -> list[dict[str, object]]:
    with ControlClient.connect(feed.server, "guest", "guest") as client:
        return [each for each in client.items("group.list", queue=queue) if each["kind"] == "reader"]


def test_what_is_there_in_batches_of_the_limit(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", BODIES)
    sink = Collected()
    query = run(feed.growing("s", maxOffsetsPerTrigger=300), sink, tmp_path / "c")
    assert sink.values() == BODIES
    assert sink.sizes() == [300, 300, 300, 100]
    assert end_offsets(query)["s"]["0"] == 1000
    progress = query.lastProgress
    assert progress is not None
    assert json.loads(progress["sources"][0]["latestOffset"]) == {"s": {"0": 1000}}
    feed.publish("s", [b"more"])
    run(feed.growing("s", maxOffsetsPerTrigger=300), sink, tmp_path / "c")
    assert sink.values() == [*BODIES, b"more"]
    run(feed.growing("s", maxOffsetsPerTrigger=300), sink, tmp_path / "c")
    assert sink.values() == [*BODIES, b"more"]


def test_a_running_query_follows(feed: Feed, tmp_path: Path) -> None:
    """It begins at the end unless told otherwise; queues of the pattern join as they are made, from their start."""
    feed.stream("s1")
    feed.stream("other")
    feed.publish("s1", BODIES[:10])
    sink = Collected()
    frame = feed.stream_reader(subscribePattern="s[0-9]+", groupIdPrefix="mine-").load()
    query = started(frame, sink, tmp_path / "c")
    try:
        wait_until(lambda: bool(groups(feed, "s1")), query, "a hold")
        feed.publish("s1", [b"new"])
        sink.wait(1, query)
        feed.stream("s2")
        feed.publish("s2", BODIES[:5])
        feed.publish("other", BODIES[:5])
        sink.wait(6, query)
        feed.publish("s1", [b"newer"])
        sink.wait(7, query)
        assert (sink.values("s1"), sink.values("s2")) == ([b"new", b"newer"], BODIES[:5])
        # What the broker knows of it: its name stays the same, and it is as far as the last batch.
        name = end_offsets(query)["s1"]["group"]
        assert name.startswith("mine-")
        wait_until(lambda: [each["cursor"] for each in groups(feed, "s1")] == [12], query, "the hold to follow")
        assert [each["group"] for each in groups(feed, "s1")] == [name]
    finally:
        query.stop()
    run(frame, sink, tmp_path / "c")
    assert [each["group"] for each in groups(feed, "s1")] == [name]


def test_what_is_lost_is_said_or_skipped(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:10])
    sink = Collected()
    run(feed.growing("s", holdMs=0), sink, tmp_path / "c")
    assert groups(feed, "s") == []
    feed.publish("s", BODIES[10:30])
    control(feed, "queue.truncate", queue="s", below=15)
    query = started(feed.growing("s", holdMs=0), sink, tmp_path / "c")
    assert "offsets 10 to 14 of queue 's' are gone: retention, a purge or acknowledgements removed them" in failure(
        query
    )
    run(feed.growing("s", holdMs=0, failOnDataLoss=False), sink, tmp_path / "c")
    assert sink.offsets() == [*range(10), *range(15, 30)]


def test_a_hold_keeps_what_a_stopped_query_has_not_read(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.channel.queue_declare("c", durable=True)
    for queue in ("s", "c"):
        feed.publish(queue, BODIES[:10])
    sink = Collected()
    frame = feed.growing("s,c", holdMs=3_600_000)
    run(frame, sink, tmp_path / "c")
    for queue in ("s", "c"):
        feed.publish(queue, BODIES[10:30])
    control(feed, "queue.truncate", queue="s", below=25)
    for _ in range(30):
        method, _, _ = feed.channel.basic_get("c", auto_ack=True)
        assert method is not None
    feed.channel.queue_purge("c")
    run(frame, sink, tmp_path / "c")
    assert sink.values("s") == BODIES[:30]
    assert sink.values("c") == BODIES[:30]


def test_a_broker_that_restarts_in_the_middle(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:100])
    sink = Collected()
    query = started(feed.growing("s", maxOffsetsPerTrigger=20), sink, tmp_path / "c")
    try:
        wait_until(lambda: len(sink.rows()) >= 40, query, "40 rows")
        feed.connection.close()
        feed.broker.kill9()
        feed.broker.start()
        after = Feed(feed.spark, feed.broker)
        after.publish("s", BODIES[100:200])
        sink.wait(200, query)
        after.connection.close()
        feed.broker.stop()
        feed.broker.wait_for_a_client()
        feed.broker.start()
        after = Feed(feed.spark, feed.broker)
        after.publish("s", BODIES[200:210])
        sink.wait(210, query)
        after.connection.close()
    finally:
        query.stop()
    assert sink.values() == BODIES[:210]


def test_a_broker_that_stays_away_is_an_error(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:5])
    sink = Collected()
    query = started(feed.growing("s", retryMs=500), sink, tmp_path / "c")
    try:
        sink.wait(5, query)
        feed.connection.close()
        feed.broker.kill9()
        assert "no broker answers" in failure(query)
    finally:
        query.stop()


def test_a_data_directory_is_a_stream_too(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", BODIES[:10])
    feed.wait_named("s")
    frame = (
        feed.spark.readStream.format("forebay")
        .option("forebay.data", str(feed.broker.data))
        .option("subscribePattern", "s")
        .option("startingOffsets", "earliest")
        .option("filter", "offset >= 5")
        .load()
    )
    sink = Collected()
    query = started(frame, sink, tmp_path / "c")
    try:
        sink.wait(5, query)
        feed.publish("s", BODIES[10:20])
        sink.wait(15, query)
    finally:
        query.stop()
    assert sink.values() == BODIES[5:20]


def test_what_a_stream_cannot_be_is_said_at_its_start(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    with pytest.raises(
        PySparkException, match=r"(?i)maxOffsetPerTrigger: no option .* did you mean maxOffsetsPerTrigger\?"
    ):
        feed.growing("s", maxOffsetPerTrigger=5)
    query = started(feed.growing("s", endingOffsets=5), Collected(), tmp_path / "1")
    assert "endingOffsets: a stream has no end" in failure(query)
