"""Connections: headers, SASL, open, idle time-outs and close (parts 2.2, 2.4 and 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    AMQP_HEADER,
    BEGIN,
    CLOSE,
    EMPTY_FRAME,
    INIT,
    MECHANISMS,
    OPEN,
    OUTCOME,
    SASL_HEADER,
    Raw,
    Symbol,
    Uint,
    begin,
    begun,
    flow,
    frame,
    opened,
    performative,
    publisher,
    sasl_plain,
)


@pytest.mark.parametrize("header", [b"AMQP\x02\x01\x00\x00", b"AMQP\x00\x00\x09\x02", b"AMQP\x03\x01\x01\x00"])
def test_a_header_that_is_not_served_is_answered_by_one_that_is(broker: AnyBroker, header: bytes) -> None:
    raw = Raw(broker)
    raw.send(header)
    assert raw.read(4) == b"AMQP"
    raw.read(4)
    assert raw.ended()


def test_a_login_and_an_open(broker: AnyBroker) -> None:
    raw = Raw(broker)
    mechanisms = raw.log_in()
    assert "PLAIN" in mechanisms
    assert mechanisms[-1] == "ANONYMOUS", "the weakest comes last: some clients take the first that they know"
    raw.send(opened())
    fields = raw.expect(OPEN)
    assert {"LINK_PAIR_V1_0", "ANONYMOUS-RELAY"} <= set(fields[7])
    assert fields[9]["product"] == "forebay"


def test_a_client_without_sasl_is_the_guest(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(AMQP_HEADER, opened(), begin())
    assert raw.read(8) == AMQP_HEADER
    raw.expect(OPEN)
    raw.expect(BEGIN)
    raw.publisher("/exchanges/amq.topic/a")


def test_a_client_without_sasl_is_let_in_only_where_the_guest_is(start_broker: Callable[..., AnyBroker]) -> None:
    raw = Raw(start_broker(users={"only": "secret"}))
    raw.send(AMQP_HEADER, opened())
    assert raw.read(8) == SASL_HEADER
    assert raw.ended()


def test_a_client_of_rabbitmq_is_told_what_it_looks_for(broker: AnyBroker) -> None:
    raw = Raw(broker)
    found = raw.open("vhost:/")[9]
    assert found["product"] == "RabbitMQ"
    assert found["version"].startswith("4.")
    assert "forebay" in found


@pytest.mark.parametrize("response", [b"\0guest\0wrong", b"\0nobody\0guest"])
def test_a_wrong_login_ends_with_its_outcome(broker: AnyBroker, response: bytes) -> None:
    raw = Raw(broker)
    raw.send(SASL_HEADER, performative(0, INIT, Symbol("PLAIN"), response, kind=1))
    assert raw.read(8) == SASL_HEADER
    raw.expect(MECHANISMS, kind=1)
    assert raw.expect(OUTCOME, kind=1)[0] == 1
    assert raw.ended()


def test_a_mechanism_that_is_not_offered_is_refused(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(SASL_HEADER, performative(0, INIT, Symbol("CRAM-MD5"), b"", kind=1))
    raw.read(8)
    raw.expect(MECHANISMS, kind=1)
    assert raw.expect(OUTCOME, kind=1)[0] == 1


def test_everything_in_one_write(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(sasl_plain(), AMQP_HEADER, opened(), begin(), publisher("/exchanges/amq.topic/a"), flow())
    raw.read(8)
    raw.expect(MECHANISMS, kind=1)
    raw.expect(OUTCOME, kind=1)
    assert raw.read(8) == AMQP_HEADER
    raw.expect(OPEN)
    raw.expect(BEGIN)


def test_every_octet_in_a_write_of_its_own(broker: AnyBroker) -> None:
    raw = Raw(broker)
    for octet in sasl_plain() + AMQP_HEADER + opened() + begin():
        raw.send(bytes([octet]))
    raw.read(8)
    raw.expect(MECHANISMS, kind=1)
    raw.expect(OUTCOME, kind=1)
    raw.read(8)
    raw.expect(OPEN)
    raw.expect(BEGIN)


def test_a_vhost_that_is_not_there_is_opened_and_closed(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.log_in()
    raw.send(opened("raw", "vhost:none"))
    assert raw.expect(OPEN)[9]["amqp:connection-establishment-failed"] is True
    condition, text = raw.error(CLOSE)
    assert condition.startswith("amqp:")
    assert "none" in text


@pytest.mark.parametrize(
    ("fields", "named"), [((None, Uint(511)), "max-frame-size"), ((None, None, None, Uint(999)), "idle-time-out")]
)
def test_limits_that_cannot_be_kept_are_refused_by_name(broker: AnyBroker, fields: tuple[Any, ...], named: str) -> None:
    raw = Raw(broker)
    raw.log_in()
    raw.send(opened("raw", *fields))
    raw.expect(OPEN)
    assert named in raw.error(CLOSE)[1]


@pytest.mark.parametrize(
    ("octets", "condition"),
    [
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x03\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x02\x07\x00\x00", "amqp:connection:framing-error"),
        (b"\x7f\xff\xff\xff\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (frame(0, b"\x00\x53\x11\xff"), "amqp:decode-error"),
        (frame(0, b"no list"), "amqp:decode-error"),
        (performative(0, 0x19), "amqp:decode-error"),
        (performative(0, OPEN, "again"), "amqp:not-allowed"),
        (performative(5, 0x12, "l", Uint(0), False), "amqp:not-allowed"),
        (performative(0, BEGIN, None, Uint(0), Uint(1)), "amqp:decode-error"),
        (begin(65535), "amqp:connection:framing-error"),
    ],
)
def test_frames_that_break_the_protocol_close_the_connection(broker: AnyBroker, octets: bytes, condition: str) -> None:
    raw = Raw(broker)
    raw.open()
    raw.send(octets)
    assert raw.error(CLOSE)[0] == condition
    raw.send(performative(0, CLOSE))
    assert raw.ended()


def test_close_is_answered(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(performative(0, CLOSE))
    assert raw.expect(CLOSE)[0] is None
    assert raw.ended()


def test_a_silent_client_is_closed(broker: AnyBroker) -> None:
    raw = Raw(broker)
    silence_ms = raw.open()[4]
    broker.wait_out(2 * silence_ms / 1000 + 2)
    assert raw.error(CLOSE)[0] == "amqp:resource-limit-exceeded"


def test_a_client_that_asks_for_it_hears_something_in_time(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.open(None, None, None, Uint(4000))
    for _ in range(3):
        raw.send(EMPTY_FRAME)
        broker.wait_out(4)
        assert raw.read(8) == EMPTY_FRAME


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"guest"),
        ("PLAIN", b"somebody\0guest\0guest"),
        ("PLAIN", None),
        ("XOAUTH2", b"user=guest"),
        ("SCRAM-SHA-256", b"n,,nothing"),
    ],
)
def test_a_response_that_is_none_ends_with_an_outcome(broker: AnyBroker, mechanism: str, response: Any) -> None:
    raw = Raw(broker)
    raw.send(SASL_HEADER, performative(0, INIT, Symbol(mechanism), response, kind=1))
    assert raw.read(8) == SASL_HEADER
    raw.expect(MECHANISMS, kind=1)
    assert raw.expect(OUTCOME, kind=1)[0] == 1
    assert raw.ended()


def test_a_refused_client_is_sent_everything_and_then_the_end(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.log_in()
    raw.send(opened("raw", "vhost:none"), begin(), performative(0, CLOSE))
    raw.expect(OPEN)
    raw.error(CLOSE)
    assert raw.ended()
