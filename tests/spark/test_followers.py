"""Spark reads from nodes that do not lead, and goes on whichever of them dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.cluster.nodes import Cluster, cluster_of
from tests.cluster.readers import COUNT, LONG, FollowersSeen, fill, read_octets, servers_of
from tests.etcd import etcd_in
from tests.waiting import until

LOOKS_MAX = 15_000  # guards against a hang
pytestmark = pytest.mark.timeout(600)  # so does this: a cluster and Spark want the same cores


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes, all in sync, with the stream `in`."""
    (tmp_path / "etcd").mkdir()
    with etcd_in(tmp_path / "etcd", 1) as etcd, cluster_of(tmp_path, etcd) as made:
        fill(made, "in")
        yield made


def read(spark: SparkSession, cluster: Cluster, **options: str) -> DataFrame:
    """The stream, in six tasks."""
    reader = spark.read.format("forebay").option("forebay.servers", servers_of(cluster)).option("subscribe", "in")
    return reader.option("minPartitions", "6").options(**options).load().select("offset", "value")


def offsets(frame: DataFrame) -> list[int]:
    return sorted(int(row["offset"]) for row in frame.selectExpr("offset", "length(value)").collect())


def test_all_rows_come_from_followers(spark: SparkSession, cluster: Cluster) -> None:
    assert offsets(read(spark, cluster, readFrom="leader")) == list(range(COUNT))
    assert set(read_octets(cluster).values()) == {0}

    def all_rows() -> None:
        assert offsets(read(spark, cluster)) == list(range(COUNT))

    seen = FollowersSeen(cluster)
    until(lambda: seen.look(all_rows), cluster.told)
    until(lambda: sum(read_octets(cluster).values()) >= COUNT * LONG, cluster.told, meanwhile=all_rows)


def test_a_query_goes_on_when_a_follower_and_then_the_leader_dies(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    begun, go_on = str(tmp_path / "begun"), str(tmp_path / "go-on")

    def halting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path
        from threading import Event

        for batch in batches:
            Path(begun).touch()
            looks = 0
            while not Path(go_on).exists() and looks < LOOKS_MAX:
                Event().wait(0.02)
                looks += 1
            yield batch.select(["offset"])

    found: list[int] = []
    rows = read(spark, cluster).mapInArrow(halting, "offset bigint")
    query = Thread(target=lambda: found.extend(int(row["offset"]) for row in rows.collect()))
    query.start()
    until(Path(begun).exists, cluster.told)
    follower, leader = cluster.followers()[0], cluster.leader()
    follower.kill9()
    follower.start()
    cluster.wait_in_sync(*"abc")
    leader.kill9()
    cluster.wait_led_by_another(leader.name)
    Path(go_on).touch()
    query.join(300)
    assert sorted(found) == list(range(COUNT))
    leader.start()
