"""A node is drained, or stopped: leadership goes first, and clients are told where to go."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker

from tests.cluster.clients import Publisher, channel_to, drained
from tests.cluster.nodes import Cluster, ClusterNode, control
from tests.conformance.mqtt.raw import DISCONNECTED, V311, Raw, connect, connected, properties_of, split_block
from tests.waiting import until

USE_ANOTHER_SERVER = 0x9C
SERVER_REFERENCE = 0x1C


def reference_in(properties: list[tuple[int, object]]) -> str:
    """The address that a client is sent to."""
    (found,) = [value for id, value in properties if id == SERVER_REFERENCE]
    return found.decode() if isinstance(found, bytes) else str(found)


def told_to_leave(client: Raw) -> str:
    """The address in the DISCONNECT that must come now, after which the connection ends."""
    rest = client.expect(DISCONNECTED)
    assert rest[0] == USE_ANOTHER_SERVER, rest
    found = reference_in(properties_of(split_block(rest[1:])[0]))
    assert client.ended()
    return found


def refused_at(node: ClusterNode) -> str:
    """The address that a client is sent to which comes to a drained node."""
    client = Raw(node)
    client.send(connect("late"))
    return reference_in(client.connack(USE_ANOTHER_SERVER))


def members(cluster: Cluster) -> dict[str, dict[str, object]]:
    """As the leader tells of them, whoever that is by then."""
    return {each["node"]: each for each in cluster.status()["members"]}


def addresses(nodes: list[ClusterNode]) -> list[str]:
    return [f"127.0.0.1:{node.mqtt_port}" for node in nodes]


def test_clients_of_a_drained_follower_are_told_where_to_go(cluster: Cluster) -> None:
    leader, (node, other) = cluster.leader(), cluster.followers()
    five, three = connected(node, "five"), connected(node, "three", V311)
    stays = connected(other, "stays")
    channel = channel_to([node])
    control(leader, "cluster", "drain", node.name)
    assert told_to_leave(five) in addresses([leader, other])
    assert three.ended()
    with pytest.raises(ConnectionClosedByBroker, match=r"another node serves clients.*connect to 127") as caught:
        channel.connection.process_data_events(20)
    assert caught.value.reply_code == 320
    assert refused_at(node) in addresses([leader, other])
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    stays.quiet()
    assert [name for name, each in members(cluster).items() if each["drained"]] == [node.name]
    assert members(cluster)[node.name]["in_sync"], "it keeps the data as before"
    refused = control(leader, "cluster", "drain", other.name, code=1)
    assert "1 would be in sync, and min_in_sync is 2" in refused
    assert f"'{node.name}' is drained" in control(leader, "cluster", "transfer", node.name, code=1)
    control(leader, "cluster", "undrain", node.name)
    until(lambda: not members(cluster)[node.name]["drained"], cluster.told)
    connected(node, "back").leave()


def test_a_leader_that_is_drained_hands_over_first_and_is_drained_until_it_is_started_again(cluster: Cluster) -> None:
    leader, followers = cluster.leader(), cluster.followers()
    publisher = Publisher(followers, "work")
    publisher.publish(50)
    client = connected(leader, "of the leader")
    control(followers[0], "cluster", "drain", leader.name)
    sent = told_to_leave(client)
    assert cluster.record()["leader"] != leader.name
    assert sent in addresses(followers)
    publisher.publish(50)
    publisher.close()
    cluster.wait_in_sync("a", "b", "c")
    until(lambda: members(cluster)[leader.name]["drained"], cluster.told)
    assert refused_at(leader) in addresses(followers)
    leader.stop()
    leader.start()
    cluster.wait_in_sync("a", "b", "c")
    until(lambda: not members(cluster)[leader.name]["drained"], cluster.told)
    connected(leader, "back").leave()
    assert list(dict.fromkeys(drained(followers, "work"))) == list(range(100))


def test_clients_of_a_node_that_is_stopped_are_told_where_to_go(cluster: Cluster) -> None:
    leader, (node, other) = cluster.leader(), cluster.followers()
    by_leader, by_node = connected(leader, "by the leader"), connected(node, "by a follower")
    node.stop()
    assert told_to_leave(by_node) in addresses([leader, other])
    leader_address = addresses([other])[0]
    cluster.wait_in_sync(leader.name, other.name)
    leader.stop()
    assert told_to_leave(by_leader) == leader_address
    assert cluster.record()["leader"] == other.name
