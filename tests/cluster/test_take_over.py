"""A node dies, hangs or stops: clients that come again go on with another, and nothing confirmed is lost."""

from __future__ import annotations

import os
import shutil
import signal
import threading

from tests.cluster.clients import Publisher, drained
from tests.cluster.nodes import Cluster, control
from tests.waiting import WAIT_S_MAX, stand_still

NO_CONFIRM_S = 1.5  # longer than a member may be silent before others go on without it


def distinct(numbers: list[int]) -> list[int]:
    """Each once, in order: what was published again as its confirm was lost is there twice."""
    return list(dict.fromkeys(numbers))


def test_clients_go_on_with_another_node_when_the_leader_dies(cluster: Cluster) -> None:
    leader = cluster.leader()
    followers = cluster.followers()
    publisher = Publisher([*followers, leader], "work")
    publisher.publish(200)
    leader.kill9()
    publisher.publish(200)
    assert cluster.wait_led_by_another(leader.name) in followers
    publisher.close()
    assert distinct(drained(followers, "work")) == list(range(400))


def test_a_node_that_died_comes_back_and_is_in_sync(cluster: Cluster) -> None:
    leader = cluster.leader()
    followers = cluster.followers()
    publisher = Publisher(list(cluster.nodes.values()), "work")
    publisher.publish(50)
    leader.kill9()
    publisher.publish(50)
    cluster.wait_in_sync(*[node.name for node in followers])
    leader.start()
    cluster.wait_in_sync("a", "b", "c")
    for other in followers:  # one after the other dies, and comes back
        other.kill9()
        publisher.nodes = [node for node in cluster.nodes.values() if node is not other]
        publisher.publish(50)
        other.start()
        cluster.wait_in_sync("a", "b", "c")
    publisher.close()
    assert distinct(drained(list(cluster.nodes.values()), "work")) == list(range(200))


def test_not_one_confirm_waits_for_etcd(cluster: Cluster) -> None:
    publisher = Publisher([cluster.leader()], "work")
    for member in cluster.etcd.members:
        member.kill()
    publisher.publish(200)
    for member in cluster.etcd.members:
        cluster.etcd.restart(member)
    publisher.publish(50)
    publisher.close()
    assert drained([cluster.leader()], "work") == list(range(250))


def test_below_min_in_sync_nothing_is_confirmed_and_nothing_is_lost(cluster: Cluster) -> None:
    leader = cluster.leader()
    publisher = Publisher([leader], "work")
    publisher.publish(10)
    first, second = cluster.followers()
    first.kill9()
    publisher.publish(10)
    second.kill9()
    waiting = threading.Thread(target=publisher.publish, args=(1,), daemon=True)
    waiting.start()
    waiting.join(NO_CONFIRM_S)
    assert waiting.is_alive() and publisher.confirmed == 20
    first.start()
    waiting.join(WAIT_S_MAX)
    assert publisher.confirmed == 21
    publisher.publish(9)
    publisher.close()
    assert distinct(drained([leader], "work")) == list(range(30))


def test_a_leader_that_hangs_is_followed_by_another_and_begins_anew(cluster: Cluster) -> None:
    leader = cluster.leader()
    publisher = Publisher(list(cluster.nodes.values()), "work")
    publisher.publish(50)
    stand_still(leader.pid)
    publisher.nodes = cluster.followers()
    publisher.publish(50)
    assert cluster.wait_led_by_another(leader.name) is not leader
    os.kill(leader.pid, signal.SIGCONT)
    cluster.wait_in_sync("a", "b", "c")
    assert "begins anew as a follower" in leader.log_text()
    publisher.publish(50)
    publisher.close()
    assert distinct(drained(cluster.followers() + [cluster.leader()], "work")) == list(range(150))


def test_a_leader_that_is_stopped_hands_over_first(cluster: Cluster) -> None:
    leader = cluster.leader()
    publisher = Publisher(list(cluster.nodes.values()), "work")
    publisher.publish(50)
    leader.stop()
    assert cluster.record()["leader"] != leader.name  # before its process has ended
    publisher.nodes = [node for node in cluster.nodes.values() if node is not leader]
    publisher.publish(50)
    leader.start()
    cluster.wait_in_sync("a", "b", "c")
    publisher.close()
    assert distinct(drained([cluster.leader()], "work")) == list(range(100))


def test_a_follower_that_is_stopped_is_not_missed(cluster: Cluster) -> None:
    follower = cluster.followers()[0]
    publisher = Publisher([cluster.leader()], "work")
    publisher.publish(50)
    follower.stop()
    publisher.publish(50)
    cluster.wait_in_sync(*[name for name in "abc" if name != follower.name])
    follower.start()
    cluster.wait_in_sync("a", "b", "c")
    publisher.close()
    assert distinct(drained([cluster.leader()], "work")) == list(range(100))


def test_a_node_with_an_empty_folder_copies_the_files_of_the_leader(cluster: Cluster) -> None:
    follower = cluster.followers()[0]
    publisher = Publisher([cluster.leader()], "work")
    publisher.publish(300)
    before = cluster.record()["in_sync"][follower.name]
    follower.kill9()
    shutil.rmtree(follower.data)
    control(cluster.leader(), "cluster", "transfer", cluster.followers()[1].name)  # whose log begins with a new file
    publisher.nodes = [node for node in cluster.nodes.values() if node is not follower]
    publisher.publish(100)
    follower.start()
    cluster.wait_in_sync("a", "b", "c")
    assert cluster.record()["in_sync"][follower.name] != before
    publisher.close()
    for node in [node for node in cluster.nodes.values() if node is not follower][:1]:
        node.kill9()
    assert distinct(drained(cluster.running(), "work")) == list(range(400))
