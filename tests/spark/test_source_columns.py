"""What messages of both protocols say of themselves, as columns; what is not asked for is not there."""

from __future__ import annotations

import paho.mqtt.client as mqtt
import pika
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.core.errors import OptionError, RequestError
from forebay.spark import count_by, read
from forebay.spark.schema import KAFKA_TYPES
from tests.spark.conftest import Feed
from tests.spark_schema import full_schema

AMQP = pika.BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"h": "ü", "n": 5},
    delivery_mode=2,
    priority=3,
    correlation_id="c-1",
    reply_to="answers",
    expiration="600000",
    message_id="m-1",
    type="t",
    app_id="tests",
)


def publish_mqtt(feed: Feed, topic: str, body: bytes) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.username_pw_set("guest", "guest")
    client.connect("127.0.0.1", feed.broker.mqtt_port)
    client.loop_start()
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho types it no better
    properties.UserProperty = [("h", "x"), ("h", "y")]
    properties.ContentType = "application/json"
    client.publish(topic, body, qos=1, properties=properties).wait_for_publish(60)
    client.disconnect()
    client.loop_stop()


def test_columns_of_messages(feed: Feed) -> None:
    feed.stream("s")
    feed.channel.queue_bind("s", "amq.topic", "#")
    feed.channel.basic_publish("", "s", b"plain")
    feed.channel.basic_publish("amq.topic", "a.b", b"full", AMQP)
    feed.publish("s", [b"between"])
    publish_mqtt(feed, "a/b", b'{"x": 1}')
    rows = feed.reader("s").schema(full_schema()).load().orderBy("offset").collect()
    plain, full, _, sensor = [row.asDict(recursive=True) for row in rows]
    assert (plain["headers"], plain["properties"]) == (None, {})
    assert all(plain[name] is None for name in ("content_type", "message_id", "priority", "expiration_ms"))
    assert (full["queue"], full["exchange"], full["routing_key"], full["format"]) == ("s", "amq.topic", "a.b", 1)
    assert full["headers"] == [
        {"key": "h", "value": bytearray("ü".encode())},
        {"key": "n", "value": bytearray(b"5")},
    ]
    said = {name: full[name] for name in ("content_type", "content_encoding", "message_id", "correlation_id", "type")}
    assert said == {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "message_id": "m-1",
        "correlation_id": "c-1",
        "type": "t",
    }
    assert (full["reply_to"], full["app_id"], full["priority"], full["expiration_ms"]) == (
        "answers",
        "tests",
        3,
        600_000,
    )
    assert full["properties"]["header.h"] == "ü"
    assert full["properties"]["content_type"] == "text/plain"
    assert (sensor["routing_key"], sensor["format"], sensor["content_type"]) == ("a/b", 2, "application/json")
    assert sensor["headers"] == [{"key": "h", "value": bytearray(b"x")}, {"key": "h", "value": bytearray(b"y")}]


def test_a_comma_in_a_name_and_octets_in_a_correlation_id(feed: Feed) -> None:
    """MQTT's correlation data are any octets; a name with a comma is given in a list of JSON."""
    feed.stream("s,1")
    feed.channel.queue_bind("s,1", "amq.topic", "#")
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.username_pw_set("guest", "guest")
    client.connect("127.0.0.1", feed.broker.mqtt_port)
    client.loop_start()
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho types it no better
    properties.CorrelationData = b"id-\xff\xfe"
    client.publish("a/b", b"answer", qos=1, properties=properties).wait_for_publish(60)
    client.disconnect()
    client.loop_stop()
    reader = feed.reader("s").option("subscribe", '["s,1"]')
    (row,) = reader.schema("queue string, routing_key binary, correlation_id binary").load().collect()
    assert row.asDict() == {
        "queue": "s,1",
        "routing_key": bytearray(b"a/b"),
        "correlation_id": bytearray(b"id-\xff\xfe"),
    }


def test_a_function_over_arrow_batches_reads_what_the_source_does(feed: Feed) -> None:
    feed.stream("s")
    feed.stream("t")
    feed.channel.queue_bind("s", "amq.topic", "#")
    for number in range(50):
        feed.channel.basic_publish("amq.topic", f"k.{number % 3}", b'{"n": %d}' % number, AMQP)
    feed.publish("t", [b"other"])
    feed.publish("s", [b"last"])
    options = {"forebay.servers": feed.server}
    for more in ({}, {"startingOffsets": "10", "endingOffsets": "40", "minPartitions": "3"}, {"filter": "/n > 30"}):
        wanted = feed.reader("s", **more).schema(full_schema()).load()
        found = read(feed.spark, "s", {**options, **more}, columns=full_schema().names)
        assert found.schema == wanted.schema
        assert found.orderBy("offset").collect() == wanted.orderBy("offset").collect()
        assert found.count() == wanted.count() > 0
    assert read(feed.spark, "s", {**options, "minPartitions": 3}).rdd.getNumPartitions() == 3
    both = read(feed.spark, ["s", "t"], options, columns=["queue", "offset"]).groupBy("queue").count().collect()
    assert {row["queue"]: row["count"] for row in both} == {"s": 51, "t": 1}
    assert read(feed.spark, "s", {**options, "startingOffsets": 51}).collect() == []
    feed.wait_named("s")
    files = read(feed.spark, "s", {"forebay.data": feed.broker.data}, columns=["offset", "value"])
    assert sorted(row["offset"] for row in files.collect()) == list(range(51))
    with pytest.raises(OptionError, match=r"columns: no column 'offsets'; known are key, value"):
        read(feed.spark, "s", options, columns=["offsets"])
    with pytest.raises(OptionError, match=r"pollMs: an option of streams only"):
        read(feed.spark, "s", {**options, "pollMs": 5})
    with pytest.raises(RequestError, match=r"no queue 'nowhere'.*user 'guest', vhost '/'"):
        read(feed.spark, "nowhere", options)


