"""Connections before and beside their protocol."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import connected


@pytest.mark.parametrize("octets", [b"", b"AM"])
def test_a_client_that_never_says_its_protocol_is_cut_off(
    start_broker: Callable[..., BrokerProcess], octets: bytes
) -> None:
    broker = start_broker(handshake_timeout_ms=300)
    with socket.create_connection(("127.0.0.1", broker.amqp_port), timeout=20) as client:
        client.sendall(octets)
        with suppress(ConnectionResetError):  # as good an end
            assert client.recv(1) == b""


@pytest.mark.parametrize("port", ["amqp_port", "mqtt_port"])
@pytest.mark.parametrize(
    ("octets", "answer"),
    [
        (b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00"),  # connection.start
        (b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a", b"\x20\x02\x00"),  # CONNACK
    ],
)
def test_every_listener_speaks_every_protocol(broker: BrokerProcess, port: str, octets: bytes, answer: bytes) -> None:
    with socket.create_connection(("127.0.0.1", getattr(broker, port)), timeout=20) as client:
        for octet in octets:
            client.sendall(bytes([octet]))
        assert client.recv(3, socket.MSG_WAITALL) == answer


def test_connections_beyond_the_limit_are_refused(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(connections_max=2)
    first = [connected(broker, name) for name in ("a", "b")]
    third = socket.create_connection(("127.0.0.1", broker.mqtt_port), timeout=20)
    with third, suppress(ConnectionResetError):
        assert third.recv(1) == b""
    for client in first:
        client.close()
