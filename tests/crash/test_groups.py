"""A group that was deleted is gone after a kill -9, with what it pinned, and one that was moved goes on from there."""

from __future__ import annotations

from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess
from tests.waiting import until

ROUNDS = 3
A_ROUND = 300
BODY = bytes(4000)


def connect(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def channel_of(broker: BrokerProcess) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).channel()
    channel.confirm_delivery()
    return channel


def make_group(channel: BlockingChannel, name: str) -> None:
    """A group that stops at the first message of the queue."""
    tag = channel.basic_consume("q", lambda *_: None, arguments={"x-consumer-group": name})
    channel.basic_cancel(tag)


def test_a_deletion_and_a_move_that_were_answered_outlive_kills(tmp_path: Path) -> None:
    """Small files make housekeeping rewrite what the group pins meanwhile."""
    broker = BrokerProcess(tmp_path, wal_octets_max=1 << 20, wal_chunk_octets=1 << 20, segment_octets_max=1 << 20)
    broker.start()
    try:
        channel_of(broker).queue_declare("q", durable=True)
        for turn in range(ROUNDS):
            end = (turn + 1) * A_ROUND
            channel = channel_of(broker)
            make_group(channel, "idle")
            for number in range(end - A_ROUND, end):
                channel.basic_publish("", "q", b"%08d" % number + BODY)
            while channel.basic_get("q", auto_ack=True)[0] is not None:
                pass
            channel.connection.close()
            with connect(broker) as control:
                assert control.run("queue.show", queue="q")["start"] == end - A_ROUND
                back = control.run("group.seek", queue="q", group="", to=str(end - 10))
                assert back == {"offset": end - 10}
                control.run("group.delete", queue="q", group="idle")
                broker.kill9()
            broker.start()
            with connect(broker) as control:
                assert [each["group"] for each in control.items("group.list", queue="q")] == [""]
                assert control.run("queue.show", queue="q")["start"] == end - 10
                assert control.run("queue.show", queue="q")["ready"] == 10
            channel = channel_of(broker)
            for number in range(end - 10, end):
                method, properties, body = channel.basic_get("q", auto_ack=True)
                assert method is not None and properties.headers is None  # its counts have begun anew
                assert body == b"%08d" % number + BODY
            channel.connection.close()
        until(lambda: broker.octets_in_segments() == 0, "segments of what nobody wants are gone")
    finally:
        broker.stop()
