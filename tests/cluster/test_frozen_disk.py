"""Nodes whose disk does not answer: a leader hands over at once, a follower is left behind, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.cluster.clients import Cut, channel_to, drained
from tests.cluster.nodes import Cluster, cluster_of
from tests.etcd import Etcd
from tests.frozen_disk import LoopDisk, loop_disk
from tests.waiting import until

TIMEOUT_MS = 2_000
HANDED_OVER = "has not answered for"
# From the first write that does not return: `replica_timeout_ms`, the change in etcd, the recovery of the next leader,
# and what a busy machine takes for the clients.
WITHIN_S = 15.0


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[str, LoopDisk]]:
    """A file system of its own for each node; to be asked for before clusters, which go first then."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(loop_disk(tmp_path / name / "data")) for name in "abc"}


@pytest.fixture
def cluster(disks: dict[str, LoopDisk], tmp_path: Path, etcd: Etcd) -> Iterator[Cluster]:
    """Three nodes, each on its own file system."""
    with cluster_of(tmp_path, etcd, cluster={"replica_timeout_ms": TIMEOUT_MS}, disk_free_min_octets=0) as made:
        yield made


def publish_until_confirmed(cluster: Cluster, body: bytes) -> float:
    """The seconds that a publisher needs who begins again wherever it was cut off."""
    began = time.monotonic()
    while True:
        with suppress(*Cut):
            channel = channel_to(cluster.running())
            channel.queue_declare("q", durable=True)
            channel.basic_publish("", "q", body)
            channel.connection.close()
            return time.monotonic() - began


def test_a_leader_whose_disk_does_not_answer_hands_over(cluster: Cluster, disks: dict[str, LoopDisk]) -> None:
    publish_until_confirmed(cluster, b"1")
    led = cluster.leader()
    disks[led.name].freeze()
    try:
        took_s = publish_until_confirmed(cluster, b"2")
        assert cluster.wait_led_by_another(led.name) is not led
        assert took_s < WITHIN_S, cluster.told()
        assert HANDED_OVER in led.log_text()
    finally:
        disks[led.name].thaw()
    cluster.wait_in_sync(*cluster.nodes)
    publish_until_confirmed(cluster, b"3")
    assert set(drained(cluster.running(), "q")) == {1, 2, 3}


def test_a_follower_whose_disk_does_not_answer_is_left_behind(cluster: Cluster, disks: dict[str, LoopDisk]) -> None:
    publish_until_confirmed(cluster, b"1")
    leads, left = cluster.leader().name, cluster.followers()[0].name
    disks[left].freeze()
    try:
        assert publish_until_confirmed(cluster, b"2") < WITHIN_S, cluster.told()
        until(lambda: left not in cluster.record()["in_sync"], cluster.told)
        assert cluster.leader().name == leads
    finally:
        disks[left].thaw()
    cluster.wait_in_sync(*cluster.nodes)
