"""Clients that come back before their connection of before is gone (MQTT 5.0 sections 3.1.4 and 4.1)."""

from __future__ import annotations

import selectors
import socket

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.one_broker import broker, own
from tests.conformance.mqtt.raw import (
    CONNACK,
    DISCONNECTED,
    V5,
    V311,
    Raw,
    connect,
    connected,
    number,
    packet,
)
from tests.waiting import until

__all__ = ["broker", "own"]

VERSIONS = pytest.mark.parametrize("version", [V311, V5])
HOUR = b"\x11" + number(3600, 4)
AT_ONCE = b"\x11" + number(0, 4)
TAKEN_OVER = 0x8E
STORM_CLIENTS = 20
STORM_CONNECTS = 2_000


def durable(client: str, version: int) -> bytes:
    """A CONNECT of a session that outlives its connection."""
    return connect(client, version, HOUR if version == V5 else b"", clean=False)


@VERSIONS
def test_each_of_many_connects_is_answered_though_the_next_one_overtakes_it(
    broker: AnyBroker, own: str, version: int
) -> None:
    raws = [Raw(broker, version) for _ in range(40)]
    for raw in raws:
        raw.send(durable(own, version))
    told = 0
    for raw in raws:
        rest = raw.expect(CONNACK)
        assert rest[1] == 0
        try:
            first, rest = raw.packet()
        except AssertionError:  # closed, as version 3.1.1 has no word for it
            told += version == V311
        except TimeoutError:
            pytest.fail("neither told nor closed")
        else:
            assert (first, rest[0], version) == (DISCONNECTED, TAKEN_OVER, V5)
            told += raw.ended()
        if told == len(raws) - 1:
            break  # whoever came last has the session; who that is the broker says
    assert told == len(raws) - 1
    for raw in raws:
        raw.close()


@VERSIONS
def test_a_storm_of_clients_with_one_identifier_is_served(
    broker_process: BrokerProcess, own: str, version: int
) -> None:
    """Each comes again as soon as it has lost the session to another one."""
    ready = selectors.DefaultSelector()
    answered = 0
    closed = 0

    def come() -> None:
        made = socket.create_connection(("127.0.0.1", broker_process.mqtt_port))
        made.sendall(durable(own, version))
        ready.register(made, selectors.EVENT_READ, bytearray())

    def serve() -> bool:
        nonlocal answered, closed
        for key, _ in ready.select(0.1):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            try:
                octets = client.recv(65536)
            except ConnectionResetError:
                octets = b""
            key.data.extend(octets)
            if octets:
                continue
            closed += 1
            answered += key.data[:1] == bytes([CONNACK]) and key.data[3] == 0
            ready.unregister(client)
            client.close()
            come()
        return closed >= STORM_CONNECTS

    for _ in range(STORM_CLIENTS):
        come()
    until(serve, lambda: f"{answered} of {closed} connects answered")
    for key in list(ready.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    assert answered == closed


def test_an_expiry_of_0_in_disconnect_ends_the_session_of_who_comes_back_at_once(broker: AnyBroker, own: str) -> None:
    goodbye = packet(0xE0, b"\x00" + bytes([len(AT_ONCE)]) + AT_ONCE)
    for _ in range(50):
        first = Raw(broker)
        first.send(durable(own, V5))
        first.connack()
        second = Raw(broker)
        first.send(goodbye)
        second.send(durable(own, V5))
        second.connack()  # which must not tell of a session
        second.send(goodbye)
        assert first.ended() and second.ended()
        for raw in (first, second):
            raw.close()


def test_a_session_of_expiry_0_ends_with_its_takeover(broker: AnyBroker, own: str) -> None:
    first = Raw(broker)
    first.send(durable(own, V5))
    first.connack()
    brief = Raw(broker)
    brief.send(connect(own, V5, clean=False))
    brief.connack(present=True)
    connected(broker, own, properties=HOUR, clean=False, present=False)
    brief.refused(TAKEN_OVER)
