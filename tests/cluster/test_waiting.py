"""A confirm that waits for another node: message, connection, top and status say for which."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from threading import Thread

from tests.cluster.clients import Publisher
from tests.cluster.nodes import ClusterNode, cluster_of, control
from tests.cluster.test_rabbitmq_api import WAIT_S_MAX, asked
from tests.etcd import Etcd
from tests.waiting import stand_still, until

CLUSTER = {"replica_timeout_ms": 60_000}  # a node that stands still stays in sync for long


def test_what_waits_for_a_node_is_told_by_its_name(tmp_path: Path, etcd: Etcd) -> None:
    with cluster_of(tmp_path, etcd, "ab", cluster={**CLUSTER, "members": 2}, http="127.0.0.1:0") as cluster:
        leader, (follower,) = cluster.leader(), cluster.followers()
        publisher = Publisher([leader], "q")
        stand_still(follower.pid)
        publishing = Thread(target=publisher.publish, args=(1,))
        publishing.start()
        words = f"waits for node {follower.name}, "
        found = until(lambda: explained(leader), cluster.told)
        assert found is not None
        assert words in found["text"] and found["text"].endswith("frames behind")
        (shown,) = until(lambda: [each for each in asked(leader, "/connections")[1] if words in each["forebay"]["why"]])
        assert shown["forebay"]["why"].startswith("its confirms wait: ")
        assert words in control(leader, "status", "--over", "0")
        assert words in control(leader, "top", "--once")
        os.kill(follower.pid, signal.SIGCONT)
        publishing.join(WAIT_S_MAX)
        assert publisher.confirmed == 1 and explained(leader) is None
        publisher.close()


def explained(node: ClusterNode) -> dict[str, str] | None:
    """The reason for which the message is not confirmed, if it is not."""
    found = json.loads(control(node, "message", "explain", "--queue", "q", "--offset", "0", "--json"))
    reasons = [each for one in found["found"] for each in one["reasons"]]
    return next((each for each in reasons if each["code"] == "not_committed"), None)
