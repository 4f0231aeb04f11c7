"""Health checks of a cluster say whether another node may be missed, and whether messages are confirmed."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.nodes import cluster_of
from tests.cluster.test_rabbitmq_api import asked, named
from tests.etcd import Etcd
from tests.waiting import until


def test_checks_fail_one_after_the_other_as_nodes_go(tmp_path: Path, etcd: Etcd) -> None:
    with cluster_of(tmp_path, etcd, http="127.0.0.1:0") as cluster:
        leader, (first, second) = cluster.leader(), cluster.followers()
        asked(leader, "/queues/%2F/q", "PUT", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
        critical, ready = "/health/checks/node-is-quorum-critical", "/health/checks/ready-to-serve-clients"
        size = "/health/checks/reached-target-cluster-size"
        leaderless = "/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern"
        for path in (critical, size, f"{leaderless}/q"):
            assert asked(first, path) == (200, {"status": "ok"}), path
        first.kill9()
        until(lambda: asked(leader, critical)[0] == 503, cluster.told)
        found = asked(leader, critical)[1]
        assert [each["name"] for each in found["queues"]] == ["q"] and "min_in_sync is 2" in found["reason"]
        assert asked(leader, ready)[0] == 200
        down = until(lambda: [each for each in asked(leader, "/nodes")[1] if not each["running"]], cluster.told)
        assert [each["name"] for each in down] == [named(first)]
        assert asked(leader, size)[1] | {"reason": ""} == {"status": "failed", "reason": "", "online": 2, "target": 3}
        assert asked(leader, f"{leaderless}/q")[0] == 200
        assert named(first) not in asked(leader, "/queues/%2F/q")[1]["online"]
        assert asked(leader, f"/healthchecks/node/{named(first)}") == (503, {"status": "failed", "reason": "nodedown"})
        second.kill9()
        until(lambda: asked(leader, ready)[0] == 503, cluster.told)
        assert [each["name"] for each in asked(leader, f"{leaderless}/q")[1]["queues"]] == ["q"]
        assert asked(leader, f"{leaderless}/other")[0] == 200
        assert "nothing is confirmed: 1 in sync answer, min_in_sync is 2" in asked(leader, ready)[1]["reason"]
        for node in (first, second):
            node.start()
        cluster.wait_in_sync("a", "b", "c")
        until(lambda: asked(leader, ready)[0] == 200 and asked(leader, critical)[0] == 200, cluster.told)
