"""Three nodes go from an earlier version to this one, node by node, under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.clients import drained
from tests.cluster.nodes import Cluster
from tests.conformance.mqtt.raw import connected
from tests.etcd import Etcd
from tests.versions import extract_before, has_history, run_from
from tools.rolling_upgrade import QUEUE, Load

EXPIRY = b"\x11\xff\xff\xff\xff"  # of a session that stays


def test_nothing_is_lost_on_the_way_to_this_version(tmp_path: Path, etcd: Etcd) -> None:
    if not has_history():
        pytest.skip("the repository's history is not here, so there is no earlier version")
    sources = extract_before(tmp_path / "before")
    cluster = Cluster(tmp_path, etcd, cluster={})
    try:
        for node in cluster.nodes.values():
            run_from(node, sources)
        cluster.start()
        reader = connected(cluster.leader(), "reader", properties=EXPIRY)
        reader.subscribe("news", qos=1)
        reader.vanish()
        load = Load(cluster)
        for name, node in cluster.nodes.items():
            node.stop()
            node.wrapper = []
            node.start()
            cluster.wait_in_sync(*cluster.nodes)
            writer = connected(cluster.leader(), f"writer while {name} is new")
            assert writer.publish("news", name.encode()) in (0, 16)
            writer.close()
        confirmed = load.stop()
        found = drained(list(cluster.nodes.values()), QUEUE)
        assert not set(range(confirmed)) - set(found)
        assert list(dict.fromkeys(found)) == sorted(set(found))
        reader = connected(cluster.leader(), "reader", properties=EXPIRY, clean=False, present=True)
        assert [reader.delivery().body for _ in cluster.nodes] == [name.encode() for name in cluster.nodes]
        reader.close()
        for node in cluster.nodes.values():
            node.finish()
    finally:
        for node in cluster.nodes.values():
            node.abandon()
