"""Channels, and which errors end them (AMQP 0.9.1 section 2.2.5)."""

from __future__ import annotations

from tests.broker_process import AnyBroker
from tests.conformance.amqp091.raw import (
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CHANNEL_OPEN,
    PUBLISH,
    QUEUE_DECLARE,
    Raw,
    connect,
    content,
    frame,
    method,
    number,
    publish,
    short,
    table,
)

NO_QUEUE = b"\0\0" + short("none") + b"\x01" + table()
GONE = "NOT_FOUND - no queue 'none' in vhost '/'"


def test_a_channel_can_be_opened_once(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(method(1, CHANNEL_OPEN, b"\0"))
        raw.connection_closed(504, "CHANNEL_ERROR - second 'channel.open' seen", cause=CHANNEL_OPEN)


def test_a_channel_must_be_opened_first(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(method(2, QUEUE_DECLARE, NO_QUEUE))
        raw.connection_closed(504, "CHANNEL_ERROR - expected 'channel.open' on channel 2", cause=QUEUE_DECLARE)
    with connect(broker) as raw:
        raw.send(frame(3, 2, b"body"))
        raw.connection_closed(504, "CHANNEL_ERROR - expected 'channel.open' on channel 2")


def test_no_more_channels_than_negotiated_whatever_their_numbers(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.handshake(channel_max=3)
    for channel in (3, 9, 65535):
        raw.open_channel(channel)
    raw.send(method(9, CHANNEL_CLOSE, number(200, 2) + short("") + b"\0\0\0\0"))
    raw.expect(9, CHANNEL_CLOSE_OK)
    raw.open_channel(1)
    raw.send(method(2, CHANNEL_OPEN, b"\0"))
    text = "number of channels opened (3) has reached the negotiated channel_max (3)"
    raw.connection_closed(530, f"NOT_ALLOWED - {text}", cause=CHANNEL_OPEN)


def test_a_closed_channel_can_be_opened_again(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        for _ in range(3):
            raw.send(method(1, CHANNEL_CLOSE, number(200, 2) + short("") + b"\0\0\0\0"))
            assert raw.expect(1, CHANNEL_CLOSE_OK) == b""
            raw.open_channel(1)


def test_an_error_of_a_channel_leaves_the_others(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.send(method(1, QUEUE_DECLARE, NO_QUEUE))
        raw.channel_closed(404, GONE, cause=QUEUE_DECLARE)
        raw.sync(2)
        raw.open_channel(1)
        raw.sync(1)


def test_a_channel_in_error_hears_nothing_until_close_ok(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q", channel=2)
        raw.send(
            method(1, QUEUE_DECLARE, NO_QUEUE),
            publish(1, "q", b"lost"),
            method(1, QUEUE_DECLARE, b"\0\0" + short("other") + b"\x02" + table()),
            method(1, (60, 99)),
        )
        raw.check_close(raw.expect(1, CHANNEL_CLOSE), 404, GONE, QUEUE_DECLARE)
        assert raw.count("q", 2) == (0, 0)
        raw.send(method(1, CHANNEL_CLOSE_OK))
        raw.open_channel(1)
        raw.send(method(1, QUEUE_DECLARE, b"\0\0" + short("other") + b"\x01" + table()))
        raw.channel_closed(404, "NOT_FOUND - no queue 'other' in vhost '/'")


def test_flow_can_be_on_only(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.sync(1)
        raw.send(method(1, (20, 20), b"\x00"))
        raw.connection_closed(540, "NOT_IMPLEMENTED - active=false", cause=(20, 20))


def test_content_without_a_publish(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(content(1, b"body"))
        raw.connection_closed(505, "UNEXPECTED_FRAME - content header without a method that has content")
    with connect(broker) as raw:
        raw.send(frame(3, 1, b"body"))
        raw.connection_closed(505, "UNEXPECTED_FRAME - content body without a content header")


def test_a_method_inside_content(broker: AnyBroker) -> None:
    args = b"\0\0" + short("") + short("q") + b"\0"
    with connect(broker) as raw:
        raw.send(method(1, PUBLISH, args), method(1, (20, 20), b"\x01"))
        raw.connection_closed(505, "UNEXPECTED_FRAME - method frame where a part of a message must come")
    with connect(broker) as raw:
        raw.send(method(1, PUBLISH, args), content(1, b"body")[:-12], method(1, (20, 20), b"\x01"))
        raw.connection_closed(505, "UNEXPECTED_FRAME - method frame where a part of a message must come")


def test_content_of_two_channels_may_alternate(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.confirm(1)
        raw.confirm(2)
        first = publish(1, "q", b"one" * 100)
        second = publish(2, "q", b"two" * 100)
        cut = len(method(1, PUBLISH, b"\0\0" + short("") + short("q") + b"\0"))
        raw.send(first[:cut], second[:cut])
        raw.send(first[cut : cut + 22], second[cut : cut + 22], second[cut + 22 :])
        raw.confirmed(1, 2)
        raw.send(first[cut + 22 :])
        raw.confirmed(1, 1)
        raw.consume("q", bits=2)
        assert raw.delivery()[2] == b"two" * 100
        assert raw.delivery()[2] == b"one" * 100
