"""Filters as Columns: the same answers as the broker's, in Spark's own words or by our own code."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.types import StructField, StructType

from forebay.core.errors import OptionError
from forebay.core.message import AMQP091, Properties
from forebay.filter.parser import parse
from forebay.filter.values import condition_of
from forebay.spark import matching, needs, register_matches
from forebay.spark.schema import TYPES
from tests.records import Stored, filters, records
from tests.spark.conftest import Feed

SCHEMA: Final = (
    "row int, topic string, offset long, exchange string, routing_key string, format int, raw_properties binary,"
    " value binary, timestamp timestamp, delivery_count int"
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
PYTHON: Final = "ArrowEvalPython"

# In Spark's own words: what each is for `RECORD`.
NATIVE: Final = {
    "routing_key = 'a.b' AND exchange IN ('ex', 'other') AND queue BEGINS WITH 'ord'": True,
    "routing_key < 'a/b' OR routing_key > 'a'": True,
    "NOT (routing_key ENDS WITH 'b')": False,
    "topic = 'a/b' AND protocol = 'amqp091' AND qos = 1": True,
    "offset BETWEEN 40 AND 42.5 AND offset != 41.5 AND offset < 1e30 AND offset > -9999999999999999999": True,
    "offset = 41.5 OR offset = '42' AND offset < 'x'": True,
    "offset IN (1, 42, 43) AND offset NOT IN (7, 'x') AND octets = 12 AND deliveries IS NOT NULL": True,
    "offset BEGINS WITH '4' AND offset ENDS WITH 2": True,
    "stored_ms = 1700000000123 AND stored_ms <= 1700000000123.5 AND stored_ms != 1700000000124": True,
    "stored_ms > 1700000000122 AND stored_ms >= '1700000000123' AND stored_ms < 1e18 AND age_ms > 1000": True,
    "stored_ms < 1700000000123": False,
    "routing_key = TRUE": None,
    "exchange != 5 / 0": None,
    "1 < 2 AND offset > deliveries OR offset > octets": True,
}
# What Spark has no words of the same meaning for.
OWN: Final = {
    "/qty > 5": True,
    "/qty > 5 AND header.n = 1 AND content_type = 'j'": True,
    "routing_key LIKE '^a[.]'": True,
    "LENGTH(routing_key) = 3": True,
    "routing_key > 5": True,
    "offset + 1 = 43": True,
    "queue IS NAN": True,
    "offset = 42 OR /gone = 1": True,
    "/gone = 1 AND offset = 42": None,
}


@pytest.fixture(autouse=True)
def compiled(spark: SparkSession) -> Iterator[None]:
    """Expressions of Spark as users have them: other tests have them interpreted, which starts sooner."""
    settings = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {name: spark.conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def said(headers: list[tuple[str, object]]) -> Properties:
    made = Properties()
    made.headers = headers
    made.content_type = "j"
    return made


RECORD: Final = Stored(AMQP091, b"ex", b"a.b", said([("n", 1)]), b'{"qty": 12} ', 1_700_000_000_123_442, 42)


def table(spark: SparkSession, stored: list[Stored]) -> DataFrame:
    rows = []
    for number, each in enumerate(stored):
        row = {**each.row(), "row": number, "timestamp": EPOCH + timedelta(microseconds=each.stored_us)}
        rows.append(tuple(row[name.split()[0]] for name in SCHEMA.split(", ")))
    return spark.createDataFrame(rows, SCHEMA).coalesce(1)


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan())


@given(st.lists(filters, min_size=60, max_size=60), st.lists(records, min_size=25, max_size=25))
@settings(max_examples=3)
def test_a_column_is_what_the_filter_is(spark: SparkSession, texts: list[str], stored: list[Stored]) -> None:
    frame = table(spark, stored)
    columns = [matching(text, frame).alias(f"c{number}") for number, text in enumerate(texts)]
    found = sorted(frame.select("row", *columns).collect())
    for row, each in zip(found, stored, strict=True):
        for number, text in enumerate(texts):
            held = condition_of(parse(text).root.evaluate(each.subject()))
            assert row[f"c{number}"] == held, (text, each.row())


def test_what_spark_can_say_needs_no_python(spark: SparkSession) -> None:
    frame = table(spark, [RECORD])
    columns = {**NATIVE, **OWN}
    made = {text: matching(text, frame) for text in columns}
    row = frame.select(*[column.alias(str(number)) for number, column in enumerate(made.values())]).first()
    assert row is not None
    assert dict(zip(columns, row, strict=True)) == columns
    assert PYTHON not in plan(frame.select(*[made[text] for text in NATIVE]))
    assert [text for text in OWN if PYTHON not in plan(frame.select(made[text]))] == []


def test_spark_looks_at_its_own_part_first(spark: SparkSession) -> None:
    frame = table(spark, [RECORD])
    chosen = frame.where(matching("/qty > 5 AND offset > 1000 AND (routing_key = 'a.b' AND header.n = 1)", frame))
    own, _, native = plan(chosen).partition(PYTHON)
    assert plan(chosen).count(PYTHON) == 1
    assert "routing_key" in native
    assert "1000" in native
    assert "1000" not in own
    assert chosen.count() == 0


def test_columns_have_the_names_that_the_table_gives_them(spark: SparkSession) -> None:
    frame = table(spark, [RECORD]).select(
        F.col("value").cast("string").alias("payload"), F.col("routing_key").alias("k")
    )
    chosen = frame.where(matching("/qty = 12 AND routing_key = 'a.b'", frame, value="payload", routing_key="k"))
    assert chosen.count() == 1


def test_a_column_that_the_table_lacks_is_named(spark: SparkSession) -> None:
    frame = table(spark, [RECORD]).select("offset", "value")
    with pytest.raises(OptionError, match=r"^filter: it needs the column 'routing_key'; the table has offset, value$"):
        matching("/a = 1 AND routing_key = 'x'", frame)


def test_filters_in_sql(spark: SparkSession) -> None:
    register_matches(spark)
    table(spark, [RECORD, RECORD]).createOrReplaceTempView("messages")
    columns = dict([*list(NATIVE.items())[:4], *list(OWN.items())[:3]])
    calls = ", ".join(f'forebay_matches("{text}", struct(*))' for text in columns)
    for row in spark.sql(f"SELECT {calls} FROM messages").collect():
        assert dict(zip(columns, row, strict=True)) == columns
    varied = "SELECT forebay_matches(IF(row = 0, 'offset = 42', NULL), struct(*)) AS held FROM messages ORDER BY row"
    assert [row.held for row in spark.sql(varied).collect()] == [True, None]
    with pytest.raises(PythonException, match="it needs the column 'exchange'; the table has value"):
        spark.sql("SELECT forebay_matches('exchange = 1', struct(value)) FROM messages").collect()


def test_a_column_chooses_what_the_broker_chooses(feed: Feed) -> None:
    feed.stream("orders")
    feed.channel.confirm_delivery()
    for number in range(60):
        properties = pika.BasicProperties(
            content_type="application/json" if number % 2 else None,
            headers={"n": number, "region": "eu" if number % 3 else "us"},
            priority=number % 10,
        )
        body = f'{{"qty": {number}, "tags": ["t{number % 7}", null], "text": "{number % 4}"}}'.encode()
        feed.channel.basic_publish("", "orders", body if number % 5 else b"no JSON", properties)
    filters = [
        "/qty > 30 AND header.region = 'eu'",
        "/tags = 't3' OR priority = 4",
        "content_type IS NULL AND offset >= 10 AND NOT /text = 2",
        "/text < 3 AND routing_key = 'orders' AND exchange IS NULL",
        "header.n % 7 = 1 AND stored_ms > 1000 AND protocol = 'amqp091'",
    ]
    for filter in filters:
        columns = sorted({"offset", *needs(filter)})
        frame = feed.reader("orders").schema(StructType([StructField(name, TYPES[name]) for name in columns])).load()
        chosen = sorted(row.offset for row in frame.where(matching(filter, frame)).select("offset").collect())
        by_broker = feed.reader("orders", filter=filter).schema("offset long").load()
        assert chosen == sorted(row.offset for row in by_broker.collect()), filter
        assert 0 < len(chosen) < 60
