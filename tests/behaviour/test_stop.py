"""SIGTERM while clients come and go."""

from __future__ import annotations

import os
import signal
import socket

import pika

from tests.broker_process import BrokerProcess
from tests.waiting import pause

CONNECTIONS = 150


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
