"""Queues and groups that somebody has paused: what they deliver, take and keep, through restarts too."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from tests.behaviour.kinds import KINDS, NAME, Kind, next_message, open_channel
from tests.broker_process import BrokerProcess
from tests.waiting import until

GROUP = "g"


def control_of(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def consume(channel: BlockingChannel, group: str = GROUP) -> list[bytes]:
    """Begin to consume in a group; the list gets what comes, which is settled at once."""
    found: list[bytes] = []
    arguments = {"x-consumer-group": group, "x-stream-offset": "first"}
    channel.basic_qos(prefetch_count=10)

    def take(_channel: object, method: object, _properties: object, body: bytes) -> None:
        found.append(body)
        channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

    channel.basic_consume(NAME, take, arguments=arguments)
    return found


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.survives_restart], ids=lambda kind: kind.name)
def test_a_paused_queue_delivers_nothing_until_it_is_resumed(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    with control_of(broker) as control:
        control.run("queue.pause", queue=NAME)
        control.run("queue.pause", queue=NAME)  # once more changes nothing
    channel.basic_publish("", NAME, b"1")
    found = consume(channel)
    channel.connection.process_data_events(0.2)
    assert found == []
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    found = consume(channel)
    channel.basic_publish("", NAME, b"2")
    channel.connection.process_data_events(0.2)
    assert found == []
    with control_of(broker) as control:
        assert control.run("queue.show", queue=NAME)["paused"] is True
        assert "'code': 'paused'" in str(control.run("message.explain", queue=NAME, offset=0))
        control.run("queue.resume", queue=NAME)
    until(lambda: found == [b"1", b"2"], meanwhile=lambda: channel.connection.process_data_events(0.05))


def test_a_paused_group_leaves_the_others_alone(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare(NAME, durable=True)
    paused, other = consume(channel), consume(channel, "other")
    with control_of(broker) as control:
        control.run("group.pause", queue=NAME, group=GROUP)
        channel.basic_publish("", NAME, b"1")
        until(lambda: other == [b"1"], meanwhile=lambda: channel.connection.process_data_events(0.05))
        assert paused == []
        groups = {each["group"]: each["paused"] for each in control.items("group.list", queue=NAME)}
        assert groups == {GROUP: True, "other": False}
    broker.stop()
    broker.start()
    channel = open_channel(broker)
    paused = consume(channel)
    channel.connection.process_data_events(0.2)
    assert paused == []
    with control_of(broker) as control:
        control.run("group.resume", queue=NAME, group=GROUP)
    until(lambda: paused == [b"1"], meanwhile=lambda: channel.connection.process_data_events(0.05))


def test_what_a_consumer_holds_may_be_settled_while_its_queue_is_paused(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare(NAME, durable=True)
    for body in (b"1", b"2"):
        channel.basic_publish("", NAME, body)
    tag, _, body = next_message(channel)
    assert body == b"1"
    with control_of(broker) as control:
        control.run("queue.pause", queue=NAME)
        channel.basic_ack(tag)
        until(lambda: control.run("queue.show", queue=NAME)["unacked"] == 0)
        assert channel.basic_get(NAME)[0] is None
        control.run("queue.resume", queue=NAME)
    assert channel.basic_get(NAME)[2] == b"2"
