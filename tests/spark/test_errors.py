"""What a query fails by is said in a few lines, whichever process of Spark it happens in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException

from forebay.spark import read
from tests.spark.conftest import Feed

LINES_MAX = 5


def said(query: Callable[[], object]) -> str:
    """The text of the error."""
    with pytest.raises(PySparkException) as caught:
        query()
    return str(caught.value)


def test_what_is_wrong_is_said_in_a_few_lines(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", [b"1"])
    away = feed.reader("s").option("forebay.servers", "127.0.0.1:1").option("retryMs", "0")
    rows = feed.spark.range(3).selectExpr("string(id) value")
    sink = rows.write.format("forebay").mode("append").option("forebay.servers", feed.server)
    queries: dict[str, Callable[[], object]] = {
        "no broker answers: 127.0.0.1:1: ": lambda: away.load().collect(),
        "Login was refused.": lambda: feed.read("s", **{"forebay.password": "wrong"}).collect(),
        "no queue 'nowhere' in vhost '/'": lambda: feed.read("nowhere").collect(),
        "did you mean forebay.password?": lambda: feed.read("s", **{"forebay.pasword": "x"}).collect(),
        "minOffsetsPerTrigger: an option of streams only": lambda: feed.read("s", minOffsetsPerTrigger=1).collect(),
        "no queue 'gone' in vhost '/'": lambda: sink.option("topic", "gone").save(),
        "mode: 'overwrite' cannot be": lambda: sink.mode("overwrite").option("topic", "s").save(),
    }
    texts = {expected: said(query) for expected, query in queries.items()}
    assert [text for expected, text in texts.items() if expected not in text] == []
    assert [text for text in texts.values() if len(text.splitlines()) > LINES_MAX] == []


def test_so_is_what_a_task_fails_by(feed: Feed) -> None:
    feed.stream("s")
    feed.publish("s", [b"1"])
    rows = read(feed.spark, "s", {"forebay.servers": feed.server})
    feed.channel.queue_delete("s")
    text = said(rows.collect)
    assert "no queue 's' in vhost '/'" in text
    assert len(text.splitlines()) <= LINES_MAX


def test_so_is_what_a_stream_fails_by(feed: Feed) -> None:
    query = feed.growing("nowhere").writeStream.format("noop").start()
    text = said(query.awaitTermination)
    assert "no queue 'nowhere' in vhost '/'" in text
    assert "Traceback" not in text
