"""Publishing: content, confirms, returns (AMQP 0.9.1 section 1.8, RabbitMQ's publisher confirms)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp091.raw import (
    ACK,
    CHANNEL_CLOSE_OK,
    GET,
    GET_OK,
    PUBLISH,
    RETURN,
    connect,
    content,
    frame,
    method,
    number,
    publish,
    short,
    table,
)

pytestmark = pytest.mark.over_sockets


def test_confirms_count_from_one_on_each_channel(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        for channel in (1, 2):
            raw.confirm(channel)
            raw.send(publish(channel, "q", b"a"))
            assert raw.expect(channel, ACK) == number(1, 8) + b"\0"
            raw.send(publish(channel, "q", b"b") + publish(channel, "q", b"c"))
            raw.confirmed(3, channel)


def test_confirms_may_be_switched_on_late_and_twice(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(publish(1, "q", b"not counted"))
        raw.confirm()
        raw.confirm()
        raw.send(publish(1, "q", b"counted"))
        raw.confirmed(1)
        assert raw.count("q")[0] == 2


def test_what_has_no_route_is_confirmed_and_returned_if_mandatory(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.confirm()
        raw.send(publish(1, "none", b"dropped"))
        raw.confirmed(1)
        properties = b"\x80\0" + short("text/plain")
        raw.send(publish(1, "none", b"back", "amq.direct", properties, mandatory=True))
        assert raw.expect(1, RETURN) == number(312, 2) + short("NO_ROUTE") + short("amq.direct") + short("none")
        assert raw.content(1) == (properties, b"back", [4])
        raw.confirmed(2)


@pytest.mark.parametrize("octets", [0, 1, 4087, 4088, 4089, 8176, 8177, 300_000])
def test_a_body_of_any_length(broker: AnyBroker, octets: int) -> None:
    body = bytes(index * 7 & 255 for index in range(octets))
    with connect(broker, frame_max=4096) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(publish(1, "q", body, frame_max=4096))
        raw.confirmed(1)
        raw.consume("q")
        assert raw.delivery()[2] == body


def test_empty_body_frames_say_nothing(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(
            method(1, PUBLISH, b"\0\0" + short("") + short("q") + b"\0"),
            frame(2, 1, b"\0\x3c\0\0" + number(4, 8) + b"\0\0"),
            frame(3, 1, b""),
            frame(3, 1, b"ab"),
            frame(3, 1, b""),
            frame(3, 1, b"cd"),
        )
        raw.confirmed(1)
        raw.consume("q")
        assert raw.delivery()[2] == b"abcd"


def test_every_split_of_the_input_is_one_message(broker: AnyBroker) -> None:
    octets = publish(1, "q", b"body", properties=b"\x80\0" + short("t"))
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        for cut in range(1, len(octets)):
            raw.send(octets[:cut])
            raw.send(octets[cut:])
        raw.confirmed(len(octets) - 1)
        assert raw.count("q")[0] == len(octets) - 1


def test_a_message_longer_than_the_option_allows(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(message_octets_max=1000)
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(publish(1, "q", bytes(1000)))
        raw.confirmed(1)
        raw.send(publish(1, "q", bytes(1001)))
        text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
        raw.channel_closed(406, text, cause=PUBLISH)
        raw.open_channel()
        raw.send(
            method(1, PUBLISH, b"\0\0" + short("") + short("q") + b"\0"),
            frame(2, 1, b"\0\x3c\0\0" + b"\xff" * 8 + b"\0\0"),
        )
        text = f"PRECONDITION_FAILED - message size {2**64 - 1} is larger than configured max size 1000"
        raw.channel_closed(406, text)


def test_content_that_is_not_what_was_announced(broker: AnyBroker) -> None:
    start = method(1, PUBLISH, b"\0\0" + short("") + short("q") + b"\0")
    with connect(broker) as raw:
        raw.send(start, frame(2, 1, b"\0\x3c\0\0" + number(3, 8) + b"\0\0"), frame(3, 1, b"four"))
        raw.connection_closed(505, "UNEXPECTED_FRAME - content body is 1 octets longer than announced")
    with connect(broker) as raw:
        raw.send(start, frame(2, 1, b"\0\x32\0\0" + number(3, 8) + b"\0\0"))
        raw.connection_closed(505, "UNEXPECTED_FRAME - content header of class 50 after a method of class 60")
    with connect(broker) as raw:
        raw.send(start, content(1, b"x", b"\0\x01"))
        raw.connection_closed(502, "SYNTAX_ERROR - property flags 1 have bits that no property has")
    with connect(broker) as raw:
        raw.send(start, content(1, b"x", b"\x20\0\0\0\0\x09"))
        raw.connection_closed(502, "SYNTAX_ERROR - table at octet 6 runs over the end")


def test_tables_nest_to_a_limit(broker: AnyBroker) -> None:
    def nested(levels: int) -> bytes:
        fields: dict[str, object] = {}
        for _ in range(levels - 1):
            fields = {"a": fields}
        return b"\x20\0" + table(fields)

    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(publish(1, "q", b"deep", properties=nested(100)))
        raw.confirmed(1)
        raw.send(publish(1, "q", b"too deep", properties=nested(101)))
        assert b"nests too deep" in raw.expect(0, (10, 50))


@pytest.mark.parametrize(
    ("expiration", "wrong"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("10x", '{leftover_string,"x"}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_expirations_that_are_none(broker: AnyBroker, expiration: str, wrong: str) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        for _ in range(2):  # nothing is remembered of properties that were refused
            raw.send(publish(1, "q", b"x", properties=b"\x01\0" + short(expiration)))
            raw.channel_closed(406, f"PRECONDITION_FAILED - invalid expiration '{expiration}': {wrong}", cause=PUBLISH)
            raw.open_channel()
        raw.confirm()
        raw.send(publish(1, "q", b"x", properties=b"\x01\0" + short("315360000000")))
        raw.confirmed(1)


def test_the_user_is_checked(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(publish(1, "q", b"x", properties=b"\0\x10" + short("root")))
        raw.channel_closed(
            406, "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'guest'"
        )
        raw.open_channel()
        raw.confirm()
        raw.send(publish(1, "q", b"x", properties=b"\x01\x10" + short("60000") + short("guest")))
        raw.confirmed(1)


def test_a_missing_exchange_ends_the_channel_and_nothing_is_confirmed(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.confirm()
        raw.send(publish(1, "k", b"x", "none"), publish(1, "k", b"y", "none"))
        raw.channel_closed(404, "NOT_FOUND - no exchange 'none' in vhost '/'", cause=PUBLISH)
        raw.open_channel()
        raw.sync()


def test_an_internal_exchange_takes_no_publishes(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(method(1, (40, 10), b"\0\0" + short("inner") + short("direct") + b"\x0a" + table()))
        raw.expect(1, (40, 11))
        raw.send(publish(1, "k", b"x", "inner"))
        raw.channel_closed(403, "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'")


def test_immediate_is_not_implemented(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(method(1, PUBLISH, b"\0\0" + short("") + short("q") + b"\x02"), content(1, b"x"))
        raw.connection_closed(540, "NOT_IMPLEMENTED - immediate=true", cause=PUBLISH)


def test_a_route_is_forgotten_when_the_topology_changes(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.confirm()
        raw.send(publish(1, "q", b"nobody there"))
        raw.confirmed(1)
        raw.declare("q", channel=2)
        raw.send(publish(1, "q", b"now"))
        raw.confirmed(2)
        raw.send(method(2, (50, 20), b"\0\0" + short("q") + short("amq.fanout") + short("") + b"\0" + table()))
        raw.expect(2, (50, 21))
        raw.send(publish(1, "", b"twice", "amq.fanout"))
        raw.confirmed(3)
        assert raw.count("q", 2) == (2, 0)
        raw.send(method(2, (50, 40), b"\0\0" + short("q") + b"\0"))
        raw.expect(2, (50, 41))
        raw.send(publish(1, "q", b"gone", mandatory=True))
        raw.expect(1, RETURN)
        raw.content(1)
        raw.confirmed(4)


def test_properties_come_back_octet_for_octet(broker: AnyBroker) -> None:
    properties = (
        b"\xff\xf8\x04text\x04gzip"
        + table({"n": 1, "t": {"deep": True}})
        + b"\x02\x05\x03cor\x02to\x041500\x02id\0\0\0\0\x65\0\0\0\x01t\x05guest\x03app"
    )
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(publish(1, "q", b"x", properties=properties))
        raw.confirmed(1)
        raw.send(method(1, GET, b"\0\0" + short("q") + b"\x01"))
        raw.expect(1, GET_OK)
        assert raw.content(1) == (properties, b"x", [1])


def test_closing_a_channel_does_not_lose_what_was_published(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q", channel=2)
        raw.send(publish(1, "q", b"x"), method(1, (20, 40), number(200, 2) + short("") + b"\0\0\0\0"))
        raw.expect(1, CHANNEL_CLOSE_OK)
        assert raw.count("q", 2) == (1, 0)
