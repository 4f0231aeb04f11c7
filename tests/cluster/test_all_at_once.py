"""All nodes are killed at once and started again: the next confirm waits for no time-out.

Each time after which a node acts without an answer (a silent leader, a silent follower, a key in etcd) is so long here
that a single wait for one of them takes longer than the whole test may.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.clients import Publisher
from tests.cluster.nodes import Cluster, ClusterNode, cluster_of
from tests.etcd import Etcd

TIMEOUT_MS = 30_000
PUT_OUT_S = 0.6 * TIMEOUT_MS / 1000
CONFIRM_S_MAX = PUT_OUT_S / 2  # it takes a few tenths of a second where the machine is quiet


@pytest.fixture
def patient(tmp_path: Path, etcd: Etcd) -> Iterator[Cluster]:
    """Three nodes that wait for very long where they have to wait, as no test but those of this file may."""
    section = {"replica_timeout_ms": TIMEOUT_MS, "etcd": {"endpoints": etcd.endpoints, "presence_s": 30}}
    with cluster_of(tmp_path, etcd, cluster=section) as made:
        yield made


def kill_all(cluster: Cluster) -> None:
    """SIGKILL for all nodes before one of them can see that another has gone."""
    running = cluster.running()
    for node in running:
        node.send_kill()
    for node in running:
        node.wait()


@pytest.mark.parametrize("missing", ["nobody", "leader"])
def test_a_confirm_waits_for_no_time_out_after_all_nodes_were_killed(patient: Cluster, missing: str) -> None:
    cluster = patient
    publisher = Publisher(list(cluster.nodes.values()), "work")
    publisher.publish(50)
    led = cluster.leader()
    epoch = cluster.record()["epoch"]
    # Without a follower it may have to wait: see "All nodes start again" in docs/reference/reliability.md.
    absent: dict[str, ClusterNode | None] = {"nobody": None, "leader": led}
    kill_all(cluster)
    started = [node for node in cluster.nodes.values() if node is not absent[missing]]
    for node in started:
        node.launch()
    for node in started:
        node.wait_ready()
    ready = time.monotonic()
    publisher.publish(1)
    took = time.monotonic() - ready
    assert took < CONFIRM_S_MAX, cluster.told()
    record = cluster.record()
    assert record["epoch"] == epoch + 1, f"leadership changed more than once:\n{cluster.told()}"
    assert record["leader"] in [node.name for node in started]
    found = publisher.channel.queue_declare("work", passive=True).method.message_count
    assert found >= publisher.confirmed == 51, "what was confirmed before is there"
    publisher.close()
