"""Queries over a cluster of three nodes: the leader dies, and source and sink go on with another, each row once."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from forebay.client.blocks import BlockClient
from tests.cluster.clients import Publisher, channel_to
from tests.cluster.nodes import Cluster, cluster_of
from tests.etcd import etcd_in
from tests.waiting import until

STREAM = {"x-queue-type": "stream"}
HALF = 300


class StreamPublisher(Publisher):
    """Publishes numbers to a stream."""

    def declare(self) -> None:
        self.channel.queue_declare(self.queue, durable=True, arguments=STREAM)


def servers_of(cluster: Cluster) -> str:
    """All nodes, the leader first."""
    leader = cluster.leader()
    return ",".join(f"127.0.0.1:{node.amqp_port}" for node in [leader, *cluster.followers()])


def end(servers: str, queue: str) -> int:
    """How many records there are."""
    with BlockClient.connect(servers, "guest", "guest") as client:
        return client.describe(queue).end


def read(spark: SparkSession, servers: str, queue: str) -> DataFrame:
    return spark.read.format("forebay").option("forebay.servers", servers).option("subscribe", queue).load()


def test_a_query_goes_on_when_the_leader_dies(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "etcd"
    folder.mkdir()
    with etcd_in(folder, 1) as etcd, cluster_of(tmp_path, etcd) as cluster:
        servers = servers_of(cluster)
        publisher = StreamPublisher(list(cluster.nodes.values()), "in")
        publisher.publish(HALF)
        channel_to([cluster.leader()]).queue_declare("out", durable=True, arguments=STREAM)
        growing = spark.readStream.format("forebay").option("forebay.servers", servers).option("subscribe", "in")
        rows = growing.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "100").load()
        sink = rows.select("value").writeStream.format("forebay").option("forebay.servers", servers)
        query = sink.option("topic", "out").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        until(lambda: end(servers, "out") > 0, "the first batch")
        cluster.leader().kill9()
        publisher.publish(HALF)
        publisher.close()
        there = end(servers, "in")  # a number whose confirm was lost is there twice
        until(lambda: end(servers, "out") >= there, lambda: f"{query.exception()} {query.lastProgress}")
        query.stop()
        taken = sorted(int(row["value"]) for row in read(spark, servers, "in").select("value").collect())
        assert sorted(set(taken)) == list(range(2 * HALF))
        assert sorted(int(row["value"]) for row in read(spark, servers, "out").select("value").collect()) == taken
