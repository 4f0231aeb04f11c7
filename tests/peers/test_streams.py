"""Streams: read again and again, from anywhere."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Consumer, declare, put
from tests.peers.peer import Peer
from tests.waiting import until_past


def stream(peer: Peer, *bodies: bytes, **arguments: object) -> BlockingChannel:
    """A channel with a prefetch, and a stream `s` that holds the bodies."""
    channel = peer.channel()
    declare(channel, "s", "stream", **arguments)
    put(channel, "s", *bodies)
    channel.basic_qos(prefetch_count=100)
    return channel


NUMBERS = [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("first", NUMBERS), (0, NUMBERS), (4, NUMBERS[4:]), ("last", NUMBERS[9:]), ("next", []), (None, [])],
)
def test_where_reading_starts(peer: Peer, start: object, expected: list[bytes]) -> None:
    channel = stream(peer, *NUMBERS)
    arguments: dict[str, Any] = {} if start is None else {"x_stream_offset": start}
    sink = Consumer(channel, "s", **arguments)
    if start == "last":  # the last chunk, which may hold more than one message
        sink.wait(1)
        sink.settle()
        found = [one.body for one in sink.got]
        assert found == NUMBERS[len(NUMBERS) - len(found) :]
    else:
        assert sink.bodies(len(expected)) == expected
    before = len(sink.got)
    put(channel, "s", b"new")
    assert sink.bodies(before + 1)[-1] == b"new"


def test_each_message_tells_its_offset(peer: Peer) -> None:
    channel = stream(peer, *NUMBERS)
    sink = Consumer(channel, "s", x_stream_offset=3)
    sink.wait(7)
    assert [one.headers["x-stream-offset"] for one in sink.got] == [3, 4, 5, 6, 7, 8, 9]
    assert not any(one.redelivered for one in sink.got)


def test_a_stream_is_read_by_all_and_kept(peer: Peer) -> None:
    channel = stream(peer, *NUMBERS)
    for _ in range(2):
        reader = channel.connection.channel()
        reader.basic_qos(prefetch_count=100)
        sink = Consumer(reader, "s", x_stream_offset="first")
        assert sink.bodies(10) == NUMBERS
        reader.basic_ack(0, multiple=True)
        reader.close()


def test_reading_from_a_time(peer: Peer) -> None:
    channel = stream(peer, b"old")
    until_past(time.time() + 2.1)  # the time of an offset has seconds
    middle = dt.datetime.now(tz=dt.UTC)
    until_past(time.time() + 1.1)
    put(channel, "s", b"new")
    sink = Consumer(channel, "s", x_stream_offset=middle)
    assert sink.bodies(1) == [b"new"]


def test_reading_from_an_interval_ago(peer: Peer) -> None:
    channel = stream(peer, *NUMBERS)
    sink = Consumer(channel, "s", x_stream_offset="1h")
    assert sink.bodies(10) == NUMBERS


def test_a_prefetch_limits_what_is_on_the_way(peer: Peer) -> None:
    channel = stream(peer, *NUMBERS)
    channel.basic_qos(prefetch_count=2)
    sink = Consumer(channel, "s", x_stream_offset="first")
    sink.wait(2)
    sink.settle()
    assert len(sink.got) == 2
    channel.basic_ack(sink.got[-1].tag, multiple=True)
    assert sink.wait(4)[3].body == b"3"


def test_a_filtered_reader(peer: Peer) -> None:
    channel = stream(peer)
    for number in range(3):
        put(channel, "s", b"a%d" % number, headers={"x-stream-filter-value": "a"})
        put(channel, "s", b"b%d" % number, headers={"x-stream-filter-value": "b"})
        put(channel, "s", b"n%d" % number)

    def read(**arguments: Any) -> set[bytes]:
        reader = channel.connection.channel()
        reader.basic_qos(prefetch_count=100)
        sink = Consumer(reader, "s", x_stream_offset="first", **arguments)
        sink.wait(3)
        sink.settle()
        reader.close()
        # At least these: a broker may skip chunks only, not messages.
        return {one.body for one in sink.got}

    assert read(x_stream_filter="a") >= {b"a0", b"a1", b"a2"}
    assert read(x_stream_filter=["a", "b"]) >= {b"a0", b"b0", b"a2", b"b2"}
    assert read(x_stream_filter="a", x_stream_match_unfiltered=True) >= {b"a0", b"n0", b"n2"}


def test_a_nack_takes_nothing_away(peer: Peer) -> None:
    channel = stream(peer, b"1")
    sink = Consumer(channel, "s", x_stream_offset="first")
    sink.wait(1)
    channel.basic_nack(sink.got[0].tag, requeue=False)
    sink.settle()
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=10)
    assert Consumer(reader, "s", x_stream_offset="first").bodies(1) == [b"1"]
