"""Both sides may take leave at one time, and frames may still be on their way then (AMQP 0.9.1 section 1.4.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp091.raw import (
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CHANNEL_OPEN,
    CLOSE,
    CLOSE_OK,
    CONSUME,
    HEADER,
    Raw,
    connect,
    frame,
    method,
    number,
    publish,
    short,
    table,
)

LEAVE = number(200, 2) + short("bye") + b"\0\0\0\0"
WRONG = method(1, CONSUME, b"\0\0" + short("nowhere") + short("t") + b"\0" + table())
IN_FLIGHT = 8 << 20  # more than a read, and less than what the broker passes over


def test_both_sides_close_a_channel_at_once(broker: AnyBroker) -> None:
    with connect(broker, channels=2) as raw:
        raw.send(WRONG, method(1, CHANNEL_CLOSE, LEAVE))
        raw.check_close(raw.expect(1, CHANNEL_CLOSE), 404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", cause=CONSUME)
        raw.expect(1, CHANNEL_CLOSE_OK)
        raw.send(method(1, CHANNEL_CLOSE_OK))
        raw.sync(2)
        raw.open_channel(1)
        raw.sync(1)


def test_until_close_ok_a_closed_channel_hears_nothing_else(broker: AnyBroker) -> None:
    with connect(broker, channels=2) as raw:
        raw.send(WRONG)
        raw.expect(1, CHANNEL_CLOSE)
        raw.send(publish(1, "x", b"late"), method(1, CHANNEL_OPEN, b"\0"), method(1, CHANNEL_CLOSE, LEAVE))
        raw.expect(1, CHANNEL_CLOSE_OK)
        raw.send(method(1, CHANNEL_CLOSE, LEAVE), publish(1, "x", b"later"))
        raw.expect(1, CHANNEL_CLOSE_OK)
        raw.sync(2)
        raw.send(method(1, CHANNEL_CLOSE_OK))
        raw.open_channel(1)


@pytest.mark.parametrize("piecewise", [False, True])
def test_both_sides_close_the_connection_at_once(broker: AnyBroker, piecewise: bool) -> None:
    with connect(broker) as raw:
        raw.send(method(0, (10, 99)))
        raw.expect(0, CLOSE)
        octets = method(0, CLOSE, LEAVE) + publish(1, "x", bytes(70_000))
        for part in [octets[at : at + 1] for at in range(40)] + [octets[40:]] if piecewise else [octets]:
            raw.send(part)
        raw.expect(0, CLOSE_OK)
        raw.send(method(0, CLOSE_OK))
        assert raw.ended()


def test_close_ok_is_heard_after_octets_that_are_no_frame(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(frame(1, 1, b"\0\x14\0\x14\1")[:-1] + b"\xcd" + b"anything")
        raw.expect(0, CLOSE)
        raw.send(b"\x09" * 100, method(0, CLOSE_OK)[:5])
        raw.send(method(0, CLOSE_OK)[5:])
        assert raw.ended()


def read_to_the_end(raw: Raw) -> bytes:
    """Everything up to the end of what the broker sends; an error where the connection was reset."""
    octets = raw.rest
    while more := raw.socket.recv(65536):
        octets += more
    return octets


@pytest.mark.parametrize("client_closes", [True, False])
def test_what_is_in_flight_after_the_last_close_ok_resets_nothing(
    broker_process: BrokerProcess, client_closes: bool
) -> None:
    """The last words stay readable, and who was publishing hears of the end by reading, not by an error."""
    flight = publish(1, "x", bytes(100_000)) * (IN_FLIGHT // 100_000)
    with connect(broker_process) as raw:
        if client_closes:
            raw.send(method(0, CLOSE, LEAVE))
            last = method(0, CLOSE_OK)
        else:
            raw.send(method(0, (10, 99)))
            raw.expect(0, CLOSE)
            raw.send(method(0, CLOSE_OK))
            last = b""
        raw.send(flight)
        assert read_to_the_end(raw) == last


def test_who_speaks_another_protocol_can_read_so(broker_process: BrokerProcess) -> None:
    raw = Raw(broker_process)
    raw.send(b"AMQP\x01\x01\x09\x01")
    assert raw.read(8) == HEADER
    raw.send(bytes(IN_FLIGHT))
    assert read_to_the_end(raw) == b""


def test_who_never_goes_is_cut_off(start_process: Callable[..., BrokerProcess]) -> None:
    broker = start_process(drain_timeout_ms=100)
    with connect(broker) as raw, connect(broker) as other:
        raw.send(method(0, CLOSE, LEAVE))
        raw.expect(0, CLOSE_OK)
        assert raw.ended()
        while not is_cut_off(raw, b"\x08\0\0\0\0\0\0\xce"):
            other.sync()


def test_who_goes_on_sending_without_end_is_cut_off(broker_process: BrokerProcess) -> None:
    sent = 0
    with connect(broker_process) as raw:
        raw.send(method(0, CLOSE, LEAVE))
        while not is_cut_off(raw, bytes(1 << 20)):
            sent += 1 << 20
            assert sent < 1 << 27


def is_cut_off(raw: Raw, octets: bytes) -> bool:
    try:
        raw.send(octets)
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def test_what_a_connection_had_is_free_before_the_client_goes(broker: AnyBroker) -> None:
    with connect(broker) as raw, connect(broker) as other:
        raw.declare("own", 4)
        raw.send(method(0, CLOSE, LEAVE))
        raw.expect(0, CLOSE_OK)
        assert raw.ended()
        other.declare("own", 4)
