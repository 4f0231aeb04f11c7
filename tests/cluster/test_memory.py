"""A leader's memory is bounded, whatever its publishers send and however slow its followers are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from tests.cluster.clients import Cut, Publisher, channel_to, drained
from tests.cluster.nodes import Cluster, ClusterNode, cluster_of
from tests.etcd import Etcd
from tests.process_figures import resident
from tests.waiting import stand_still, until

MIB = 1 << 20
PART = MIB
PUBLISHERS = 5
KEPT_MAX = 160 * MIB  # beside what it has at rest: frames on their way, buffers of links and clients, two of each
SMALL: Final[dict[str, Any]] = {"cache_octets_max": 4 * MIB, "wal_octets_max": 16 * MIB, "wal_chunk_octets": 4 * MIB}


class Pouring:
    """Publishers of big messages, each until it is confirmed; `parts` are."""

    def __init__(self, nodes: list[ClusterNode]) -> None:
        self.nodes = nodes
        self.parts = 0
        self.is_over = Event()
        self.threads = [Thread(target=self.pour, args=(number,)) for number in range(PUBLISHERS)]

    def pour(self, number: int) -> None:
        queue = f"big{number}"
        while not self.is_over.is_set():
            with suppress(*Cut):
                channel = channel_to(self.nodes)
                channel.queue_declare(queue, durable=True, arguments={"x-max-length": 1})
                while not self.is_over.is_set():
                    channel.basic_publish("", queue, bytes(PART))
                    self.parts += 1
                channel.connection.close()


@contextmanager
def pouring(nodes: list[ClusterNode]) -> Iterator[Pouring]:
    made = Pouring(nodes)
    for thread in made.threads:
        thread.start()
    try:
        yield made
    finally:
        made.is_over.set()
        for thread in made.threads:
            thread.join()


def most_resident(cluster: Cluster, pour: Pouring, parts: int) -> int:
    """The most memory that a node has had at any time until so many more parts are confirmed."""
    most = 0
    end = pour.parts + parts

    def is_done() -> bool:
        nonlocal most
        with suppress(OSError):
            most = max(most, *(resident(node) for node in cluster.running()))
        return pour.parts >= end

    until(is_done, cluster.told, seconds=120)
    return most


def test_memory_of_nodes_is_bounded_under_publishers_of_big_messages(tmp_path: Path, etcd: Etcd) -> None:
    with cluster_of(tmp_path, etcd, cluster={"replica_timeout_ms": 10_000}, **SMALL) as cluster:
        nodes = list(cluster.nodes.values())
        rest = max(resident(node) for node in nodes)
        with pouring(nodes) as pour:
            assert most_resident(cluster, pour, 200) - rest < KEPT_MAX


def test_a_follower_that_hangs_costs_a_bounded_time_and_memory(tmp_path: Path, etcd: Etcd) -> None:
    """It reads nothing from its socket; the others go on without it, and with it again once it goes on."""
    with cluster_of(tmp_path, etcd, **SMALL) as cluster:
        publisher = Publisher(list(cluster.nodes.values()), "q")
        publisher.publish(20)
        hung = cluster.followers()[0]
        publisher.nodes = [node for node in cluster.nodes.values() if node is not hung]
        rest = max(resident(node) for node in publisher.nodes)
        stand_still(hung.pid)
        try:
            publisher.publish(20)  # its confirms wait until the hung one is put out
            assert hung.name not in cluster.record()["in_sync"]
            with pouring(publisher.nodes) as pour:
                assert most_resident(cluster, pour, 100) - rest < KEPT_MAX
        finally:
            os.kill(hung.pid, signal.SIGCONT)
        cluster.wait_in_sync(*cluster.nodes)
        publisher.publish(20)
        publisher.close()
        assert list(dict.fromkeys(drained(list(cluster.nodes.values()), "q"))) == list(range(60))
