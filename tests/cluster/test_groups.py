"""Folders and clusters: one that was made from a copy is another, and a single node becomes a cluster and one again."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess
from tests.cluster.clients import Cut, Publisher
from tests.cluster.nodes import Cluster, ClusterNode
from tests.etcd import Etcd
from tests.waiting import until


def publish(node: BrokerProcess, first: int, count: int) -> None:
    """Numbers for the queue `work`, confirmed."""
    channel = channel_of(node)
    channel.queue_declare("work", durable=True)
    for number in range(first, first + count):
        channel.basic_publish("", "work", b"%d" % number)
    channel.connection.close()


def numbers(node: BrokerProcess) -> list[int]:
    """Those in the queue, which stay there: none is acknowledged."""
    channel = channel_of(node)
    found: list[int] = []
    while True:
        method, _, body = channel.basic_get("work")
        if method is None or body is None:
            channel.connection.close()
            return found
        found.append(int(body))


def channel_of(node: BrokerProcess) -> BlockingChannel:
    """A confirming channel, once there is a node that leads."""
    return until(partial(opened, node), node.log_text)


def opened(node: BrokerProcess) -> BlockingChannel | None:
    try:
        parameters = pika.ConnectionParameters("127.0.0.1", node.amqp_port, socket_timeout=2, stack_timeout=5)
        channel = pika.BlockingConnection(parameters).channel()
        channel.confirm_delivery()
    except Cut:
        return None
    return channel


def told_and_ended(node: ClusterNode, words: str) -> None:
    """The node must end by itself, with these words in its log."""
    node.launch()
    assert node.wait() == 1
    assert words in node.log_text()


def test_a_single_node_becomes_a_cluster_and_one_again_without_moving_data(tmp_path: Path, etcd: Etcd) -> None:
    single = BrokerProcess(tmp_path / "a")
    single.start()
    publish(single, 0, 100)
    single.stop()
    cluster = Cluster(tmp_path, etcd, cluster={})
    try:
        first = cluster.nodes["a"]
        assert first.data == single.data
        first.start()
        cluster.wait_in_sync("a")
        for node in list(cluster.nodes.values())[1:]:
            node.start()
        cluster.wait_in_sync("a", "b", "c")
        publisher = Publisher([cluster.nodes["b"]], "work")
        publisher.confirmed = 100
        publisher.publish(50)
        publisher.close()
        for node in cluster.nodes.values():
            node.stop()
        single.start()
        publish(single, 150, 50)
        assert numbers(single) == list(range(200))
        single.stop()
        # It has written what the others never got: it is none of them any more.
        until(lambda: not first.is_running(), cluster.told)
        told_and_ended(first, "holds the data of a broker that stood alone")
        # And once more: the cluster's record is taken away, and its folder founds another one.
        etcd.members[0].control("del", "--prefix", "/forebay/tests/")
        first.start()
        cluster.wait_in_sync("a")
        told_and_ended(cluster.nodes["b"], "is of another cluster than 'tests'")
        shutil.rmtree(cluster.nodes["c"].data)
        cluster.nodes["c"].start()
        cluster.wait_in_sync("a", "c")
        assert numbers(first) == list(range(200))
        for name in "ca":
            cluster.nodes[name].stop()
    finally:
        for each in (single, *cluster.nodes.values()):
            each.abandon()


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_folder_of_a_cluster_that_was_made_from_the_same_folder_is_refused(
    tmp_path: Path, etcd: Etcd, name: str
) -> None:
    single = BrokerProcess(tmp_path / "single")
    single.start()
    publish(single, 0, 10)
    single.stop()
    section: dict[str, object] = {"members": 1}
    first = ClusterNode(tmp_path / "first", etcd, "a", section)
    other = ClusterNode(tmp_path / "other", etcd, "a", {**section, "name": "other"})
    moved = ClusterNode(tmp_path / "moved", etcd, name, section)
    try:
        for node in (first, other):
            shutil.copytree(single.data, node.data, dirs_exist_ok=True)
            node.start()
            publish(node, 10, 5)
            node.stop()
        shutil.copytree(other.data, moved.data, dirs_exist_ok=True)
        told_and_ended(moved, "is of another cluster than 'tests'")
        first.start()
        assert numbers(first) == list(range(15))
        first.stop()
    finally:
        for each in (single, first, other, moved):
            each.abandon()
