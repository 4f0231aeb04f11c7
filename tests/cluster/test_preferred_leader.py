"""Leadership goes to the preferred node once it has been in sync for a while, and back to it when it returns."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.clients import Publisher, drained
from tests.cluster.nodes import cluster_of
from tests.etcd import Etcd
from tests.waiting import until


def test_leadership_comes_back_to_the_preferred_node(tmp_path: Path, etcd: Etcd) -> None:
    section = {"preferred_leader": "c", "preferred_after_s": 1}
    with cluster_of(tmp_path, etcd, cluster=section) as cluster:
        preferred = cluster.nodes["c"]
        until(lambda: cluster.record()["leader"] == "c", cluster.told)
        publisher = Publisher(list(cluster.nodes.values()), "work")
        publisher.publish(50)
        preferred.kill9()
        publisher.publish(50)
        assert cluster.wait_led_by_another("c") is not preferred
        preferred.start()
        until(lambda: cluster.record()["leader"] == "c", cluster.told)
        publisher.publish(50)
        cluster.wait_in_sync("a", "b", "c")
        assert list(dict.fromkeys(drained([preferred], "work"))) == list(range(150))
