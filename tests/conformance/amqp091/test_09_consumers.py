"""Consumers that leave, take too long or need more time, and what they may ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp091.raw import (
    ACK,
    CANCEL,
    CANCEL_OK,
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CONSUME,
    DELIVER,
    GET,
    NACK,
    PUBLISH,
    RETURN,
    Raw,
    connect,
    long,
    method,
    number,
    publish,
    short,
    table,
)

AUTO_DELETE, EXCLUSIVE = 8, 4
REQUEUE = 2
DEAF: dict[str, object] = {"capabilities": {}}  # does not want to hear that a consumer is gone
SECONDS_MAX = 20  # guards against a hang


def cancel(raw: Raw, tag: str = "t", channel: int = 1) -> None:
    raw.send(method(channel, CANCEL, short(tag) + b"\0"))
    assert raw.expect(channel, CANCEL_OK) == short(tag)


def headers(fields: Mapping[str, object]) -> bytes:
    return b"\x20\0" + table(fields)


# ---- leaving


def test_a_cancelled_consumer_leaves_at_once_with_what_it_holds(broker: AnyBroker) -> None:
    with connect(broker, channels=2) as raw:
        raw.declare("q")
        raw.fill("q", [b"0", b"1", b"2"])
        raw.prefetch(2)
        raw.consume("q")
        assert [raw.delivery()[2] for _ in range(2)] == [b"0", b"1"]
        assert raw.count("q") == (1, 1)
        cancel(raw)
        assert raw.count("q") == (1, 0)
        raw.consume("q", "other", channel=2)
        assert raw.delivery(2, "other") == (1, False, b"2")
        raw.settle(NACK, 1, REQUEUE)
        assert raw.delivery(2, "other") == (2, True, b"0")
        raw.settle(ACK, 2)
        raw.sync()
        raw.settle(ACK, 2)
        raw.channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 2", cause=ACK)


def test_an_auto_delete_queue_goes_though_its_last_consumer_holds_something(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q", bits=AUTO_DELETE)
        raw.fill("q", [b"x"])
        raw.consume("q")
        assert raw.delivery() == (1, False, b"x")
        cancel(raw)
        raw.settle(ACK, 1)  # of a queue that is gone: no effect, and no error
        raw.sync()
        raw.send(method(1, GET, b"\0\0" + short("q") + b"\0"))
        raw.channel_closed(404, "NOT_FOUND - no queue 'q' in vhost '/'", cause=GET)


def test_an_exclusive_consumer_that_left_is_in_nobodys_way(broker: AnyBroker) -> None:
    with connect(broker, channels=2) as raw:
        raw.declare("q")
        raw.fill("q", [b"0", b"1"])
        raw.prefetch(1)
        raw.consume("q", bits=EXCLUSIVE)
        assert raw.delivery() == (1, False, b"0")
        cancel(raw)
        raw.consume("q", channel=2)
        assert raw.delivery(2) == (1, False, b"1")
        raw.settle(NACK, 1, REQUEUE)
        assert raw.delivery(2) == (2, True, b"0")


def test_what_a_cancelled_consumer_held_returns_with_the_channel(broker: AnyBroker) -> None:
    with connect(broker) as other:
        with connect(broker) as raw:
            raw.declare("q")
            raw.fill("q", [b"x"])
            raw.consume("q")
            assert raw.delivery() == (1, False, b"x")
            cancel(raw)
            other.consume("q")
            other.sync()
        assert other.delivery() == (1, True, b"x")


# ---- taking too long

TIMEOUT = {"x-consumer-timeout": 300}


def test_who_takes_too_long_is_cancelled_and_loses_everything(broker: AnyBroker) -> None:
    with connect(broker) as other, connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"0", b"1", b"2"])
        raw.prefetch(2)
        raw.consume("q", arguments=TIMEOUT)
        assert [raw.delivery()[2] for _ in range(2)] == [b"0", b"1"]
        assert raw.expect(1, CANCEL)[:2] == short("t")
        assert raw.count("q") == (3, 0)
        other.consume("q")
        assert [other.delivery() for _ in range(3)] == [(1, True, b"0"), (2, True, b"1"), (3, False, b"2")]
        raw.settle(ACK, 1)  # late: it has no effect
        raw.settle(NACK, 2, REQUEUE)
        raw.sync()
        raw.settle(ACK, 1)
        raw.channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 1", cause=ACK)
        other.settle(ACK, 3, 1)
        other.sync()
        assert other.count("q") == (0, 1)


def test_who_takes_too_long_and_would_not_hear_of_it_loses_the_channel(broker: AnyBroker) -> None:
    with connect(broker, client=DEAF) as raw:
        raw.declare("q")
        raw.fill("q", [b"x"])
        raw.consume("q", arguments=TIMEOUT)
        assert raw.delivery() == (1, False, b"x")
        raw.channel_closed(
            406,
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 300 ms. "
            "This timeout value can be configured, see consumers doc guide to learn more",
        )
        raw.open_channel()
        assert raw.count("q") == (1, 0)


def test_the_limit_of_a_channel_does_not_count_what_was_taken_back(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"0", b"1"])
        raw.prefetch(1, whole_channel=True)
        raw.consume("q", "slow", arguments=TIMEOUT)
        assert raw.delivery(tag="slow") == (1, False, b"0")
        assert raw.expect(1, CANCEL)[:5] == short("slow")
        raw.consume("q", "next")
        assert raw.delivery(tag="next") == (2, True, b"0")
        raw.settle(ACK, 2)
        assert raw.delivery(tag="next") == (3, False, b"1")


@pytest.mark.parametrize("whose", ["queue", "broker"])
def test_whose_timeout_holds(start_broker: Callable[..., AnyBroker], whose: str) -> None:
    broker = start_broker(consumer_timeout_ms=300) if whose == "broker" else start_broker()
    with connect(broker) as raw:
        raw.declare("q", arguments=TIMEOUT if whose == "queue" else {})
        raw.fill("q", [b"x"])
        raw.consume("q", "patient", arguments={"x-consumer-timeout": 3_600_000})
        assert raw.delivery(tag="patient") == (1, False, b"x")
        with connect(broker) as other:  # whose consumer has the others' time, and began later
            other.declare("other", arguments=TIMEOUT if whose == "queue" else {})
            other.fill("other", [b"x"])
            other.consume("other")
            assert other.delivery()[2] == b"x"
            assert other.expect(1, CANCEL)[:2] == short("t")
        raw.sync()
        raw.settle(NACK, 1, REQUEUE)
        assert raw.delivery(tag="patient")[1:] == (True, b"x")
        cancel(raw, "patient")
        raw.consume("q")
        raw.settle(NACK, 2, REQUEUE)
        assert raw.delivery() == (3, True, b"x")
        assert raw.expect(1, CANCEL)[:2] == short("t")


# ---- needing more time


def extend(raw: Raw, fields: Mapping[str, object], queue: str = "q", mandatory: bool = False) -> None:
    raw.send(publish(1, f"$queue/{queue}/$extend", b"", properties=headers(fields), mandatory=mandatory))


@pytest.mark.parametrize("by", ["tag", "offset"])
def test_who_says_so_may_take_longer(broker: AnyBroker, by: str) -> None:
    fields: dict[str, object] = {"x-delivery-tag": 1} if by == "tag" else {"x-offset": 0, "x-group-id": ""}
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-visibility-timeout": 1000})
        raw.fill("q", [b"0", b"1"])
        raw.consume("q")
        assert [raw.delivery()[2] for _ in range(2)] == [b"0", b"1"]
        extend(raw, {**fields, "x-extend-ms": 3_600_000})
        raw.confirmed(3)
        for tag in (3, 4):  # the other comes again and again
            assert raw.delivery() == (tag, True, b"1")
        raw.settle(ACK, 1)
        raw.settle(ACK, 4)
        raw.sync()
        cancel(raw)
        assert raw.count("q") == (0, 0)


def test_who_holds_nothing_is_given_nothing(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"0"])
        raw.consume("q")
        raw.delivery()
        extend(raw, {"x-offset": 7}, mandatory=True)
        assert raw.expect(1, RETURN).startswith(number(312, 2) + short("NO_ROUTE"))
        raw.content(1)
        raw.confirmed(2)
        raw.settle(ACK, 1)
        extend(raw, {"x-delivery-tag": 1})
        raw.channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_who_does_not_hold_a_message_gives_it_no_time(broker: AnyBroker) -> None:
    with connect(broker) as raw, connect(broker) as other:
        raw.declare("q", arguments={"x-visibility-timeout": 1000})
        raw.fill("q", [b"0"])
        raw.consume("q")
        raw.delivery()
        extend(other, {"x-offset": 0, "x-extend-ms": 3_600_000})
        other.channel_closed(403, "ACCESS_REFUSED - x-offset: 0 of queue 'q' is held by somebody else")
        assert raw.delivery() == (2, True, b"0")  # its time is over as before


def test_where_a_queue_is_sublet_its_group_gives_more_time(broker: AnyBroker) -> None:
    with connect(broker) as raw, connect(broker) as other:
        raw.declare("q", arguments={"x-leasing": "sublet"})
        raw.fill("q", [b"0"])
        raw.consume("q")
        raw.delivery()
        other.consume("q")
        extend(other, {"x-offset": 0, "x-extend-ms": 3_600_000})
        other.sync()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "x-offset: None is no number within"),
        ({"x-offset": -1}, "x-offset: -1 is no number within"),
        ({"x-delivery-tag": "one"}, "x-delivery-tag: 'one' is no number within"),
        ({"x-delivery-tag": 1, "x-extend-ms": 0}, "x-extend-ms: 0 is no number within 1 .. 10000000000"),
        ({"x-delivery-tag": 2}, "unknown delivery tag 2"),
        ({"x-offset": 0, "x-group-id": "none"}, "no group 'none' on queue 'q'"),
        ({"x-offset": 0, "x-group-id": 5}, "x-group-id: 5 is no text"),
    ],
)
def test_extensions_that_mean_nothing(broker: AnyBroker, fields: dict[str, object], text: str) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"0"])
        raw.consume("q")
        raw.delivery()
        extend(raw, fields)
        args = raw.expect(1, CHANNEL_CLOSE)
        assert text in args[3:].decode("utf-8", "replace")


def test_a_tag_beyond_all_tags(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        field = short("x-delivery-tag") + b"L" + b"\xff" * 8
        raw.send(publish(1, "$queue/q/$extend", b"", properties=b"\x20\0" + long(field)))
        text = f"x-delivery-tag: {(1 << 64) - 1} is no number within 1 .. {(1 << 63) - 1}"
        raw.channel_closed(406, f"PRECONDITION_FAILED - {text}")


def test_an_extension_is_of_the_queue_that_the_delivery_came_from(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.declare("other")
        raw.fill("q", [b"0"])
        raw.consume("q")
        raw.delivery()
        extend(raw, {"x-delivery-tag": 1}, "other")
        raw.channel_closed(406, "PRECONDITION_FAILED - delivery tag 1 is not of queue 'other'")


def test_an_extension_stands_where_its_read_ends(broker: AnyBroker) -> None:
    """What follows it in one read is handled whether it fails or not, and half a frame waits for its other half."""
    whole = publish(2, "q", b"half and half")
    with connect(broker, channels=2) as raw:
        raw.declare("q")
        raw.confirm(2)
        wrong = publish(1, "$queue/q/$extend", b"", properties=headers({"x-delivery-tag": 9}))
        good = publish(2, "q", b"good")
        raw.send(wrong + good + whole[:20])
        text = "PRECONDITION_FAILED - unknown delivery tag 9"
        raw.check_close(raw.expect(1, CHANNEL_CLOSE), 406, text, PUBLISH)
        raw.confirmed(1, 2)
        raw.send(whole[20:], method(1, CHANNEL_CLOSE_OK))
        raw.confirmed(2, 2)
        assert raw.count("q", 2) == (2, 0)


# ---- what may be asked for


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"x-priority": "high"},
            "invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got longstr\"",
        ),
        ({"x-priority": True}, "invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got bool\""),
        (
            {"x-consumer-timeout": -1},
            "invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/': -1 is not within 0 .. 1099511627776 ms",
        ),
    ],
)
def test_arguments_that_are_refused(broker: AnyBroker, arguments: dict[str, object], text: str) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(method(1, CONSUME, b"\0\0" + short("q") + short("t") + b"\0" + table(arguments)))
        raw.channel_closed(406, f"PRECONDITION_FAILED - {text}", cause=CONSUME)


@pytest.mark.parametrize("queue_type", ["classic", "quorum", "stream"])
def test_a_filter_that_is_refused_says_where_it_is_wrong(broker: AnyBroker, queue_type: str) -> None:
    refused: list[tuple[bytes, str]] = [
        (
            b"S" + long("/n > 5 AN /n < 9"),
            "filter, position 8, 'AN': the filter is complete before it; AND or OR may follow",
        ),
        (b"S" + long("/n > "), "filter, position 6, the end: a value is due here"),
        (b"S" + long(b"/n = '\xff'"), "x-filter: no UTF-8 at octet 6"),
        (b"x" + long(b"/n = '\xff'"), "x-filter: no UTF-8 at octet 6"),
        (b"t\1", "x-filter: expected longstr, got bool"),
        (b"S" + long("x" * 8193), "filter, position 8193, 'x': over 8192 characters"),
    ]
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-queue-type": queue_type})
        for value, text in refused:
            arguments = long(short("x-filter") + value)
            raw.send(method(1, CONSUME, b"\0\0" + short("q") + short("t") + b"\0" + arguments))
            raw.channel_closed(406, f"PRECONDITION_FAILED - {text}", cause=CONSUME)
            raw.open_channel()
        assert raw.count("q") == (0, 0)


def test_filtered_consumers_of_one_channel(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"1", b"22222", b"333", b"44444", b"55555"])
        raw.prefetch(2)
        raw.consume("q", "long", arguments={"x-filter": "octets > 3"})
        assert [raw.delivery(tag="long")[2] for _ in range(2)] == [b"22222", b"44444"]
        raw.consume("q", "short", arguments={"x-filter": "octets <= 3"})
        assert [raw.delivery(tag="short")[2] for _ in range(2)] == [b"1", b"333"]
        assert raw.count("q") == (1, 2)
        cancel(raw, "long")
        raw.settle(NACK, 2, REQUEUE)
        assert raw.count("q") == (2, 1)


def test_a_stream_has_no_priorities_of_consumers(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("s", arguments={"x-queue-type": "stream"})
        raw.send(method(1, CONSUME, b"\0\0" + short("s") + short("t") + b"\0" + table({"x-priority": 1})))
        text = "invalid arg 'x-priority' for queue 's' in vhost '/' of queue type rabbit_stream_queue"
        raw.channel_closed(406, f"PRECONDITION_FAILED - {text}", cause=CONSUME)


@pytest.mark.parametrize(
    ("name", "meant"), [("x-prioritty", "did you mean x-priority?"), ("x-nobody-knows-it", "known are ")]
)
def test_a_consumer_argument_that_nothing_puts_in_force(broker: AnyBroker, name: str, meant: str) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(method(1, CONSUME, b"\0\0" + short("q") + short("t") + b"\0" + table({name: 5})))
        args = raw.expect(1, CHANNEL_CLOSE)
        assert args[:2] == (406).to_bytes(2, "big")
        text = f"invalid arg '{name}' for a consumer of queue 'q' in vhost '/': nothing puts it in force; {meant}"
        assert text.encode() in args


def test_arguments_that_mean_nothing_here(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"x"])
        raw.consume("q", arguments={"x-cancel-on-ha-failover": True, "x-credit": {"credit": 5}})
        assert raw.delivery() == (1, False, b"x")


def test_get_from_a_stream(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("s", arguments={"x-queue-type": "stream"})
        raw.send(method(1, GET, b"\0\0" + short("s") + b"\0"))
        text = "NOT_IMPLEMENTED - basic.get not supported by stream queues queue 's' in vhost '/'"
        raw.connection_closed(540, text, cause=GET)


def test_a_single_active_consumer_and_get(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-single-active-consumer": True})
        raw.send(method(1, GET, b"\0\0" + short("q") + b"\0"))
        text = (
            "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get operations are not "
            "supported by classic queues with single active consumer"
        )
        raw.channel_closed(405, text, cause=GET)


def test_a_single_active_consumer_is_never_exclusive(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-single-active-consumer": True})
        raw.send(method(1, CONSUME, b"\0\0" + short("q") + short("t") + number(EXCLUSIVE, 1) + table()))
        raw.channel_closed(403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", cause=CONSUME)


# ---- streams


STREAM_HEADERS = short("x-stream-offset") + b"l" + bytes(8) + short("x-stream-timestamp") + b"l"


@pytest.mark.parametrize("said", [{"x-stream-offset": 99}, {"x-stream-timestamp": 99}, {}])
@pytest.mark.parametrize("octets", [1, 2 << 20])
def test_offset_and_time_are_the_brokers_whatever_the_publisher_says(
    broker: AnyBroker, said: dict[str, int], octets: int
) -> None:
    before_ms = int(broker.now() * 1000)
    with connect(broker) as raw:
        raw.declare("s", arguments={"x-queue-type": "stream"})
        raw.confirm()
        raw.send(publish(1, "s", bytes(octets), properties=headers({**said, "mine": 1})))
        raw.confirmed(1)
        raw.consume("s", arguments={"x-stream-offset": "first"})
        raw.expect(1, DELIVER)
        properties, body, _ = raw.content(1)
        stamp = properties.partition(STREAM_HEADERS)[2][:8]
        mine = headers({"mine": 1})[6:]
        assert properties == b"\x20\0" + number(len(STREAM_HEADERS) + 8 + len(mine), 4) + STREAM_HEADERS + stamp + mine
        assert before_ms <= int.from_bytes(stamp, "big") <= broker.now() * 1000
        assert body == bytes(octets)


def test_readers_are_told_how_far_the_primary_group_is(broker: AnyBroker) -> None:
    stream = {"x-queue-type": "stream", "x-primary-group": "workers"}
    with connect(broker, channels=3) as raw:
        raw.declare("s", arguments=stream)
        raw.fill("s", [b"0", b"1", b"2", b"3"])
        raw.prefetch(3, channel=2)
        raw.consume("s", "w", arguments={"x-consumer-group": "workers"}, channel=2)
        assert [raw.delivery(2, "w")[2] for _ in range(3)] == [b"0", b"1", b"2"]
        raw.settle(ACK, 1, channel=2)
        assert raw.delivery(2, "w") == (4, False, b"3")
        raw.settle(ACK, 3, channel=2)
        raw.sync(2)
        raw.consume("s", "r", arguments={"x-stream-offset": "first"}, channel=3)
        for offset in range(4):
            args = raw.expect(3, DELIVER)
            assert args[:11] == short("r") + number(offset + 1, 8) + b"\0"
            properties, body, _ = raw.content(3)
            assert body == b"%d" % offset
            assert short("x-stream-offset") + b"l" + number(offset, 8) in properties
            assert short("x-work-committed-offset") + b"l" + number(1, 8) in properties
            assert short("x-work-acked") + b"t" + number(offset in {0, 2}, 1) in properties
            assert short("x-work-group") + b"S" + long("workers") in properties
            _, _, stamp = properties.partition(short("x-stream-timestamp") + b"l")
            assert abs(int.from_bytes(stamp[:8], "big") / 1000 - broker.now()) < SECONDS_MAX
        raw.settle(NACK, 2, REQUEUE, channel=2)
        assert raw.delivery(2, "w") == (5, True, b"1")


def test_the_work_on_a_stream_goes_on_after_a_kill(broker_process: BrokerProcess) -> None:
    stream = {"x-queue-type": "stream", "x-primary-group": "workers"}
    with connect(broker_process) as raw:
        raw.declare("s", arguments=stream)
        raw.fill("s", [b"0", b"1", b"2"])
        raw.consume("s", arguments={"x-consumer-group": "workers"})
        assert [raw.delivery()[2] for _ in range(3)] == [b"0", b"1", b"2"]
        raw.settle(ACK, 1)
        raw.settle(ACK, 3)
        raw.sync()
        raw.send(publish(1, "s", b"3"))  # its confirm comes when what was settled before is on the disk as well
        raw.expect(1, DELIVER)
        raw.content(1)
        raw.confirmed(4)
    broker_process.kill9()
    broker_process.start()
    with connect(broker_process) as raw:
        raw.consume("s", arguments={"x-consumer-group": "workers"})
        assert sorted(raw.delivery()[2] for _ in range(2)) == [b"1", b"3"]
        assert raw.count("s")[0] == 4
        raw.consume("s", "r", arguments={"x-stream-offset": "first"})
        assert [raw.delivery(tag="r")[2] for _ in range(4)] == [b"0", b"1", b"2", b"3"]
