"""Clients that never log in take few places and little memory, and keep nobody out."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.conformance.mqtt.raw import CONNACK, PINGREQ, PINGRESP, connect, connected
from tests.waiting import until

WAIT_S = 60
NEVER_MS = 10_000_000
UNFINISHED = b"\x10\xe8\xfb\x03\0\4MQTT\5" + bytes(60_000)
Start = Callable[..., BrokerProcess]


@contextlib.contextmanager
def idle(broker: BrokerProcess, listener: str, count: int, octets: bytes = b"") -> Iterator[list[socket.socket]]:
    """Clients that connect, send these octets and nothing more."""
    clients: list[socket.socket] = []
    try:
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", broker.port(listener)), timeout=WAIT_S)
            clients.append(client)
            with contextlib.suppress(ConnectionError):
                client.sendall(octets)
        yield clients
    finally:
        for client in clients:
            client.close()


def is_ended(client: socket.socket) -> bool:
    """Whether the broker has ended the connection."""
    client.setblocking(False)
    try:
        return client.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def metric(broker: BrokerProcess, name: str) -> int:
    text = httpx.get(f"http://{broker.ready['prometheus']}/metrics").text
    return int(float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name))))


@pytest.mark.parametrize("listener", ["mqtt", "amqp", "mqtt_websocket"])
def test_idle_connections_on_all_places_keep_no_client_out(start_broker: Start, listener: str) -> None:
    broker = start_broker(connections_max=40, handshake_timeout_ms=NEVER_MS)
    first = connected(broker, "first")
    with idle(broker, listener, 60) as clients:
        second = connected(broker, "second")
        third = connected(broker, "third")
        until(lambda: [is_ended(each) for each in clients].count(True) >= 23)
        assert not is_ended(clients[-1]), "the oldest go first"
        for client in (first, second, third):
            client.send(PINGREQ)
            client.expect(PINGRESP[0])
            client.close()


def test_clients_that_do_not_log_in_have_a_share_of_the_places(start_broker: Start) -> None:
    broker = start_broker(connections_login_max=5, handshake_timeout_ms=NEVER_MS, prometheus="127.0.0.1:0")
    kept = [connected(broker, f"c{each}") for each in range(8)]
    with idle(broker, "mqtt", 6) as clients:
        until(lambda: metric(broker, "forebay_connections_without_login") == 6)
        broker.wait_out(2.5)
        with idle(broker, "mqtt", 6) as others:
            until(lambda: all(is_ended(each) for each in clients))
            assert not any(is_ended(each) for each in others)
            until(lambda: metric(broker, "forebay_connections_ended_before_login") >= 6)
            until(lambda: "connections_login_max is 5" in broker.log_text())
    for client in kept:
        client.send(PINGREQ)
        client.expect(PINGRESP[0])
        client.close()


def test_unfinished_packets_share_little_memory_and_the_oldest_go(start_broker: Start) -> None:
    broker = start_broker(login_buffers_octets_max=300_000, handshake_timeout_ms=NEVER_MS, prometheus="127.0.0.1:0")
    with idle(broker, "mqtt", 20, UNFINISHED) as clients:
        until(lambda: [is_ended(each) for each in clients].count(True) >= 15)
        assert not is_ended(clients[-1])
        assert metric(broker, "forebay_login_buffers_octets") <= 300_000
        client = connected(broker)
        client.send(PINGREQ)
        client.expect(PINGRESP[0])
        client.close()


def test_heads_and_frames_of_websockets_count_too(start_broker: Start) -> None:
    broker = start_broker(login_buffers_octets_max=100_000, handshake_timeout_ms=NEVER_MS, prometheus="127.0.0.1:0")
    head = b"GET /mqtt HTTP/1.1\r\n" + b"".join(b"X-%d: " % each + b"y" * 6000 + b"\r\n" for each in range(5))
    with idle(broker, "mqtt_websocket", 12, head) as clients:
        until(lambda: [is_ended(each) for each in clients].count(True) >= 9)
        assert not is_ended(clients[-1])
        assert metric(broker, "forebay_login_buffers_octets") <= 100_000
    with idle(broker, "mqtt_websocket", 1, head * 3) as clients:
        until(lambda: is_ended(clients[0]))


def test_half_open_tls_handshakes_keep_no_client_out(start_broker: Start, tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    options = made.options(mqtts="127.0.0.1:0", login_buffers_octets_max=4 * 65_536, handshake_timeout_ms=NEVER_MS)
    broker = start_broker(**options)
    context = ssl.create_default_context(cafile=str(made.ca))
    with idle(broker, "mqtts", 12) as clients:
        address = ("127.0.0.1", broker.port("mqtts"))
        plain = socket.create_connection(address, timeout=WAIT_S)
        with context.wrap_socket(plain, server_hostname="localhost") as client:
            client.sendall(connect("secure"))
            assert client.recv(2)[0] == CONNACK
        until(lambda: [is_ended(each) for each in clients].count(True) >= 8)
