"""First octets that begin no protocol end a connection at once, however long its client might take to log in."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.broker_process import BrokerProcess
from tests.conformance.amqp091.raw import Raw, long, method, short, table
from tests.conformance.mqtt.raw import CONNACK, connect
from tests.conformance.mqtt.raw import Raw as Mqtt

WAIT_S = 60
NEVER_MS = 10_000_000  # beside WAIT_S
START_OK = (10, 11)
FRAME_OCTETS_MAX = 4096


def answer_to(address: tuple[str, int], octets: bytes) -> bytes:
    """All that the broker says to these octets until it ends the connection, which it must."""
    with socket.create_connection(address, timeout=WAIT_S) as client:
        client.sendall(octets)
        found = b""
        while True:
            try:
                more = client.recv(65536)
            except ConnectionResetError:
                return found
            if not more:
                return found
            found += more


def test_what_begins_no_protocol_ends_at_once(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(handshake_timeout_ms=NEVER_MS)
    for listener in ("mqtt", "amqp", "mqtt_websocket"):
        address = ("127.0.0.1", broker.port(listener))
        for octets in (b"\xf0\0", b"\0", b"HELO", b"\x16\x03\x01", b"AMQX", b"FBLX"):
            answer_to(address, octets)
    for octets in (b"\x10\x7f\0\4MQXX", b"\x10\x7f\0\5", b"\x10\xff\xff\xff\xff\x01"):
        assert answer_to(("127.0.0.1", broker.port("mqtt")), octets) == b""
    assert answer_to(("127.0.0.1", broker.port("amqp")), b"HTTP") == b"AMQP\0\0\x09\1"


def test_a_connect_in_single_octets_is_taken(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    client = Mqtt(broker)
    for octet in connect("slow"):
        client.send(bytes([octet]))
    client.expect(CONNACK)
    client.close()


def start_ok(octets: int) -> bytes:
    """A start-ok in a frame of so many octets."""
    tail = short("PLAIN") + long(b"\0guest\0guest") + short("en_US")
    empty = method(0, START_OK, table({"x": ""}) + tail)
    return method(0, START_OK, table({"x": "y" * (octets - len(empty))}) + tail)


def test_a_frame_before_tune_has_so_many_octets_at_most(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(handshake_timeout_ms=NEVER_MS)
    for octets in (FRAME_OCTETS_MAX + 1, 10_000):
        raw = Raw(broker)
        raw.send(b"AMQP\0\0\x09\1")
        raw.expect(0, (10, 10))
        raw.send(start_ok(octets))
        told = f"frame of {octets - 8} octets is longer than frame_max {FRAME_OCTETS_MAX} allows"
        raw.connection_closed(501, f"FRAME_ERROR - {told}")
    raw = Raw(broker)
    raw.send(b"AMQP\0\0\x09\1")
    raw.expect(0, (10, 10))
    found = start_ok(FRAME_OCTETS_MAX)
    assert len(found) == FRAME_OCTETS_MAX
    raw.send(found)
    raw.expect(0, (10, 30))
    raw.socket.close()
    long_tokens = start_broker(amqp_login_frame_octets_max=20_000)
    raw = Raw(long_tokens)
    raw.send(b"AMQP\0\0\x09\1")
    raw.expect(0, (10, 10))
    raw.send(start_ok(10_000))
    raw.expect(0, (10, 30))
    raw.socket.close()
