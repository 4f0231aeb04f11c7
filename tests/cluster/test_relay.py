"""Clients that come to a node which does not lead are served by the one that does."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.clients import Publisher, channel_to, drained
from tests.cluster.nodes import Cluster, cluster_of, control
from tests.conformance.mqtt.raw import connect, connected
from tests.etcd import Etcd
from tests.waiting import until

RESUMED = {"x-stream-offset": "resume", "x-consumer-group": "readers"}


def test_clients_of_every_node_see_the_same(cluster: Cluster) -> None:
    publisher = Publisher(cluster.followers()[:1], "work")
    publisher.publish(200)
    publisher.close()
    assert drained(cluster.followers()[1:], "work") == list(range(200))
    reader = connected(cluster.followers()[0], "reader")
    reader.subscribe("a/#")
    assert connected(cluster.followers()[1], "writer").publish("a/b", b"over two nodes") == 0
    assert reader.delivery().body == b"over two nodes"


def test_a_client_of_a_follower_goes_on_when_the_leader_dies(cluster: Cluster) -> None:
    leader = cluster.leader()
    followers = cluster.followers()
    publisher = Publisher(followers, "work")
    publisher.publish(100)
    leader.kill9()
    publisher.publish(100)
    publisher.close()
    assert list(dict.fromkeys(drained(followers, "work"))) == list(range(200))


def test_who_comes_to_a_follower_is_named_by_the_address_that_he_has(cluster: Cluster) -> None:
    channel = channel_to(cluster.followers()[:1])
    own = channel.connection._impl._transport._sock.getsockname()
    listed = control(cluster.leader(), "connection", "list", "--json")
    assert f"127.0.0.1:{own[1]}" in [each["peer"] for each in json.loads(listed)]


def test_the_status_says_how_all_stand(cluster: Cluster) -> None:
    follower = cluster.followers()[0]
    found = json.loads(control(follower, "cluster", "status", "--json"))
    assert (found["clustered"], found["name"], found["leader"]) == (True, "tests", cluster.leader().name)
    assert sorted(found["in_sync"]) == ["a", "b", "c"] and found["min_in_sync"] == 2
    assert sorted((each["node"], each["in_sync"]) for each in found["members"]) == [(name, True) for name in "abc"]
    follower.kill9()
    cluster.wait_in_sync(*[name for name in "abc" if name != follower.name])
    found = json.loads(control(cluster.leader(), "cluster", "status", "--json"))
    (away,) = [each for each in found["members"] if each["node"] == follower.name]
    assert not away["in_sync"] and away["why"]


def read_half_of_a_stream(channel: BlockingChannel) -> None:
    channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(20):
        channel.basic_publish("", "events", b"%d" % number)
    channel.basic_qos(prefetch_count=10)
    consumed = channel.consume("events", arguments=RESUMED, inactivity_timeout=10)
    for _ in range(10):
        method, _, _ = next(consumed)
        assert method is not None
        channel.basic_ack(method.delivery_tag)
    channel.queue_declare("events", passive=True)  # the broker has the acknowledgements


def test_leadership_is_handed_over_on_demand(cluster: Cluster) -> None:
    publisher = Publisher(list(cluster.nodes.values()), "work")
    publisher.publish(50)
    before, to = cluster.leader(), cluster.followers()[0]
    read_half_of_a_stream(channel_to([before]))
    control(cluster.followers()[1], "cluster", "transfer", to.name)
    until(lambda: cluster.record()["leader"] == to.name, cluster.told)
    publisher.publish(50)
    cluster.wait_in_sync("a", "b", "c")
    assert "begins anew as a follower" in before.log_text()
    publisher.close()
    assert list(dict.fromkeys(drained([to], "work"))) == list(range(100))
    _, _, body = next(channel_to([to]).consume("events", arguments=RESUMED, inactivity_timeout=10))
    assert body == b"10"  # what was acknowledged just before the transfer


def test_who_must_not_leave_is_named_with_the_reason(cluster: Cluster) -> None:
    first, second = cluster.followers()
    control(cluster.leader(), "cluster", "remove", first.name, "--yes")
    refused = control(cluster.leader(), "cluster", "remove", "nobody", "--yes", code=1)
    assert "'nobody' is no member" in refused
    second.kill9()
    until(lambda: second.name not in cluster.record()["in_sync"], cluster.told)  # until then it might still answer
    refused = control(cluster.leader(), "cluster", "transfer", second.name, code=1)
    assert second.name in refused


def test_a_client_is_told_where_the_leader_is(tmp_path: Path, etcd: Etcd) -> None:
    with cluster_of(tmp_path, etcd, "ab", cluster={"clients": "redirect", "members": 2}) as cluster:
        leader, (follower,) = cluster.leader(), cluster.followers()
        with socket.create_connection(("127.0.0.1", follower.mqtt_port), 10) as client:
            client.sendall(connect("c"))
            connack = client.recv(4096)
        assert connack[3] == 0x9C  # use another server
        assert f"127.0.0.1:{leader.mqtt_port}".encode() in connack
        channel_to([leader]).connection.close()