def test_rows_are_counted_where_they_are_read(feed: Feed) -> None:
    feed.stream("s")
    feed.stream("t")
    feed.channel.queue_bind("s", "amq.topic", "#")
    for number in range(50):
        feed.channel.basic_publish("amq.topic", f"k.{number % 3}", b'{"n": %d}' % number, AMQP)
    feed.publish("t", [b"other"])
    feed.publish("s", [b"last"])
    options = {"forebay.servers": feed.server}

    def both(more: dict[str, object], *by: str) -> None:
        given = {**options, **more}
        wanted = read(feed.spark, ["s", "t"], given, columns=by).groupBy(*by).count()
        found = count_by(feed.spark, ["s", "t"], given, by=by)
        assert found.schema.simpleString() == wanted.schema.simpleString()
        assert sorted(found.collect()) == sorted(wanted.collect())

    both({}, "key")
    both({"minPartitions": 3, "filter": "/n > 30"}, "queue", "routing_key", "content_type")
    both({}, "queue", "format")
    assert count_by(feed.spark, "s", {**options, "startingOffsets": 51}, by=["key"]).collect() == []
    with pytest.raises(OptionError, match="by: column 'properties' is map<string,string>: its values cannot be count"):
        count_by(feed.spark, "s", options, by=["queue", "properties"])
    with pytest.raises(OptionError, match="columns: no column 'keys'; known are key, value"):
        count_by(feed.spark, "s", options, by=["keys"])


def test_how_often_messages_were_handed_out(feed: Feed) -> None:
    feed.channel.queue_declare("c", durable=True)
    feed.publish("c", [b"0", b"1", b"2"])
    for times in (1, 2):
        method, _, _ = feed.channel.basic_get("c")
        assert method is not None
        if times == 1:
            feed.channel.basic_nack(method.delivery_tag, requeue=True)
    schema = "offset bigint, delivery_count int"
    rows = feed.reader("c").schema(schema).load().orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(0, 2), (1, 0), (2, 0)]
    feed.wait_named("c")
    files = feed.spark.read.format("forebay").option("forebay.data", str(feed.broker.data)).option("subscribe", "c")
    assert [row[1] for row in files.schema(schema).load().collect()] == [None] * 3


def test_columns_without_a_schema(feed: Feed) -> None:
    feed.stream("s")
    feed.channel.basic_publish("", "s", b"full", AMQP)
    feed.publish("s", [b"last"])
    assert feed.read("s").columns == list(KAFKA_TYPES)
    frame = feed.read("s", includeHeaders="true")
    assert frame.columns == [*KAFKA_TYPES, "headers"]
    keys = frame.select(F.explode("headers.key")).orderBy("col").collect()
    assert [row[0] for row in keys] == ["h", "n"]


def test_a_filter_is_the_same_wherever_it_is_held_against_messages(feed: Feed) -> None:
    feed.stream("s")
    feed.channel.queue_bind("s", "amq.topic", "#")
    for at in range(300):
        key = ["a.b", "a.c", "x"][at % 3]
        feed.channel.basic_publish("amq.topic", key, b'{"n": %d}' % at, pika.BasicProperties(headers={"odd": at % 2}))
    feed.publish("s", [b"no JSON"])
    text = "/n >= 100 AND header.odd = 1 AND routing_key BEGINS WITH 'a.'"
    wanted = [at for at in range(100, 300) if at % 2 and at % 3 != 2]
    schema = "offset bigint, value binary, routing_key string"
    network = feed.reader("s", filter=text).schema(schema).load()
    feed.wait_named("s")
    files = feed.read_files("s", filter=text)
    for frame in (network, files):
        assert [row["offset"] for row in frame.orderBy("offset").select("offset").collect()] == wanted
    assert [bytes(row["value"]) for row in network.orderBy("offset").collect()] == [b'{"n": %d}' % at for at in wanted]
    with pytest.raises(PySparkException, match=r"filter: '/n >': .*"):
        feed.read("s", filter="/n >")


def test_conditions_of_one_query_are_not_those_of_the_next(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", [b"%d" % at for at in range(10)])
    setting = "spark.sql.python.filterPushdown.enabled"
    before = feed.spark.conf.get(setting) or "false"
    try:
        feed.spark.conf.set(setting, "true")
        frame = feed.read("s")
        assert frame.where("offset >= 8 AND topic = 's'").count() == 2
        assert frame.count() == 10
        assert frame.where("offset < 3").count() == 3
    finally:
        feed.spark.conf.set(setting, before)
