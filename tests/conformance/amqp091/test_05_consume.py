"""Deliveries and what settles them (AMQP 0.9.1 section 1.8.3, with RabbitMQ's extensions)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp091.raw import (
    ACK,
    CANCEL,
    CANCEL_OK,
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CONSUME,
    CONSUME_OK,
    DELIVER,
    GET,
    GET_EMPTY,
    GET_OK,
    NACK,
    QOS,
    RECOVER,
    RECOVER_OK,
    REJECT,
    Raw,
    connect,
    method,
    number,
    publish,
    short,
    table,
)

pytestmark = pytest.mark.over_sockets
NO_ACK, EXCLUSIVE, NO_WAIT = 2, 4, 8
REQUEUE = 2  # bit of basic.nack
UNKNOWN = "PRECONDITION_FAILED - unknown delivery tag {}"


def bodies(count: int) -> list[bytes]:
    return [b"message %d" % index for index in range(count)]


def test_a_delivery_octet_by_octet(broker: AnyBroker) -> None:
    properties = b"\x80\0" + short("text/plain")
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(method(1, (50, 20), b"\0\0" + short("q") + short("amq.direct") + short("key") + b"\0" + table()))
        raw.expect(1, (50, 21))
        raw.confirm()
        raw.send(publish(1, "key", b"hello", "amq.direct", properties))
        raw.confirmed(1)
        raw.consume("q", "tag")
        args = raw.expect(1, DELIVER)
        assert args == short("tag") + number(1, 8) + b"\0" + short("amq.direct") + short("key")
        assert raw.content(1) == (properties, b"hello", [5])


def test_bodies_are_cut_to_the_frame_that_was_agreed(broker: AnyBroker) -> None:
    lengths = [0, 1, 4087, 4088, 4089, 8176, 8177, 0, 20_000]
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [bytes([65 + place]) * length for place, length in enumerate(lengths)])
    with connect(broker, frame_max=4096) as raw:
        raw.consume("q")
        for place, length in enumerate(lengths):
            raw.expect(1, DELIVER)
            _, body, parts = raw.content(1)
            assert body == bytes([65 + place]) * length
            assert parts == [4088] * (length // 4088) + [length % 4088] * (length % 4088 > 0)


def test_records_that_differ_in_everything_keep_apart(broker: AnyBroker) -> None:
    sent = [
        ("amq.fanout", "", b"\0\0", b""),
        ("amq.fanout", "a", b"\0\0", b"1"),
        ("amq.fanout", "aa", b"\0\0", b"2"),
        ("amq.fanout", "", b"\x80\0" + short("t"), b"3"),
        ("", "q", b"\x80\0" + short("u"), b"4"),
        ("", "q", b"\x80\0" + short("uu"), b"5"),
        ("", "q", b"\x80\0" + short("vv"), b"6"),
    ]
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(method(1, (50, 20), b"\0\0" + short("q") + short("amq.fanout") + short("") + b"\0" + table()))
        raw.expect(1, (50, 21))
        raw.confirm()
        raw.send(*[publish(1, key, body, exchange, properties) for exchange, key, properties, body in sent])
        raw.confirmed(len(sent))
        raw.consume("q")
        for place, (exchange, key, properties, body) in enumerate(sent, 1):
            assert raw.expect(1, DELIVER) == short("t") + number(place, 8) + b"\0" + short(exchange) + short(key)
            assert raw.content(1)[:2] == (properties, body)


def test_prefetch_holds_deliveries_back(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(10))
        raw.prefetch(3)
        raw.consume("q")
        assert [raw.delivery() for _ in range(3)] == [(tag, False, b"message %d" % (tag - 1)) for tag in (1, 2, 3)]
        raw.sync()
        raw.settle(ACK, 1)
        assert raw.delivery()[0] == 4
        raw.sync()
        raw.settle(ACK, 4, 1)
        assert [raw.delivery()[0] for _ in range(3)] == [5, 6, 7]
        raw.sync()


def test_prefetch_is_of_each_consumer(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(10))
        raw.prefetch(2)
        raw.consume("q", "a")
        assert [raw.delivery(tag="a")[0] for _ in range(2)] == [1, 2]
        raw.prefetch(1)
        raw.consume("q", "b")
        assert raw.delivery(tag="b")[0] == 3
        raw.sync()


def test_a_limit_of_the_whole_channel(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("p")
        raw.declare("q")
        raw.confirm()
        raw.send(*[publish(1, name, b"x") for name in "pppppqqqqq"])
        raw.confirmed(10)
        raw.prefetch(3, whole_channel=True)
        raw.consume("p", "p")
        assert [raw.delivery(tag="p")[0] for _ in range(3)] == [1, 2, 3]
        raw.consume("q", "q")
        raw.sync()
        raw.settle(ACK, 2, 1)
        for _ in range(2):
            raw.expect(1, DELIVER)
            raw.content(1)
        raw.sync()
        seen = 5
        while seen < 10:
            raw.settle(ACK, seen, 1)
            for _ in range(min(3, 10 - seen)):
                raw.expect(1, DELIVER)
                raw.content(1)
                seen += 1
        raw.settle(ACK, 0, 1)
        raw.sync()
        assert (raw.count("p")[0], raw.count("q")[0]) == (0, 0)


def test_a_limit_by_octets_is_not_implemented(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(method(1, QOS, number(1000, 4) + number(1, 2) + b"\0"))
        raw.connection_closed(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1000)", cause=QOS)


@pytest.mark.parametrize("which", [ACK, NACK, REJECT])
@pytest.mark.parametrize("tag", [0, 4, 1 << 62, (1 << 64) - 1])
def test_a_tag_that_was_never_given(broker: AnyBroker, which: tuple[int, int], tag: int) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(3))
        raw.consume("q")
        for _ in range(3):
            raw.delivery()
        raw.settle(which, tag)
        shown = tag - (1 << 64) if tag >> 63 else tag
        raw.channel_closed(406, UNKNOWN.format(shown), cause=which)


def test_nothing_is_settled_twice(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(6))
        for settled in ([1], [2], [3, 2]):
            raw.consume("q")
            for _ in range(6):
                raw.delivery()
            for tag in settled:
                raw.settle(ACK, tag)
            raw.sync()
            raw.settle(ACK, settled[-1])
            raw.channel_closed(406, UNKNOWN.format(settled[-1]), cause=ACK)
            raw.open_channel()
            raw.send(method(1, (50, 30), b"\0\0" + short("q") + b"\x01"))
            raw.fill("q", bodies(6))


def test_acks_in_any_order_settle_what_they_name(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.fill("q", bodies(20))
        raw.consume("q")
        for _ in range(20):
            raw.delivery()
        for tag in (20, 3, 1, 2, 7, 5, 6):
            raw.settle(ACK, tag)
        raw.settle(ACK, 10, 1)  # 4, 8, 9 and 10 as well
        raw.settle(NACK, 15, REQUEUE)
        raw.settle(REJECT, 14, 0)
        assert raw.delivery() == (21, True, b"message 14")
        raw.send(method(1, CHANNEL_CLOSE, number(200, 2) + short("") + b"\0\0\0\0"))
        raw.expect(1, CHANNEL_CLOSE_OK)
        left = [11, 12, 13, 15, 16, 17, 18, 19]
        assert raw.count("q", 2) == (len(left), 0)
        raw.consume("q", channel=2)
        assert [raw.delivery(2)[1:] for _ in left] == [(True, b"message %d" % (tag - 1)) for tag in left]


def test_ack_of_everything(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(5))
        raw.settle(ACK, 0, 1)  # nothing is out: nothing to settle, and no error
        raw.consume("q")
        for _ in range(5):
            raw.delivery()
        raw.settle(ACK, 0, 1)
        raw.send(method(1, CHANNEL_CLOSE, number(200, 2) + short("") + b"\0\0\0\0"))
        raw.expect(1, CHANNEL_CLOSE_OK)
        raw.open_channel()
        assert raw.count("q") == (0, 0)


def counts(properties: bytes) -> tuple[int, int]:
    """How often a message failed, and how often it was out before, as its headers say."""
    found = []
    for name in ("x-delivery-count", "x-acquired-count"):
        _, there, rest = properties.partition(short(name) + b"l")
        assert there, f"{name} is not in {properties!r}"
        found.append(int.from_bytes(rest[:8], "big"))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("kind", "which", "failed"),
    [
        ("classic", NACK, 1),
        ("classic", REJECT, 1),
        ("classic", RECOVER, 1),
        ("quorum", NACK, 0),
        ("quorum", REJECT, 1),
        ("quorum", RECOVER, 0),
    ],
)
def test_what_is_given_back_says_how_often(broker: AnyBroker, kind: str, which: tuple[int, int], failed: int) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-queue-type": kind, "x-delivery-limit": 9})
        raw.fill("q", bodies(1))
        raw.consume("q")
        raw.expect(1, DELIVER)
        assert raw.content(1)[0] == b"\0\0"
        for times in (1, 2, 3):
            if which == RECOVER:
                raw.send(method(1, RECOVER, b"\x01"))
                raw.expect(1, RECOVER_OK)
            else:
                raw.settle(which, times, REQUEUE if which == NACK else 1)
            assert raw.expect(1, DELIVER)[2 + 8] == 1
            assert counts(raw.content(1)[0]) == (failed * times, times)


def test_what_the_end_of_a_channel_returns_has_failed(broker: AnyBroker) -> None:
    with connect(broker, channels=2) as raw:
        raw.declare("q", channel=2, arguments={"x-delivery-limit": 9})
        raw.fill("q", bodies(1), channel=2)
        for times in range(4):
            raw.send(method(1, GET, b"\0\0" + short("q") + b"\0"))
            assert raw.expect(1, GET_OK)[8] == (times > 0)
            properties = raw.content(1)[0]
            assert properties == b"\0\0" if times == 0 else counts(properties) == (times, times)
            raw.send(method(1, CHANNEL_CLOSE, number(200, 2) + short("") + b"\0\0\0\0"))
            raw.expect(1, CHANNEL_CLOSE_OK)
            raw.open_channel()


def test_a_publishers_own_counts_are_not_believed(broker: AnyBroker) -> None:
    headers = b"\x20\0" + table({"x-delivery-count": 77, "mine": 5, "x-acquired-count": 78})
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-delivery-limit": 9})
        raw.confirm()
        raw.send(publish(1, "q", b"x", properties=headers))
        raw.confirmed(1)
        raw.consume("q")
        raw.expect(1, DELIVER)
        assert raw.content(1)[0] == headers
        raw.settle(NACK, 1, REQUEUE)
        raw.expect(1, DELIVER)
        properties = raw.content(1)[0]
        assert counts(properties) == (1, 1)
        assert properties.count(b"x-delivery-count") == properties.count(b"x-acquired-count") == 1
        assert short("mine") + b"l" + number(5, 8) in properties


def test_nack_returns_to_the_front_and_counts(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-delivery-limit": 9})
        raw.fill("q", bodies(4))
        raw.prefetch(2)
        raw.consume("q")
        assert [raw.delivery()[2] for _ in range(2)] == bodies(2)
        raw.settle(NACK, 2, REQUEUE | 1)
        for count in (1, 2):
            for place in range(2):
                args = raw.expect(1, DELIVER)
                assert args[2 + 8] == 1
                properties, body, _ = raw.content(1)
                assert body == b"message %d" % place
                assert counts(properties) == (count, count)
            if count == 1:
                raw.settle(NACK, 4, REQUEUE | 1)


def test_nack_without_requeue_discards(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(3))
        raw.consume("q")
        for _ in range(3):
            raw.delivery()
        raw.settle(NACK, 3, 1)
        raw.sync()
        raw.send(method(1, CANCEL, short("t") + b"\0"))
        raw.expect(1, CANCEL_OK)
        assert raw.count("q") == (0, 0)


def test_recover_redelivers(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(3))
        raw.consume("q")
        for _ in range(3):
            raw.delivery()
        raw.settle(ACK, 2)
        raw.send(method(1, RECOVER, b"\x01"))
        raw.expect(1, RECOVER_OK)
        assert [raw.delivery() for _ in range(2)] == [(4, True, b"message 0"), (5, True, b"message 2")]
        raw.send(method(1, RECOVER, b"\x00"))
        raw.connection_closed(540, "NOT_IMPLEMENTED - requeue=false", cause=RECOVER)


def test_cancel_leaves_what_is_out_with_the_client(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(5))
        raw.prefetch(2)
        raw.consume("q")
        assert [raw.delivery()[2] for _ in range(2)] == bodies(2)
        raw.send(method(1, CANCEL, short("t") + b"\0"))
        raw.expect(1, CANCEL_OK)
        raw.settle(ACK, 1)
        raw.consume("q")  # the tag is free again
        assert [raw.delivery()[2] for _ in range(2)] == bodies(5)[2:4]
        raw.settle(NACK, 2, REQUEUE)
        raw.settle(ACK, 4, 1)
        assert [raw.delivery()[1:] for _ in range(2)] == [(True, b"message 1"), (False, b"message 4")]
        raw.send(method(1, CANCEL, short("none") + b"\0"))
        assert raw.expect(1, CANCEL_OK) == short("none")


def test_no_ack_needs_no_ack(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(100))
        raw.prefetch(1)
        raw.consume("q", bits=NO_ACK)
        assert [raw.delivery()[2] for _ in range(100)] == bodies(100)
        raw.settle(ACK, 1)
        raw.channel_closed(406, UNKNOWN.format(1))


def test_a_consumer_tag_is_used_once(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.consume("q")
        raw.consume("q", channel=2)  # tags are the channel's
        raw.send(method(1, CONSUME, b"\0\0" + short("q") + short("t") + b"\0" + table()))
        raw.connection_closed(530, "NOT_ALLOWED - attempt to reuse consumer tag 't'", cause=CONSUME)


def test_a_consumer_without_a_tag_gets_one(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        tags = set()
        for _ in range(2):
            raw.send(method(1, CONSUME, b"\0\0" + short("") + short("") + b"\0" + table()))
            tags.add(raw.expect(1, CONSUME_OK))
        assert len(tags) == 2
        assert all(tag[1:].startswith(b"amq.ctag-") for tag in tags)


def test_an_exclusive_consumer_is_alone(broker: AnyBroker) -> None:
    text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.consume("q", bits=EXCLUSIVE)
        raw.send(method(2, CONSUME, b"\0\0" + short("q") + short("u") + b"\0" + table()))
        raw.channel_closed(403, text, 2, CONSUME)
        raw.open_channel(2)
        raw.send(method(2, GET, b"\0\0" + short("q") + b"\0"))  # as with RabbitMQ, that is no consumer
        raw.expect(2, GET_EMPTY)
        raw.send(method(1, CANCEL, short("t") + b"\0"))
        raw.expect(1, CANCEL_OK)
        raw.consume("q")
        raw.send(method(2, CONSUME, b"\0\0" + short("q") + short("u") + number(EXCLUSIVE, 1) + table()))
        raw.channel_closed(403, text, 2, CONSUME)


def test_a_consumer_learns_that_its_queue_is_gone(broker: AnyBroker) -> None:
    with connect(broker) as raw, connect(broker) as other:
        raw.declare("q")
        raw.fill("q", bodies(1))
        raw.consume("q")
        assert raw.delivery()[2] == b"message 0"
        other.send(method(1, (50, 40), b"\0\0" + short("q") + b"\0"))
        other.expect(1, (50, 41))
        assert raw.expect(1, CANCEL) == short("t") + b"\x01"
        raw.settle(ACK, 1)  # no error: the client could not know
        raw.sync()
        raw.declare("q")
        raw.consume("q")


def get(raw: Raw, queue: str, no_ack: bool) -> tuple[int, bool, int, bytes] | None:
    """Delivery tag, redelivered, how many are left, body."""
    raw.send(method(1, GET, b"\0\0" + short(queue) + number(no_ack, 1)))
    kind, _, payload = raw.frame()
    assert kind == 1
    if payload[2:4] == number(GET_EMPTY[1], 2):
        return None
    assert payload[2:4] == number(GET_OK[1], 2)
    tag, redelivered = int.from_bytes(payload[4:12], "big"), payload[12] == 1
    return tag, redelivered, int.from_bytes(payload[-4:], "big"), raw.content(1)[1]


def test_get_one_by_one(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        assert get(raw, "q", True) is None
        raw.fill("q", bodies(4))
        assert get(raw, "q", False) == (1, False, 3, b"message 0")
        assert get(raw, "q", True) == (2, False, 2, b"message 1")
        assert get(raw, "q", False) == (3, False, 1, b"message 2")
        raw.settle(REJECT, 1, 1)
        assert get(raw, "q", False) == (4, True, 1, b"message 0")
        raw.settle(ACK, 2)
        raw.channel_closed(406, UNKNOWN.format(2))
        assert raw.count("q", 2)[0] == 3
        raw.open_channel()
        assert get(raw, "q", False) == (1, True, 2, b"message 0")
        raw.settle(ACK, 1)
        raw.sync()
        assert raw.count("q", 2)[0] == 2


def test_the_end_of_a_connection_returns_everything(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", bodies(3))
        raw.consume("q")
        for _ in range(3):
            raw.delivery()
        raw.settle(ACK, 1)
        raw.sync()
    with connect(broker) as raw:
        raw.consume("q")
        assert [raw.delivery()[1:] for _ in range(2)] == [(True, b"message 1"), (True, b"message 2")]


@pytest.mark.parametrize(
    ("start", "first"),
    [("first", 0), ("last", 9), (4, 4), ("offset=7", 7), (99, 10), ("next", 10), ("timestamp=0", 0)],
)
def test_a_stream_from_an_offset(broker: AnyBroker, start: object, first: int) -> None:
    with connect(broker, 2) as raw:
        raw.declare("s", arguments={"x-queue-type": "stream"})
        for place in range(10):
            raw.send(publish(1, "s", b"message %d" % place))
            raw.sync()  # a block for each
        raw.confirm(1)
        raw.prefetch(100, channel=2)
        raw.consume("s", arguments={"x-stream-offset": start}, channel=2)
        raw.send(publish(1, "s", b"message 10"))
        seen: list[tuple[int, bytes]] = []
        while len(seen) < 11 - first:
            kind, channel, _ = raw.frame()
            if channel == 2:
                assert kind == 1
                properties, body, _ = raw.content(2)
                offset = properties.split(short("x-stream-offset") + b"l")[1][:8]
                seen.append((int.from_bytes(offset, "big"), body))
        assert seen == [(place, b"message %d" % place) for place in range(first, 11)]


def test_a_timestamp_says_where_a_stream_starts(broker: AnyBroker) -> None:
    field = short("x-stream-offset") + b"T" + number(0, 8)
    with connect(broker) as raw:
        raw.declare("s", arguments={"x-queue-type": "stream"})
        raw.fill("s", bodies(2))
        raw.prefetch(10)
        raw.send(method(1, CONSUME, b"\0\0" + short("s") + short("t") + b"\0" + number(len(field), 4) + field))
        raw.expect(1, CONSUME_OK)
        assert [raw.delivery()[2] for _ in range(2)] == bodies(2)


def test_a_group_of_a_stream_resumes_where_it_committed(broker: AnyBroker) -> None:
    arguments: dict[str, object] = {"x-consumer-group": "g", "x-auto-commit": False, "x-stream-offset": "first"}
    resume = arguments | {"x-stream-offset": "resume"}
    with connect(broker, 2) as raw:
        raw.declare("s", arguments={"x-queue-type": "stream"})
        raw.fill("s", bodies(5))
        raw.prefetch(10, channel=2)
        raw.consume("s", arguments=arguments, channel=2)
        assert [raw.delivery(2)[2] for _ in range(5)] == bodies(5)
        commit = table({"x-group-id": "g", "x-offset": 3})
        raw.send(publish(1, "$queue/s/$commit", b"", properties=b"\x20\0" + commit))
        raw.confirmed(6)
        raw.send(method(2, CANCEL, short("t") + b"\0"))
        raw.expect(2, CANCEL_OK)
        raw.settle(ACK, 0, 1, channel=2)
        raw.sync(2)
        raw.consume("s", arguments=resume, channel=2)
        assert [raw.delivery(2)[2] for _ in range(2)] == bodies(5)[3:]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"x-offset": 1}, "a commit needs the headers x-group-id, a text, and x-offset, a number"),
        ({"x-group-id": "g"}, "a commit needs the headers x-group-id, a text, and x-offset, a number"),
        ({"x-group-id": "g", "x-offset": "x"}, "a commit needs the headers x-group-id, a text, and x-offset, a number"),
        (
            {"x-group-id": "g", "x-offset": True},
            "a commit needs the headers x-group-id, a text, and x-offset, a number",
        ),
    ],
)
def test_commits_that_say_too_little(broker: AnyBroker, fields: dict[str, object], text: str) -> None:
    with connect(broker) as raw:
        raw.declare("s", arguments={"x-queue-type": "stream"})
        raw.send(publish(1, "$queue/s/$commit", b"", properties=b"\x20\0" + table(fields)))
        raw.channel_closed(406, f"PRECONDITION_FAILED - {text}")


def test_groups_of_a_queue_each_see_everything(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.consume("q", "a", arguments={"x-consumer-group": "a"})
        raw.consume("q", "b", arguments={"x-consumer-group": "b"})
        raw.send(publish(1, "q", b"both"))
        tags = set()
        for _ in range(2):
            tags.add(raw.expect(1, DELIVER)[1:2])
            assert raw.content(1)[1] == b"both"
        assert tags == {b"a", b"b"}


def test_queue_addresses(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.consume("$queue/q/+/orders", "all", arguments={"x-consumer-group": "all"})
        raw.consume("$queue/q/us/#", "us", arguments={"x-consumer-group": "us"})
        raw.send(publish(1, "$queue/q/eu/orders", b"one"), publish(1, "$queue/q/us/orders", b"two"))
        seen: list[tuple[bytes, bytes, bytes]] = []
        for _ in range(3):
            args = raw.expect(1, DELIVER)
            seen.append((args[1 : 1 + args[0]], args.split(b"$queue/")[1], raw.content(1)[1]))
        assert sorted(seen) == [
            (b"all", b"q/eu/orders", b"one"),
            (b"all", b"q/us/orders", b"two"),
            (b"us", b"q/us/orders", b"two"),
        ]
