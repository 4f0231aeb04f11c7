"""TLS with certificates of both sides, and passwords that are in no option: of source, sink and jobs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from forebay.client.control import ControlClient
from forebay.core.errors import OptionError, Unreachable
from forebay.spark import letters, read
from forebay.spark.options import parse_options
from forebay.spark.reading.reader import ForebayReader
from forebay.spark.schema import default_schema
from tests.certificates import Certificates
from tests.spark.conftest import Feed

SECRET = "not to be seen 5518"


@pytest.fixture
def secure(start_feed: Callable[..., Feed], tmp_path: Path) -> tuple[Feed, dict[str, str]]:
    """A broker that wants certificates, a user of its own, and the options for that."""
    made = Certificates(tmp_path / "tls")
    required = {"tls_client_ca": str(made.ca), "tls_client_auth": "required", "amqps": "127.0.0.1:0"}
    feed = start_feed(**made.options(**required))
    with ControlClient.connect(feed.server, "guest", "guest") as client:
        client.run("user.add", user="analyst", password=SECRET, tags=["administrator"])
        client.run("permission.set", user="analyst", vhost="/", configure=".*", write=".*", read=".*")
    certificate, key = made.issue("analyst")
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    return feed, {
        "forebay.servers": f"127.0.0.1:{feed.broker.port('amqps')}",
        "forebay.user": "analyst",
        "forebay.passwordFile": str(secret),
        "forebay.tlsCaFile": str(made.ca),
        "forebay.tlsCertificate": str(certificate),
        "forebay.tlsKey": str(key),
    }


def test_source_sink_stream_and_jobs(secure: tuple[Feed, dict[str, str]], tmp_path: Path) -> None:
    feed, options = secure
    spark = feed.spark
    for queue in ("in", "out"):
        feed.stream(queue)
    feed.channel.queue_declare("dead", durable=True)
    feed.publish("in", [b"%d" % number for number in range(50)])
    feed.publish("dead", [b"letter"])
    source = spark.read.format("forebay").options(**options).option("subscribe", "in").load()
    source.select("value").write.format("forebay").options(**options).option("topic", "out").mode("append").save()
    stream = spark.readStream.format("forebay").options(**options, subscribe="in", startingOffsets="earliest").load()
    query = (
        stream.select("value")
        .writeStream.format("forebay")
        .options(**options, topic="out", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert read(spark, "out", options, columns=["offset"]).count() == 100
    assert letters(spark, ["dead"], options).count() == 1
    assert SECRET not in source._jdf.queryExecution().toString()


def test_a_password_of_the_environment(secure: tuple[Feed, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    feed, options = secure
    feed.stream("in")
    feed.publish("in", [b"x"])
    given = {**options, "forebay.passwordEnv": "READER_SECRET"}
    del given["forebay.passwordFile"]
    # The workers of a local session have the environment of the JVM, which has started.
    with pytest.raises(PySparkException, match=r"forebay\.passwordEnv: 'READER_SECRET' is not in the environment"):
        feed.spark.read.format("forebay").options(**given, subscribe="in").load().collect()
    monkeypatch.setitem(feed.spark.sparkContext.environment, "READER_SECRET", SECRET)
    assert read_there(feed.spark, given) == 1


def read_there(spark: SparkSession, options: dict[str, str]) -> int:
    """Rows that tasks read which have the environment of the session."""

    def rows(_: object) -> int:
        from forebay.client.blocks import TIMEOUT_S, BlockClient

        with parse_options({**options, "subscribe": "in"}).access.connect(BlockClient, TIMEOUT_S) as client:
            return client.describe("in").end

    return int(spark.sparkContext.parallelize([None], 1).map(rows).collect()[0])


def test_what_is_sent_to_tasks_has_no_password(secure: tuple[Feed, dict[str, str]]) -> None:
    _, options = secure
    asked = parse_options({**options, "subscribe": "in"})
    assert asked.access.secret() == SECRET
    assert SECRET.encode() not in pickle.dumps(ForebayReader(asked, default_schema(False)))
    plain = parse_options({"forebay.servers": "x:1", "forebay.password": SECRET, "subscribe": "in"})
    assert SECRET not in repr(plain)


def test_a_broker_that_is_not_to_be_trusted(secure: tuple[Feed, dict[str, str]], tmp_path: Path) -> None:
    feed, options = secure
    stranger = Certificates(tmp_path / "stranger")
    with pytest.raises(Unreachable, match="certificate verify failed"):
        read(feed.spark, "in", {**options, "forebay.tlsCaFile": str(stranger.ca), "retryMs": 0})
    with pytest.raises(OptionError, match=r"forebay\.tlsCertificate: '/nowhere' cannot be used"):
        read(feed.spark, "in", {**options, "forebay.tlsCertificate": "/nowhere"})
    with pytest.raises(OptionError, match=r"forebay\.passwordFile: '/nowhere' cannot be read here"):
        read(feed.spark, "in", {**options, "forebay.passwordFile": "/nowhere"})
    assert "READER_SECRET" not in os.environ
