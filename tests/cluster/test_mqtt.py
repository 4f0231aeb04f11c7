"""MQTT over several nodes: a session has one connection wherever it comes, and outlives the node that it came by."""

from __future__ import annotations

from collections.abc import Sequence

from tests.cluster.clients import channel_to
from tests.cluster.nodes import Cluster, ClusterNode
from tests.conformance.mqtt.raw import (
    PINGREQ,
    PINGRESP,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Raw,
    acknowledge,
    connect,
    connected,
    number,
    puback,
    publish,
    will,
)
from tests.conformance.mqtt.v5.flows import LONG_S, expiry

SESSION_TAKEN_OVER = 0x8E
WILL_DELAY = b"\x18"
WILL = 0x04
WILL_QOS_1 = 0x08


def serve(nodes: Sequence[ClusterNode]) -> None:
    """Wait until clients of each of these are served."""
    for node in nodes:
        channel_to([node]).connection.close()


def back(node: ClusterNode, client: str) -> Raw:
    """A client whose session is there."""
    return connected(node, client, properties=expiry(LONG_S), clean=False, present=True)


def durable(node: ClusterNode, client: str) -> Raw:
    return connected(node, client, properties=expiry(LONG_S), clean=False)


def leaving_a_will(node: ClusterNode, client: str, delay_s: int = 0) -> Raw:
    raw = Raw(node)
    properties = WILL_DELAY + number(delay_s, 4) if delay_s else b""
    last = will("wills", client.encode(), properties=properties)
    raw.send(connect(client, properties=expiry(LONG_S), will=last, will_flags=WILL | WILL_QOS_1))
    raw.connack()
    return raw


def after_the_leader(cluster: Cluster) -> ClusterNode:
    """Kill the leader, and have it come back; the one that leads then."""
    leader = cluster.leader()
    leader.kill9()
    led_by = cluster.wait_led_by_another(leader.name)
    leader.start()
    cluster.wait_in_sync("a", "b", "c")
    serve([led_by])
    return cluster.leader()


def test_a_client_that_comes_back_by_another_node_takes_its_session_over(cluster: Cluster) -> None:
    nodes = [*cluster.followers(), cluster.leader()]
    serve(nodes)
    client = durable(nodes[-1], "roams")
    client.subscribe("a/#")
    for node in nodes:
        next_one = back(node, "roams")
        client.refused(SESSION_TAKEN_OVER)
        client = next_one
    assert connected(nodes[0], "writer").publish("a/b", b"where it is") == 0
    assert client.delivery().body == b"where it is"


def test_members_of_a_shared_subscription_are_on_different_nodes(cluster: Cluster) -> None:
    nodes = list(cluster.nodes.values())
    serve(nodes)
    readers = [connected(node, f"reader {node.name}") for node in nodes]
    for reader in readers:
        reader.subscribe("$share/group/jobs/#", qos=0)
    writer = connected(nodes[0], "writer")
    bodies = [b"%d" % at for at in range(30)]
    for body in bodies:
        assert writer.publish("jobs/x", body) == 0
    found: list[list[bytes]] = []
    for reader in readers:
        reader.send(PINGREQ)
        own: list[bytes] = []
        while (got := reader.packet())[0] != PINGRESP[0]:
            own.append(reader.parsed(*got).body)
        found.append(own)
    assert sorted(each for own in found for each in own) == sorted(bodies), "each goes to one of them"
    assert all(found), "and each gets some"


def test_wills_of_clients_whose_node_died(cluster: Cluster) -> None:
    leader, (node, other) = cluster.leader(), cluster.followers()
    serve([leader, node, other])
    watcher = durable(other, "watcher")
    watcher.subscribe("wills")
    leaving_a_will(node, "by a follower")
    late = leaving_a_will(leader, "by the leader", delay_s=1)
    node.kill9()
    first = watcher.delivery()
    assert first.body == b"by a follower"
    watcher.send(puback(first.id))
    node.start()
    cluster.wait_in_sync("a", "b", "c")
    cluster.leader().kill9()
    watcher.close()
    late.close()
    serve([other])
    watcher = back(other, "watcher")
    # The first may come again: no answer says that the acknowledgement of it was kept.
    while (came := watcher.delivery()).body == first.body:
        watcher.send(puback(came.id))
    assert came.body == b"by the leader"


def test_a_handshake_of_qos_2_goes_on_with_the_next_leader_at_each_step(cluster: Cluster) -> None:
    channel = channel_to([cluster.leader()])
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "t.#")
    channel.connection.close()
    writer = durable(cluster.leader(), "writer")
    # The PUBLISH is sent, and its PUBREC is not taken.
    writer.send(publish("t/1", b"published", 2, 1))
    writer.expect(PUBREC)
    writer = back(after_the_leader(cluster), "writer")
    writer.send(publish("t/1", b"published", 2, 1, bits=8))
    writer.expect(PUBREC)
    # The PUBREC was taken, and no PUBREL is sent.
    writer = back(after_the_leader(cluster), "writer")
    writer.send(acknowledge(PUBREL, 1))
    writer.expect(PUBCOMP)
    # The PUBREL was sent, and its PUBCOMP is not taken.
    writer = back(after_the_leader(cluster), "writer")
    writer.send(acknowledge(PUBREL, 1))
    writer.expect(PUBCOMP)
    led_by = cluster.leader()
    channel = channel_to([led_by])
    assert [channel.basic_get("q", auto_ack=True)[2] for _ in range(2)] == [b"published", None]


def test_a_delivery_of_qos_2_goes_on_with_the_next_leader_at_each_step(cluster: Cluster) -> None:
    serve([cluster.leader()])
    reader = durable(cluster.leader(), "reader")
    reader.subscribe("t/#", qos=2)
    assert connected(cluster.leader(), "writer").publish("t/1", b"delivered") == 0
    serve([cluster.leader()])
    first = reader.delivery()
    reader.send(acknowledge(0x40, first.id))
    writer = connected(cluster.leader(), "another")
    writer.send(publish("t/2", b"twice", 2, 7))
    writer.expect(PUBREC)
    writer.send(acknowledge(PUBREL, 7))
    writer.expect(PUBCOMP)
    sent = reader.delivery()
    assert (sent.body, sent.qos) == (b"twice", 2)
    # It was delivered, and no PUBREC is sent: it comes again, and says so.
    reader = back(after_the_leader(cluster), "reader")
    again = reader.delivery()
    assert (again.body, again.id) == (b"twice", sent.id)
    reader.send(acknowledge(PUBREC, again.id))
    assert reader.expect(PUBREL)[:2] == number(again.id)
    reader.send(acknowledge(PUBCOMP, again.id))
    reader.quiet()
    # All of it is over: the message never comes again. A PUBREL may, for no sync is made for a PUBCOMP alone.
    reader = back(after_the_leader(cluster), "reader")
    reader.send(PINGREQ)
    while (got := reader.packet())[0] != PINGRESP[0]:
        assert got == (PUBREL, number(again.id))
        reader.send(acknowledge(PUBCOMP, again.id))
