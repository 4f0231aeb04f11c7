"""Bodies as columns; what is none fails by name, is told in a column, or goes to a queue, and is counted."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.core.errors import OptionError
from forebay.spark import decode
from tests.protobuf_files import descriptors, message
from tests.spark.conftest import Feed
from tests.waiting import until

GOOD = [b'{"n": 1, "name": "a"}', b'{"n": 2}', b' {"name": null}']
BAD = {
    b"": "it is no JSON object",
    b"no JSON": "it is no JSON object",
    b'[{"n": 1}]': "it is no JSON object",
    b'{"n": "x"}': "it is no JSON object with these types",
    b'{"n": 1': "it is no JSON object with these types",
    b'{"name": "\xff"}': "it is not UTF-8",
}
SCHEMA = "n int, name string"


def test_bad_bodies_are_never_silently_null(feed: Feed, tmp_path: Path) -> None:
    feed.stream("in")
    feed.publish("in", [*GOOD, *BAD])
    frame = feed.read("in")
    rows = decode(frame, SCHEMA, on_error="column").orderBy("offset").collect()
    assert [(row["n"], row["name"]) for row in rows[:3]] == [(1, "a"), (2, None), (None, None)]
    assert [row["decode_error"] for row in rows] == [None] * 3 + list(BAD.values())
    with pytest.raises(PySparkException, match=r"body of topic in offset [3-8]: it is no"):
        decode(frame, SCHEMA).collect()
    assert decode(frame.where("offset < 3"), SCHEMA).count() == 3

    feed.stream("bad")
    sink = {"forebay.servers": feed.server, "topic": "bad", "transactionId": "once"}
    for _ in range(2):
        good = decode(frame, SCHEMA, on_error="quarantine", quarantine=sink)
        assert sorted(row["offset"] for row in good.collect()) == [0, 1, 2]
    letters = feed.read("bad", includeHeaders="true").orderBy("offset").collect()
    assert [bytes(row["value"]) for row in letters] == list(BAD)
    said = {each["key"]: each["value"].decode() for each in letters[1]["headers"]}
    assert said == {"x-decode-error": "it is no JSON object", "x-decode-queue": "in", "x-decode-offset": "4"}

    feed.stream("late")
    stream = decode(
        feed.growing("in"),
        SCHEMA,
        on_error="quarantine",
        quarantine={"forebay.servers": feed.server, "topic": "late"},
        checkpoint=str(tmp_path / "bad"),
    )
    counted = stream.groupBy().agg(F.count("*").alias("good")).writeStream.format("memory").queryName("counted")
    query = counted.outputMode("complete").trigger(availableNow=True).start()
    query.awaitTermination()
    observed = query.recentProgress[0]["observedMetrics"]["forebay_decode"]
    assert (observed["rows"], observed["bad"]) == (9, 6)
    assert feed.spark.sql("SELECT good FROM counted").collect()[0][0] == 3
    with feed.client() as client:
        until(lambda: client.describe("late").end == len(BAD), "what was bad")
    for each in feed.spark.streams.active:
        each.stop()


def test_arguments_are_refused_by_name(feed: Feed) -> None:
    feed.stream("in")
    frame = feed.read("in")
    with pytest.raises(OptionError, match="on_error: 'drop' is none of fail, column, quarantine"):
        decode(frame, SCHEMA, on_error="drop")
    with pytest.raises(OptionError, match="quarantine: the options of a sink"):
        decode(frame, SCHEMA, on_error="quarantine")
    with pytest.raises(OptionError, match="columns: 'offset' is a column of every queue"):
        decode(frame, "offset int")
    with pytest.raises(OptionError, match="value: the bodies are missing; there are offset"):
        decode(frame.select("offset"), SCHEMA)
    with pytest.raises(OptionError, match="format: 'xml' is none of json, avro, protobuf"):
        decode(frame, SCHEMA, format="xml")
    with pytest.raises(OptionError, match="skip: 5: for format='avro' and 'protobuf' only"):
        decode(frame, SCHEMA, skip=5)
    with pytest.raises(OptionError, match="descriptor: for format='protobuf' only, and this is 'json'"):
        decode(frame, SCHEMA, descriptor="file")


def test_avro_and_protobuf_bodies(feed: Feed) -> None:
    schema = {
        "type": "record",
        "name": "Reading",
        "fields": [{"name": "level", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
    bodies = []
    for level in (1, 2):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"level": level, "note": None})
        bodies.append(b"\0\0\0\0\x07" + out.getvalue())
    feed.stream("avro")
    feed.publish("avro", [*bodies, b"\0\0\0\0\x07", b"no"])
    text = json.dumps(schema)
    rows = decode(feed.read("avro"), text, format="avro", skip=5, on_error="column").orderBy("offset").collect()
    assert [(row["level"], row["note"]) for row in rows] == [(1, None), (2, None), (None, None), (None, None)]
    assert [bool(row["decode_error"]) for row in rows] == [False, False, True, True]
    with pytest.raises(PySparkException, match="body of topic avro offset 2: "):
        decode(feed.read("avro"), text, format="avro", skip=5).collect()

    said = message("tests.Reading")
    said.device, said.total = "pump-1", 1 << 63
    said.place.floor = -1
    feed.stream("protobuf")
    feed.publish("protobuf", [said.SerializeToString(), b"\xff"])
    counted = decode(
        feed.growing("protobuf"), "tests.Reading", format="protobuf", descriptor=descriptors(), on_error="column"
    )
    kept = counted.select("device", "total", F.col("place.floor").alias("floor"), "decode_error")
    query = kept.writeStream.format("memory").queryName("read").trigger(availableNow=True).start()
    query.awaitTermination()
    observed = query.recentProgress[0]["observedMetrics"]["forebay_decode"]
    assert (observed["rows"], observed["bad"]) == (2, 1)
    rows = feed.spark.sql("SELECT * FROM read ORDER BY decode_error NULLS FIRST").collect()
    assert (rows[0]["device"], rows[0]["total"], rows[0]["floor"]) == ("pump-1", 1 << 63, -1)
    assert "DecodeError" in rows[1]["decode_error"]
