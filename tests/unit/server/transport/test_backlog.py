"""Octets that a connection is still to be sent are given to its transport a little at a time."""

from __future__ import annotations

from collections.abc import Callable

from forebay.core.pieces import Part
from forebay.server.transport.backlog import WRITE_OCTETS, Backlog, octets_of
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import connected


def test_pieces_come_in_order_and_long_ones_are_cut_without_a_copy() -> None:
    long = bytes(range(256)) * (3 * WRITE_OCTETS // 256)
    parts: list[Part] = [b"head", long, b"tail"]
    backlog = Backlog(parts)
    backlog.add([b"after"])
    taken: list[Part] = []
    while backlog.parts:
        some = backlog.take()
        assert octets_of(some) == WRITE_OCTETS or not backlog.parts
        taken += some
    assert backlog.octets == 0
    assert b"".join(taken) == b"head" + long + b"tailafter"
    assert all(part.obj is long for part in taken if isinstance(part, memoryview))


def test_everything_can_be_taken_at_once() -> None:
    backlog = Backlog([b"a", b"b" * (2 * WRITE_OCTETS)])
    backlog.take()
    assert octets_of(backlog.take_all()) == WRITE_OCTETS + 1
    assert (backlog.octets, len(backlog.parts)) == (0, 0)


def test_a_reader_that_pauses_gets_long_messages_whole_and_in_order(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(send_buffer_octets_max=1 << 20)
    sink, source = connected(broker, "sink"), connected(broker, "source")
    sink.subscribe("long/+", qos=1)
    bodies = [bytes([number]) * (5 * WRITE_OCTETS + number) for number in range(3)]
    for number, body in enumerate(bodies):
        source.publish(f"long/{number}", body)
    for number, body in enumerate(bodies):
        found = sink.delivery()
        assert (found.topic, found.body == body) == (f"long/{number}", True)
        sink.send(b"\x40\x02" + found.id.to_bytes(2, "big"))
    sink.quiet()
    source.close()
    sink.close()
