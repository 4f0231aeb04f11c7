"""Views: what SQL makes of queues comes to subscribers over AMQP and MQTT, each row once."""

from __future__ import annotations

import json
import queue
import threading
import time
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from pyspark.sql.streaming.query import StreamingQuery

from forebay.core.errors import NOT_FOUND, OptionError, RequestError
from forebay.spark import Source, publish_view, query
from forebay.spark.jobs.views import latest_sql
from tests.spark.conftest import Feed

WAIT_S_MAX = 180  # a guard against a hang
FLIGHTS = Source("flights", columns="carrier string, delay int")


def flights(*delays: int) -> list[bytes]:
    """Bodies of flights of two carriers in turn."""
    return [json.dumps({"carrier": ["AA", "DL"][at % 2], "delay": delay}).encode() for at, delay in enumerate(delays)]


def published(feed: Feed, name: str) -> list[dict[str, object]]:
    """What is in a queue, as Spark reads it."""
    rows = feed.reader(name).schema("offset bigint, value binary").load().orderBy("offset").collect()
    return [json.loads(row["value"]) for row in rows]


class Subscriber:
    """An MQTT client, and what came to it."""

    def __init__(self, feed: Feed, filter: str) -> None:
        self.inbox: queue.Queue[tuple[str, bytes]] = queue.Queue()
        ready = threading.Event()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_message = lambda _client, _data, message: self.inbox.put((message.topic, bytes(message.payload)))
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.connect("127.0.0.1", feed.broker.mqtt_port, keepalive=600)
        self.client.subscribe(filter, qos=1)
        self.client.loop_start()
        assert ready.wait(WAIT_S_MAX)

    def next(self) -> tuple[str, bytes]:
        return self.inbox.get(timeout=WAIT_S_MAX)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def finished(running: StreamingQuery) -> None:
    assert running.awaitTermination(WAIT_S_MAX * 4), "a view of what is there ends"


