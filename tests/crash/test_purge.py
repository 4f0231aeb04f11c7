"""What was purged before a kill -9 stays away."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from tests.broker_process import BrokerProcess


@pytest.mark.parametrize("consumed", [False, True])
def test_a_purge_that_was_answered_outlives_a_kill(tmp_path: Path, consumed: bool) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for number in range(20):
            channel.basic_publish("", "q", b"%d" % number)
        if consumed:
            assert channel.basic_get("q", auto_ack=True)[2] == b"0"
        purged = channel.queue_purge("q").method.message_count
        broker.kill9()
        assert purged == 20 - consumed
        broker.start()
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        channel = connection.channel()
        assert channel.queue_declare("q", passive=True).method.message_count == 0
        channel.basic_publish("", "q", b"later")
        assert channel.basic_get("q", auto_ack=True)[2] == b"later"
        connection.close()
    finally:
        broker.stop()
