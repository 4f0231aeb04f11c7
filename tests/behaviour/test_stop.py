"""SIGTERM while clients come and go."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.waiting import pause, until

CONNECTIONS = 150
QUEUES = ("polite", "rude", "got")


def test_clients_that_leave_while_the_broker_stops_keep_it_from_nothing(broker: BrokerProcess) -> None:
    sockets: list[socket.socket] = []
    connections: list[pika.BlockingConnection] = []
    for number in range(CONNECTIONS):
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        channel = connection.channel()
        # A durable queue that goes with its consumer: each end of a connection is a change on the disk.
        channel.queue_declare(f"q{number}", durable=True, auto_delete=True)
        channel.basic_consume(f"q{number}", lambda *_: None)
        connections.append(connection)
        sockets.append(connection._impl._transport._sock)
    os.kill(broker.pid, signal.SIGTERM)
    for each in sockets:
        each.shutdown(socket.SHUT_RDWR)
        pause(0.001)  # so that they leave while it stops, not all before or after
    assert broker.wait() == 0, broker.log_text()


def test_a_stop_is_no_failure_of_who_holds_a_message(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(drain_timeout_ms=500)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in QUEUES:
            channel.queue_declare(queue, durable=True, arguments={"x-delivery-limit": 0})
            channel.basic_publish("", queue, b"held", pika.BasicProperties(delivery_mode=2))
    polite, rude, getter = (
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) for _ in QUEUES
    )
    for holder, queue in ((polite, "polite"), (rude, "rude")):
        assert next(holder.channel().consume(queue, inactivity_timeout=10))[2] == b"held"
    assert getter.channel().basic_get("got")[2] == b"held"
    os.kill(broker.pid, signal.SIGTERM)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):  # and this one says goodbye
        until(lambda: polite.process_data_events(0.1) is not None)
    assert broker.wait() == 0, broker.log_text()
    broker.start()
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        for queue in QUEUES:
            method, properties, body = connection.channel().basic_get(queue)
            assert (body, method.redelivered, properties.headers["x-delivery-count"]) == (b"held", True, 0)