@pytest.mark.timeout(600)
def test_the_latest_row_of_each_key_comes_to_amqp_and_mqtt(feed: Feed, tmp_path: Path) -> None:
    feed.stream("flights")
    feed.publish("flights", flights(1, 2, 3))
    options = {"forebay.servers": feed.server}
    subscriber = Subscriber(feed, "latest/#")
    sql = latest_sql("f", "carrier", "delay, offset")
    arguments = {"mode": "update", "key": "carrier", "exchange": "amq.topic", "checkpoint": str(tmp_path / "c")}
    finished(publish_view(feed.spark, sql, "latest", {"f": FLIGHTS}, options, once=True, **arguments))
    first = {subscriber.next(), subscriber.next()}
    assert {(topic, json.loads(body)["delay"]) for topic, body in first} == {("latest/AA", 3), ("latest/DL", 2)}

    # A second run of the same job goes on: only what has changed is published.
    feed.channel.queue_bind("latest", "amq.topic", "latest.#")  # the stream that the first run made
    feed.publish("flights", flights(70))
    finished(publish_view(feed.spark, sql, "latest", {"f": FLIGHTS}, options, once=True, **arguments))
    topic, body = subscriber.next()
    assert (topic, json.loads(body)) == ("latest/AA", {"carrier": "AA", "delay": 70, "offset": 3})

    # As if it had died between the broker's commit and Spark's own: the batch is run again, and published once.
    last = max((tmp_path / "c" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    finished(publish_view(feed.spark, sql, "latest", {"f": FLIGHTS}, options, once=True, **arguments))
    assert last.exists()
    assert len(published(feed, "latest")) == 1
    assert subscriber.inbox.empty()
    subscriber.close()

    got: list[tuple[str, dict[str, object], str]] = []
    feed.channel.basic_qos(prefetch_count=10)
    feed.channel.basic_consume(
        "latest",
        lambda _channel, method, properties, body: got.append((method.routing_key, properties.headers, body.decode())),
        arguments={"x-stream-offset": "first"},
    )
    deadline = time.monotonic() + WAIT_S_MAX
    while not got:
        assert time.monotonic() < deadline
        feed.connection.process_data_events(0.05)
    key, headers, body_text = got[0]
    assert (key, headers["x-view-key"], json.loads(body_text)["delay"]) == ("latest.AA", "AA", 70)


@pytest.mark.timeout(600)
def test_windows_and_joins_of_two_queues_each_row_once(feed: Feed, tmp_path: Path) -> None:
    feed.stream("flights")
    feed.stream("names")
    feed.publish("names", [b'{"code": "AA", "name": "American"}', b'{"code": "DL", "name": "Delta"}'])
    feed.publish("flights", flights(10, 20, 30, 40))
    options = {"forebay.servers": feed.server}
    sources = {
        "f": Source("flights", columns="carrier string, delay int", watermark="1 second"),
        "n": Source("names", columns="code string, name string", watermark="1 second"),
    }
    joined = "SELECT n.name, f.delay FROM f JOIN n ON f.carrier = n.code"
    for _ in range(2):  # the second run finds nothing new
        checkpoint = str(tmp_path / "joined")
        finished(publish_view(feed.spark, joined, "joined", sources, options, checkpoint=checkpoint, once=True))
    rows = sorted(published(feed, "joined"), key=lambda row: str(row["delay"]))
    assert rows == [
        {"name": "American", "delay": 10},
        {"name": "Delta", "delay": 20},
        {"name": "American", "delay": 30},
        {"name": "Delta", "delay": 40},
    ]

    windows = (
        "SELECT carrier, count(*) AS flights, sum(delay) AS delay FROM f GROUP BY carrier, window(timestamp, '1 hour')"
    )
    checkpoint = str(tmp_path / "windows")
    one = {"f": sources["f"]}
    finished(
        publish_view(feed.spark, windows, "windows", one, options, checkpoint=checkpoint, mode="complete", once=True)
    )
    totals = {str(row["carrier"]): (row["flights"], row["delay"]) for row in published(feed, "windows")}
    assert totals == {"AA": (2, 40), "DL": (2, 60)}


@pytest.mark.timeout(600)
def test_what_a_view_cannot_be_is_said_at_once(feed: Feed, tmp_path: Path) -> None:
    feed.stream("flights")
    feed.publish("flights", flights(1, 2))
    options = {"forebay.servers": feed.server}
    found = query(feed.spark, "SELECT carrier, sum(delay) AS d FROM f GROUP BY 1 ORDER BY 1", {"f": FLIGHTS}, options)
    assert [tuple(row) for row in found.collect()] == [("AA", 1), ("DL", 2)]

    def refused(sql: str = "SELECT * FROM f", sources: object = None, **arguments: object) -> str:
        given = {"checkpoint": str(tmp_path / "c"), **arguments}
        with pytest.raises(OptionError) as caught:
            publish_view(feed.spark, sql, "v", sources or {"f": FLIGHTS}, options, **given)  # type: ignore[arg-type]
        return str(caught.value)

    assert refused(mode="sometimes") == "mode: 'sometimes' is none of append, update, complete"
    assert refused(checkpoint="").startswith("checkpoint: missing")
    assert refused(key="colour").startswith("key: 'colour' is no column of the result; there are value, offset")
    assert "`colour` cannot be resolved" in refused("SELECT colour FROM f")
    assert "append" in refused("SELECT carrier, count(*) FROM f GROUP BY 1").lower()
    assert refused(sources={"my-f": FLIGHTS}).startswith("sources: 'my-f' is no name for a table")
    assert refused(sources={"f": Source("flights", event_time="at")}).startswith("event_time: 'at' is no column")
    assert refused(sources={"f": Source("flights", watermark="soon")}).startswith("watermark: 'soon'")
    with pytest.raises(RequestError, match="no queue 'nowhere'") as missing:
        publish_view(feed.spark, "SELECT 1", "v", {"f": "nowhere"}, options, checkpoint=str(tmp_path))
    assert missing.value.reason == NOT_FOUND
