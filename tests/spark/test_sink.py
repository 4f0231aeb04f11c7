"""Rows of Spark as messages: over AMQP and MQTT, in batches and streams, each once whatever is run again."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from forebay.client.control import ControlClient
from tests.spark.conftest import Feed
from tests.waiting import until

WAIT_S = 180  # guards against a hang


def write(frame: DataFrame, feed: Feed, **options: object) -> None:
    writer = frame.write.format("forebay").mode("append").option("forebay.servers", feed.server)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()


def taken(feed: Feed, queue: str) -> Iterator[tuple[Any, Any, bytes]]:
    """All that is ready in a queue."""
    while True:
        method, properties, body = feed.channel.basic_get(queue, auto_ack=True)
        if method is None:
            return
        yield method, properties, body


def bodies(feed: Feed, queue: str) -> list[bytes]:
    return [body for _, _, body in taken(feed, queue)]


class Subscriber:
    """A client of MQTT 5, and what it got."""

    def __init__(self, port: int, topic: str) -> None:
        self.got: list[tuple[str, bytes, list[tuple[str, str]]]] = []
        self.ready = threading.Event()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.username_pw_set("guest", "guest")
        self.client.on_message = lambda _client, _data, message: self.got.append(
            (message.topic, bytes(message.payload), getattr(message.properties, "UserProperty", []))
        )
        self.client.on_subscribe = lambda *_: self.ready.set()
        self.client.connect("127.0.0.1", port)
        self.client.subscribe(topic, 1)
        self.client.loop_start()
        assert self.ready.wait(WAIT_S)

    def wait(self, count: int) -> None:
        until(lambda: len(self.got) >= count, lambda: str(self.got))

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_rows_come_to_consumers_of_both_protocols_as_they_are_addressed(feed: Feed) -> None:
    for queue in ("out", "other", "later"):
        feed.channel.queue_declare(queue, durable=True)
    feed.channel.queue_bind("other", "amq.topic", "plant.#")
    subscriber = Subscriber(feed.broker.mqtt_port, "plant/+/heat")
    rows = feed.spark.sql("""
        SELECT * FROM VALUES
            ('1', 'out', NULL, map('unit', 'K', 'none', NULL), 5, 60000L, NULL, 'text/plain', 'm-1'),
            ('2', 'plant.a.heat', 'amq.topic', map('unit', 'C'), NULL, NULL, NULL, NULL, NULL),
            ('3', 'later', '', NULL, NULL, NULL, 3600000L, NULL, NULL),
            ('4', 'nowhere', 'amq.direct', NULL, NULL, NULL, NULL, NULL, NULL)
        AS rows(value, topic, exchange, headers, priority, expiration_ms, delay_ms, content_type, message_id)
    """)
    try:
        write(rows.coalesce(1), feed)
        subscriber.wait(1)
    finally:
        subscriber.close()
    assert subscriber.got == [("plant/a/heat", b"2", [("unit", "C")])]
    ((method, properties, body),) = taken(feed, "out")
    assert (method.exchange, method.routing_key, body) == ("", "out", b"1")
    assert (properties.headers, properties.priority, properties.expiration) == ({"unit": "K"}, 5, "60000")
    assert (properties.content_type, properties.message_id, properties.delivery_mode) == ("text/plain", "m-1", 2)
    ((method, properties, body),) = taken(feed, "other")
    assert (method.exchange, method.routing_key, body) == ("amq.topic", "plant.a.heat", b"2")
    assert bodies(feed, "later") == []
    with ControlClient.connect(feed.server, "guest", "guest") as client:
        (waiting,) = client.items("delayed.list")
        assert waiting["topic"] == "later"
        (transaction,) = client.items("transaction.list")
        assert (transaction["state"], transaction["rows"], transaction["unroutable"]) == ("committed", 4, 1)


def test_many_tasks_write_all_rows_or_none(feed: Feed) -> None:
    feed.stream("s")
    feed.channel.queue_declare("out", durable=True)
    rows = feed.spark.range(0, 20_000, numPartitions=3).selectExpr("cast(id as string) value")
    write(rows, feed, topic="s", batchRows=1500, transactionId="numbers")
    write(rows, feed, topic="s", transactionId="numbers")  # a job that is run again
    assert sorted(int(row.value) for row in feed.read("s").select("value").collect()) == list(range(20_000))
    wrong = rows.selectExpr("value", "if(value = '15000', 'nobody', 'out') topic")
    with pytest.raises(PySparkException, match=r"row .*: no queue 'nobody' in vhost '/'"):
        write(wrong, feed)
    with pytest.raises(PySparkException, match="column 'topic': null in row"):
        write(rows.selectExpr("value", "if(value = '15000', NULL, 'out') topic"), feed)
    assert bodies(feed, "out") == []
    # What was read from a queue goes to another as it is; a big one is not taken apart.
    write(feed.read("s").limit(10), feed, topic="out")
    assert len(bodies(feed, "out")) == 10


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topic": "out", "batchRows": "none"}, "batchRows: 'none' is not a number"),
        ({"topicc": "out"}, "topicc: no option of the forebay sink; did you mean topic?"),
        ({}, "topic: missing: give the queue"),
    ],
)
def test_options_are_checked_before_anything_runs(feed: Feed, options: dict[str, str], text: str) -> None:
    with pytest.raises(PySparkException, match=re.escape(text)):
        write(feed.spark.range(1).selectExpr("'1' value"), feed, **options)
    with pytest.raises(PySparkException, match="mode: 'overwrite' cannot be"):
        feed.spark.range(1).selectExpr("'1' value").write.format("forebay").mode("overwrite").option(
            "forebay.servers", feed.server
        ).option("topic", "out").save()


def start(feed: Feed, frame: DataFrame, checkpoint: Path, mode: str = "append", **options: object) -> StreamingQuery:
    writer = frame.writeStream.format("forebay").option("forebay.servers", feed.server)
    for name, value in {"checkpointLocation": checkpoint, **options}.items():
        writer = writer.option(name, str(value))
    return writer.outputMode(mode).trigger(availableNow=True).start()


def run(feed: Feed, checkpoint: Path) -> None:
    """Everything that is in the stream `in` to the queue `out`, in batches of ten."""
    source = feed.spark.readStream.format("forebay").option("forebay.servers", feed.server).option("subscribe", "in")
    frame = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 10).load().select("value")
    query = start(feed, frame, checkpoint, topic="out")
    assert query.awaitTermination(WAIT_S)
    assert query.exception() is None


@pytest.mark.timeout(400)
def test_a_batch_that_spark_runs_again_is_published_once(feed: Feed, tmp_path: Path) -> None:
    feed.stream("in")
    feed.stream("out")
    feed.publish("in", [b"%d" % number for number in range(20)])
    checkpoint = tmp_path / "checkpoint"
    run(feed, checkpoint)
    first = [bytes(row.value) for row in feed.read("out").select("value").collect()]
    assert sorted(map(int, first)) == list(range(20))
    # As if the driver had died between the two commits: that of the sink, and Spark's own.
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for path in (checkpoint / "commits").glob(f"*{last}*"):
        path.unlink()
    feed.publish("in", [b"%d" % number for number in range(20, 30)])
    run(feed, checkpoint)
    found = [bytes(row.value) for row in feed.read("out").select("value").collect()]
    assert sorted(map(int, found)) == list(range(30))
    # Another checkpoint is another query: it publishes all of them.
    run(feed, tmp_path / "another")
    assert feed.read("out").count() == 60


@pytest.mark.timeout(400)
def test_all_rows_of_an_aggregate_are_added_each_time(feed: Feed, tmp_path: Path) -> None:
    feed.stream("in")
    feed.channel.queue_declare("out", durable=True)
    source = feed.spark.readStream.format("forebay").option("forebay.servers", feed.server).option("subscribe", "in")
    counted = source.option("startingOffsets", "earliest").load().groupBy("value").count()
    frame = counted.selectExpr("concat(string(value), '=', count) value")
    for published, expected in ([b"a", b"b", b"a"], [b"a=2", b"b=1"]), ([b"a"], [b"a=3", b"b=1"]):
        feed.publish("in", published)
        query = start(feed, frame, tmp_path / "checkpoint", "complete", topic="out")
        assert query.awaitTermination(WAIT_S)
        assert sorted(bodies(feed, "out")) == expected
    rate = feed.spark.readStream.format("rate").load().selectExpr("string(value) value")
    query = start(feed, rate, tmp_path / "named", topic="out", transactionId="x")
    with pytest.raises(PySparkException, match="transactionId: 'x': a stream's batches are named by its checkpoint"):
        query.awaitTermination(WAIT_S)
