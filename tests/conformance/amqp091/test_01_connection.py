"""From the protocol header to connection.close (AMQP 0.9.1 section 2.2.4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp091.raw import (
    CLOSE,
    CLOSE_OK,
    HEADER,
    OPEN,
    START,
    START_OK,
    TUNE,
    TUNE_OK,
    Raw,
    connect,
    frame,
    long,
    method,
    number,
    short,
    table,
)

NO_PROPERTIES = table()


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x02", b"AMQP\x01\x01\x09\x01", b"HTTP/1.1 GET /\r\n"])
def test_another_header_is_answered_with_ours(broker: AnyBroker, header: bytes) -> None:
    raw = Raw(broker)
    raw.send(header)
    assert raw.read(8) == HEADER
    assert raw.ended()


def test_a_header_may_come_octet_by_octet(broker: AnyBroker) -> None:
    raw = Raw(broker)
    for octet in HEADER:
        raw.send(bytes([octet]))
    assert raw.expect(0, START)[:2] == b"\x00\x09"


def test_start_says_what_the_broker_can(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(HEADER)
    args = raw.expect(0, START)
    for text in (b"product", b"forebay", b"version", b"platform", b"capabilities", b"cluster_name"):
        assert text in args
    for capability in (b"publisher_confirms", b"basic.nack", b"consumer_cancel_notify", b"per_consumer_qos"):
        assert short(capability) + b"t\x01" in args
    assert args.endswith(long("PLAIN AMQPLAIN") + long("en_US"))


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0guest\0guest"),
        ("PLAIN", b"guest\0guest\0guest"),
        ("AMQPLAIN", table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]),
    ],
)
def test_login(broker: AnyBroker, mechanism: str, response: bytes) -> None:
    raw = Raw(broker)
    raw.send(HEADER, method(0, START_OK, NO_PROPERTIES + short(mechanism) + long(response) + short("en_US")))
    raw.expect(0, START)
    args = raw.expect(0, TUNE)
    assert args == number(2047, 2) + number(131072, 4) + number(60, 2)


REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."


def test_a_refused_login_is_told_to_who_can_hear_it(broker: AnyBroker) -> None:
    able = table({"capabilities": {"authentication_failure_close": True}})
    raw = Raw(broker)
    raw.send(HEADER, method(0, START_OK, able + short("PLAIN") + long("\0guest\0wrong") + short("en_US")))
    raw.expect(0, START)
    raw.connection_closed(403, REFUSED, cause=(10, 11))
    deaf = Raw(broker)
    deaf.send(HEADER, method(0, START_OK, NO_PROPERTIES + short("PLAIN") + long("\0nobody\0x") + short("en_US")))
    deaf.expect(0, START)
    assert deaf.ended()


@pytest.mark.parametrize(
    ("mechanism", "response", "code", "text"),
    [
        ("EXTERNAL", b"", 503, "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'"),
        ("PLAIN", b"guest", 502, "SYNTAX_ERROR - PLAIN response has 0 NUL octets, not 2"),
        ("AMQPLAIN", b"", 502, "SYNTAX_ERROR - AMQPLAIN response lacks the texts LOGIN and PASSWORD"),
        ("PLAIN", b"root\0guest\0guest", 403, "ACCESS_REFUSED - user 'guest' may not act for somebody else"),
    ],
)
def test_login_of_no_use(broker: AnyBroker, mechanism: str, response: bytes, code: int, text: str) -> None:
    raw = Raw(broker)
    raw.send(HEADER, method(0, START_OK, NO_PROPERTIES + short(mechanism) + long(response) + short("en_US")))
    raw.expect(0, START)
    raw.connection_closed(code, text, cause=START_OK)


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (2048, 131072, "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (0, 131072, "channel_max = 0 is higher than the maximum allowed value (2047)"),
        (10, 131073, "frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (10, 0, "frame_max = 0 is higher than the maximum allowed value (131072)"),
        (10, 4095, "frame_max = 4095 is lower than the minimum allowed value (4096)"),
    ],
)
def test_tuning_beyond_what_was_offered(broker: AnyBroker, channel_max: int, frame_max: int, text: str) -> None:
    raw = Raw(broker)
    login = NO_PROPERTIES + short("PLAIN") + long("\0guest\0guest") + short("en_US")
    raw.send(HEADER, method(0, START_OK, login))
    raw.send(method(0, TUNE_OK, number(channel_max, 2) + number(frame_max, 4) + number(0, 2)))
    raw.expect(0, START)
    raw.expect(0, TUNE)
    raw.connection_closed(530, f"NOT_ALLOWED - negotiated {text}", cause=TUNE_OK)


def test_a_vhost_that_is_not_there(broker: AnyBroker) -> None:
    raw = Raw(broker)
    login = NO_PROPERTIES + short("PLAIN") + long("\0guest\0guest") + short("en_US")
    raw.send(HEADER, method(0, START_OK, login))
    raw.send(method(0, TUNE_OK, number(10, 2) + number(4096, 4) + number(0, 2)))
    raw.send(method(0, OPEN, short("elsewhere") + b"\0\0"))
    raw.expect(0, START)
    raw.expect(0, TUNE)
    raw.connection_closed(530, "NOT_ALLOWED - vhost elsewhere not found", cause=OPEN)


def test_methods_out_of_turn(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(HEADER, method(0, OPEN, short("/") + b"\0\0"))
    raw.expect(0, START)
    raw.connection_closed(503, "COMMAND_INVALID - method 10.40 is not expected on channel 0 now", cause=OPEN)
    with connect(broker) as late:
        late.send(method(0, TUNE_OK, number(10, 2) + number(4096, 4) + number(0, 2)))
        late.connection_closed(503, "COMMAND_INVALID - method 10.31 is not expected on channel 0 now", cause=TUNE_OK)


def test_a_channel_before_the_connection_is_open(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(HEADER, method(1, (20, 10), b"\0"))
    raw.expect(0, START)
    raw.connection_closed(505, "UNEXPECTED_FRAME - frame of type 1 on channel 1, which has only methods")


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\x05\0\0\0\0\0\0\xce", "type 5 is no type of a frame"),
        (b"\x08\0\0\0\0\0\0\xcd", "frame ends with octet 205, not with 206"),
        (b"\x03\0\x01\x00\x00\x0f\xf9", "frame of 4089 octets is longer than frame_max 4096 allows"),
        (b"\x03\0\x01\xff\xff\xff\xff", "frame of 4294967295 octets is longer than frame_max 4096 allows"),
    ],
)
def test_what_is_no_frame(broker: AnyBroker, octets: bytes, text: str) -> None:
    with connect(broker, frame_max=4096) as raw:
        raw.send(octets)
        raw.connection_closed(501, f"FRAME_ERROR - {text}")


def test_short_method_frames_and_strange_heartbeats(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(frame(1, 1, b"\0\x3c\0"))
        raw.connection_closed(502, "SYNTAX_ERROR - method frame of 3 octets")
    with connect(broker) as raw:
        raw.send(frame(8, 1, b""))
        raw.connection_closed(505, "UNEXPECTED_FRAME - frame of type 8 on channel 1")
    with connect(broker) as raw:
        raw.send(frame(8, 5, b""))
        raw.connection_closed(505, "UNEXPECTED_FRAME - heartbeat on channel 5")


def test_close_is_answered_and_ends_everything(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        name = raw.declare("", 4)
        raw.send(method(0, CLOSE, number(200, 2) + short("bye") + b"\0\0\0\0"))
        assert raw.expect(0, CLOSE_OK) == b""
        assert raw.ended()
    with connect(broker) as raw:
        assert raw.declare(name.replace("amq.", "") + "x", 4)  # another connection lives on


def test_frames_after_our_close_are_passed_over(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(method(0, (10, 99)), method(1, (20, 20), b"\x01"), b"\x99 no frame at all")
        assert raw.expect(0, CLOSE)
        raw.send(method(1, (20, 20), b"\x01"))
        for octet in method(0, CLOSE_OK):
            raw.send(bytes([octet]))
        assert raw.ended()


def test_heartbeats_both_ways(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.handshake(beat=1)
    beat = b"\x08\0\0\0\0\0\0\xce"
    for _ in range(3):
        raw.send(beat)
        assert raw.read(8) == beat
    while not raw.ended():  # now silent: the broker gives up
        raw.rest = b""


def test_a_handshake_has_a_deadline(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(handshake_timeout_ms=100)
    silent = Raw(broker)
    silent.send(HEADER)
    silent.expect(0, START)
    assert silent.ended()
    mute = Raw(broker)
    mute.send(HEADER[:5])
    assert mute.ended()
