"""Too few nodes are left, or etcd has lost the record: one node goes on alone when it is told to."""

from __future__ import annotations

import os

from tests.cluster.clients import Publisher, drained
from tests.cluster.nodes import Cluster, ClusterNode
from tests.fork_server import FORKS
from tests.waiting import until


def force(node: ClusterNode, *words: str, code: int = 0) -> str:
    """The output of `forebay cluster force` for a node that does not run."""
    command = ["cluster", "force", "--config", str(node.config), "--data", str(node.data), "--yes", *words]
    done = FORKS.run(command, dict(os.environ))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_node_in_sync_goes_on_alone_and_others_come_back(cluster: Cluster) -> None:
    publisher = Publisher(list(cluster.nodes.values()), "work")
    publisher.publish(100)
    publisher.close()
    survivor = cluster.followers()[0]
    for node in cluster.nodes.values():
        node.kill9()
    assert f"{survivor.name} leads alone" in force(survivor)
    survivor.start()
    publisher = Publisher([survivor], "work")
    publisher.confirmed = 100
    publisher.publish(50)
    publisher.close()
    for node in cluster.nodes.values():
        if node is not survivor:
            node.start()
    cluster.wait_in_sync("a", "b", "c")
    assert cluster.record()["leader"] == survivor.name
    until(lambda: cluster.record()["min_in_sync"] == 2, cluster.told)
    assert drained([survivor], "work") == list(range(150))


def test_a_node_that_may_lack_something_is_refused_unless_that_is_said(cluster: Cluster) -> None:
    publisher = Publisher([cluster.leader()], "work")
    follower = cluster.followers()[0]
    follower.kill9()
    publisher.publish(20)
    cluster.wait_in_sync(*[name for name in "abc" if name != follower.name])
    publisher.close()
    assert "it is not in sync" in force(follower, code=1)
    assert "is in use by" in force(cluster.leader(), code=1)


def test_a_record_that_is_gone_is_made_anew_by_force_alone(cluster: Cluster) -> None:
    publisher = Publisher([cluster.leader()], "work")
    publisher.publish(30)
    publisher.close()
    for node in cluster.nodes.values():
        node.kill9()
    cluster.etcd.members[0].control("del", "--prefix", "/forebay/tests/")
    first = cluster.nodes["a"]
    first.start()
    until(lambda: "etcd has no record of the cluster" in first.log_text(), first.log_text)
    assert cluster.record() == {}
    first.kill9()
    assert "nobody knows what it lacks" in force(first, code=1)
    force(first, "--may-lose")
    first.start()
    assert drained([first], "work") == list(range(30))
