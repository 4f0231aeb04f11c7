"""Each line of the log that tells of a connection's end names the client id and the user, as far as they are known."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pika
import pika.exceptions
import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import Raw, connect, connected
from tests.waiting import until

GARBAGE = b"\xff\xff\xff\xff\xff\xff"
Start = Callable[..., BrokerProcess]


def ended(broker: BrokerProcess, sock: socket.socket) -> str:
    """The line that tells of this connection's end."""
    host, port = sock.getsockname()
    begin = f"connection from {host}:{port} ended: "

    def lines() -> list[str]:
        return [each for each in broker.log_text().splitlines() if begin in each]

    until(lambda: bool(lines()), broker.log_text)
    (line,) = lines()
    return line.partition(begin)[2]


def test_of_a_client_of_mqtt(start_broker: Start) -> None:
    broker = start_broker()
    client = connected(broker, "sensor-7")
    client.send(GARBAGE)
    assert ended(broker, client.socket).endswith(" (client 'sensor-7', user 'guest')")
    client.close()


def test_a_name_cannot_write_a_line_of_its_own(start_broker: Start) -> None:
    broker = start_broker()
    client = connected(broker, "a\nb")
    client.send(GARBAGE)
    assert ended(broker, client.socket).endswith(" (client 'a\\nb', user 'guest')")
    client.close()


def test_of_a_client_whose_password_is_wrong(start_broker: Start) -> None:
    broker = start_broker()
    client = Raw(broker)
    client.send(connect("sensor-7", login=("operator", "wrong")))
    assert ended(broker, client.socket).endswith(" (client 'sensor-7', user 'operator')")
    client.close()


def test_of_a_client_of_amqp(start_broker: Start) -> None:
    broker = start_broker()
    with socket.create_connection(("127.0.0.1", broker.amqp_port)) as sock:
        sock.sendall(b"AMQP\x00\x00\x09\x01")
        answer = b"\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US"
        start_ok = b"\x00\x0a\x00\x0b" + answer
        sock.sendall(b"\x01\x00\x00" + len(start_ok).to_bytes(4, "big") + start_ok + b"\xce")
        sock.sendall(GARBAGE * 4)
        assert ended(broker, sock).endswith(" (user 'guest')")


def test_of_a_client_of_amqp_whose_password_is_wrong(start_broker: Start) -> None:
    broker = start_broker()
    wrong = pika.PlainCredentials("operator", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=wrong))
    until(lambda: " (user 'operator')" in broker.log_text(), broker.log_text)
