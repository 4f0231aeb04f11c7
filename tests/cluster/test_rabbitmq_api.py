"""RabbitMQ's API tells of the cluster what is so, whichever node it is asked of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cluster.clients import channel_to
from tests.cluster.nodes import Cluster, ClusterNode, cluster_of
from tests.etcd import etcd_in
from tests.waiting import until

WAIT_S_MAX = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with HTTP, all in sync, for all tests here: none of them ends one."""
    folder = tmp_path_factory.mktemp("cluster")
    with etcd_in(folder, 1) as etcd, cluster_of(folder, etcd, http="127.0.0.1:0") as made:
        yield made


def asked(node: ClusterNode, path: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
    """Status and answer of a request to a node."""
    answer = httpx.request(method, f"{node.http_url}/api{path}", auth=("guest", "guest"), json=body, timeout=WAIT_S_MAX)
    return answer.status_code, answer.json() if answer.content else None


def named(node: ClusterNode) -> str:
    return f"forebay@{node.name}"


def test_all_members_are_nodes(cluster: Cluster) -> None:
    leader, follower = cluster.leader(), cluster.followers()[0]
    for node in cluster.nodes.values():
        status, nodes = asked(node, "/nodes")
        assert (status, [each["name"] for each in nodes]) == (200, ["forebay@a", "forebay@b", "forebay@c"])
        assert [each["running"] for each in nodes] == [True, True, True]
    found = until(lambda: told(leader, follower), cluster.told)
    assert found["disk_free"] > 0 and found["mem_used"] > 0 and found["uptime"] >= 0
    assert (found["forebay"]["role"], found["forebay"]["in_sync"]) == ("follower", True)
    assert found["forebay"]["link"]["up"] and found["forebay"]["link"]["octets_out"] > 0
    assert found["forebay"]["store"] == cluster.record()["in_sync"][follower.name]
    assert asked(leader, f"/nodes/{named(follower)}/memory") == (200, {"memory": "not_available"})
    status, refused = asked(leader, "/nodes/forebay@nobody")
    assert status == 404 and "'forebay@nobody' does not exist" in refused["reason"]


def told(leader: ClusterNode, follower: ClusterNode) -> Any:
    """What the leader tells of a follower, once that has told it of itself."""
    found = asked(leader, f"/nodes/{named(follower)}")[1]
    return found if "disk_free" in found else None


def test_the_overview_names_the_node_and_the_cluster(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        overview = asked(node, "/overview")[1]
        assert (overview["node"], overview["cluster_name"]) == (named(cluster.leader()), "tests")
        assert {each["node"] for each in overview["listeners"]} == {named(cluster.leader())}
    assert asked(cluster.leader(), "/cluster-name") == (200, {"name": "tests"})
    (vhost,) = asked(cluster.leader(), "/vhosts")[1]
    assert vhost["cluster_state"] == dict.fromkeys(("forebay@a", "forebay@b", "forebay@c"), "running")


@pytest.mark.parametrize("queue_type", ["classic", "quorum", "stream"])
def test_a_durable_queue_of_any_type_is_on_every_member(cluster: Cluster, queue_type: str) -> None:
    leader = cluster.leader()
    path = f"/queues/%2F/durable-{queue_type}"
    assert asked(leader, path, "PUT", {"durable": True, "arguments": {"x-queue-type": queue_type}})[0] == 201
    found = asked(cluster.followers()[0], path)[1]
    assert (found["type"], found["node"], found["leader"]) == (queue_type, named(leader), named(leader))
    assert found["members"] == found["online"] == ["forebay@a", "forebay@b", "forebay@c"]


def test_a_queue_that_is_not_durable_is_on_the_leader_alone(cluster: Cluster) -> None:
    leader = cluster.leader()
    channel = channel_to([leader])
    channel.queue_declare("passing", exclusive=True)
    found = asked(leader, "/queues/%2F/passing")[1]
    assert found["leader"] == named(leader)
    assert found["members"] == found["online"] == [named(leader)]
    channel.connection.close()


def test_the_members_of_a_quorum_queue_are_those_of_the_group(cluster: Cluster) -> None:
    leader = cluster.leader()
    asked(leader, "/queues/%2F/q", "PUT", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    status, found = asked(leader, "/queues/quorum/%2F/q/status")
    assert (status, [each["Node Name"] for each in found]) == (200, ["forebay@a", "forebay@b", "forebay@c"])
    states = {each["Node Name"]: each["Raft State"] for each in found}
    assert states == {named(node): "leader" if node is leader else "follower" for node in cluster.nodes.values()}
    assert {each["Term"] for each in found} == {cluster.record()["epoch"]}
    asked(leader, "/queues/%2F/plain", "PUT", {"durable": True})
    status, refused = asked(leader, "/queues/quorum/%2F/plain/status")
    assert status == 400 and "'plain' is of type classic" in refused["reason"]


def test_what_is_so_already_is_done_and_what_cannot_be_says_what_to_do(cluster: Cluster) -> None:
    leader, follower = cluster.leader(), named(cluster.followers()[0])
    asked(leader, "/queues/%2F/q", "PUT", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    for method, path, done, code in (
        ("POST", "/queues/quorum/%2F/q/replicas/add", {"node": follower}, 204),
        ("DELETE", "/queues/quorum/%2F/q/replicas/delete", {"node": "forebay@gone"}, 202),
        ("POST", f"/queues/quorum/replicas/on/{follower}/grow", {"strategy": "all"}, 204),
    ):
        assert asked(leader, path, method, done) == (code, None), path
    refusals: list[tuple[str, str, object, int, str]] = [
        ("POST", "/queues/quorum/%2F/q/replicas/add", {"node": "forebay@gone"}, 400, "'forebay@gone' is no member"),
        ("DELETE", "/queues/quorum/%2F/q/replicas/delete", {"node": follower}, 400, "forebay cluster remove"),
        ("POST", f"/queues/quorum/replicas/on/{follower}/grow", {"strategy": "x"}, 400, "strategy: 'x'"),
        ("POST", "/queues/quorum/replicas/on/forebay@gone/grow", {"strategy": "all"}, 404, "does not exist"),
        ("DELETE", f"/queues/quorum/replicas/on/{follower}/shrink", None, 400, "a member has every queue"),
        ("POST", "/rebalance/queues", None, 400, "forebay cluster transfer"),
    ]
    for method, path, body, status, words in refusals:
        code, refused = asked(leader, path, method, body)
        assert code == status and words in refused["reason"], (path, refused)


def test_what_is_asked_of_members_is_in_force_or_refused(cluster: Cluster) -> None:
    leader = cluster.leader()
    for number, status in ((3, 201), (1, 201), (4, 400)):
        arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": number}
        asked_for = {"durable": True, "arguments": arguments}
        code, refused = asked(leader, f"/queues/%2F/sized-{number}", "PUT", asked_for)
        assert code == status
    assert "x-quorum-initial-group-size" in refused["reason"] and "4 is more than the 3 members" in refused["reason"]
    assert len(asked(leader, "/queues/%2F/sized-1")[1]["members"]) == 3
    policy = {"pattern": ".*", "definition": {"target-group-size": 5}}
    code, refused = asked(leader, "/policies/%2F/size", "PUT", policy)
    assert code == 400 and "target-group-size: 5 is more than the 3 members" in refused["reason"]
    located = {"durable": True, "arguments": {"x-queue-leader-locator": "client-local"}}
    code, refused = asked(leader, "/queues/%2F/located", "PUT", located)
    assert code == 400 and "x-queue-leader-locator" in refused["reason"] and "'client-local'" in refused["reason"]
