"""Everything durable is there when another node leads: queues of every kind, sessions, handshakes, what waits."""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.clients import channel_to
from tests.cluster.nodes import Cluster, ClusterNode
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBREC,
    connected,
    number,
    publish,
    user,
)
from tests.conformance.mqtt.v5.flows import LONG_S, expiry, publish_whole
from tests.waiting import until

PUBREL = 0x62


def serves(node: ClusterNode) -> None:
    """Wait until clients of this node are served."""
    channel_to([node]).connection.close()


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """All that is ready, taken for good."""
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def headers(**values: object) -> pika.BasicProperties:
    return pika.BasicProperties(headers={name.replace("_", "-"): value for name, value in values.items()})


def prepare_queues(channel: BlockingChannel) -> None:
    """A stream, a dead letter, a transaction, a delayed message, and one that was published once."""
    channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
    for at in range(5):
        channel.basic_publish("", "events", b"event %d" % at)
    channel.queue_declare("dead", durable=True)
    dying = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("work", durable=True, arguments=dying)
    channel.basic_publish("", "work", b"refused")
    method, _, _ = channel.basic_get("work")
    assert method is not None
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare("once", durable=True)
    channel.basic_publish("", "once", b"first", headers(x_producer_id="p", x_sequence=7))
    channel.queue_declare("later", durable=True)
    channel.basic_publish("", "later", b"delayed", headers(x_delay=3_600_000, x_delay_id="d"))
    channel.queue_declare("held", durable=True)
    for body in (b"held", b"waiting"):
        channel.basic_publish("", "held", body)
    assert channel.basic_get("held")[2] == b"held"
    transaction = channel.connection.channel()
    transaction.tx_select()
    transaction.basic_publish("", "once", b"committed")
    transaction.tx_commit()
    transaction.basic_publish("", "once", b"not committed")


def check_queues(channel: BlockingChannel) -> None:
    assert bodies(channel, "dead") == [b"refused"]
    channel.basic_publish("", "held", b"new")
    held = [channel.basic_get("held", auto_ack=True) for _ in range(3)]
    told = [(body, method.redelivered) for method, _, body in held if method is not None]
    assert told == [(b"held", True), (b"waiting", True), (b"new", False)]  # of the first two nobody knows
    channel.basic_publish("", "once", b"again", headers(x_producer_id="p", x_sequence=7))
    assert bodies(channel, "once") == [b"first", b"committed"]
    channel.basic_qos(prefetch_count=10)
    found: list[bytes] = []
    for _, _, body in channel.consume("events", arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
        assert body is not None
        found.append(body)
        if len(found) == 5:
            break
    channel.cancel()
    assert found == [b"event %d" % at for at in range(5)]


def test_queues_of_every_kind(cluster: Cluster) -> None:
    leader = cluster.leader()
    prepare_queues(channel_to([leader]))
    leader.kill9()
    led_by = cluster.wait_led_by_another(leader.name)
    channel = channel_to([led_by])
    check_queues(channel)
    assert bodies(channel, "later") == []


def test_sessions_retained_messages_and_handshakes(cluster: Cluster) -> None:
    leader = cluster.leader()
    serves(leader)
    reader = connected(leader, "reader", properties=expiry(LONG_S), clean=False)
    reader.subscribe("a/#")
    reader.vanish()
    writer = connected(leader, "writer", properties=expiry(LONG_S), clean=False)
    assert writer.publish("a/b", b"for the session") == 0
    writer.send(publish("state", b"retained", 1, 9, bits=1))
    writer.expect(PUBACK)
    writer.send(publish("a/twice", b"exactly once", 2, 10))
    writer.expect(PUBREC)
    leader.kill9()
    led_by = cluster.wait_led_by_another(leader.name)
    serves(led_by)
    writer = connected(led_by, "writer", properties=expiry(LONG_S), clean=False, present=True)
    writer.send(publish("a/twice", b"exactly once", 2, 10, bits=8))  # it never had the PUBREC
    writer.expect(PUBREC)
    writer.send(bytes([PUBREL, 2]) + number(10))
    reader = connected(led_by, "reader", properties=expiry(LONG_S), clean=False, present=True)
    assert [reader.delivery().body for _ in range(2)] == [b"for the session", b"exactly once"]
    other = connected(led_by, "other")
    other.subscribe("state")
    assert other.delivery().body == b"retained"


def test_what_was_settled_and_committed_does_not_come_again(cluster: Cluster) -> None:
    leader = cluster.leader()
    channel = channel_to([leader])
    channel.queue_declare("work", durable=True)
    for at in range(20):
        channel.basic_publish("", "work", b"%d" % at)
    for _ in range(10):
        method, _, _ = channel.basic_get("work")
        assert method is not None
        channel.basic_ack(method.delivery_tag)
    until(lambda: channel.queue_declare("work", passive=True).method.message_count == 10)
    channel.basic_publish("", "work", b"20")  # its confirm: the frame with the settlements is committed by now, too
    leader.kill9()
    led_by = cluster.wait_led_by_another(leader.name)
    assert bodies(channel_to([led_by]), "work") == [b"%d" % at for at in range(10, 21)]


def test_a_publish_that_says_which_it_is_is_taken_once_over_mqtt(cluster: Cluster) -> None:
    leader = cluster.leader()
    channel = channel_to([leader])
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "t.1")
    told = user("x-producer-id", "p") + user("x-sequence", "7")
    publish_whole(connected(leader, "publisher"), "t/1", b"one", 1, told)
    leader.kill9()
    led_by = cluster.wait_led_by_another(leader.name)
    channel = channel_to([led_by])
    publish_whole(connected(led_by, "publisher"), "t/1", b"again", 1, told)
    assert bodies(channel, "q") == [b"one"]
