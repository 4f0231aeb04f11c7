"""Passing over blocks of a stream in which nothing is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy_extensions import u8

from forebay.broker.properties import MessageProperties
from forebay.core.message import AMQP091, Properties
from forebay.filter.parser import parse
from forebay.log.queue_log import QueueLog
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.stream.stream_values import (
    SPANS_MAX,
    SPANS_OCTETS_MAX,
    VALUES_MAX,
    Selection,
    StreamValues,
)
from forebay.queue.turn import SCAN_RECORDS
from forebay.wire.amqp091.properties import encode_properties
from tests.logs import memory_log


def append(log: QueueLog, value: str | None) -> None:
    made = Properties()
    if value is not None:
        made.headers = [("x-stream-filter-value", value)]
    log.append(u8(AMQP091), b"", b"k", encode_properties(made), b"x")


@pytest.fixture
def log(tmp_path: Path) -> QueueLog:
    """Three blocks: (a, a, b), (c, none), (b)."""
    log = memory_log(str(tmp_path))
    for block in (["a", "a", "b"], ["c", None], ["b"]):
        for value in block:
            append(log, value)
        log.seal(1)
    return log


@pytest.fixture
def streams() -> StreamValues:
    return StreamValues(MessageProperties())


def reader(
    log: QueueLog, streams: StreamValues, *values: bytes, unfiltered: bool = False, filter: bytes = b""
) -> StreamGroup:
    group = StreamGroup(1, b"g", filter, log, 0, True)
    group.select(Selection(list(values), unfiltered, streams))
    group.add(Consumer(1, 1, 1, 1, 0, b"", True, UNLIMITED))
    return group


def offsets(group: StreamGroup) -> list[int]:
    out: list[Delivery] = []
    group.dispatch(1, out)
    return [each.block.base + each.index + step for each in out for step in range(each.count)]


def test_each_reader_gets_what_it_wants(log: QueueLog, streams: StreamValues) -> None:
    assert offsets(reader(log, streams, b"a")) == [0, 1]
    assert offsets(reader(log, streams, b"b")) == [2, 5]
    assert offsets(reader(log, streams, b"b", b"c")) == [2, 3, 5]
    assert offsets(reader(log, streams, b"b", unfiltered=True)) == [2, 4, 5]
    assert offsets(reader(log, streams, b"nothing", unfiltered=True)) == [4]
    assert offsets(reader(log, streams, b"nothing")) == []


def test_who_wants_nothing_of_what_is_known_looks_at_no_record(log: QueueLog, streams: StreamValues) -> None:
    assert offsets(reader(log, streams, b"a")) == [0, 1]
    group = reader(log, streams, b"nothing")
    assert offsets(group) == []
    assert group.cursor == 6
    assert group.turn.looks == SCAN_RECORDS - 3  # one look for each block
    assert group.block is None


def test_a_reader_that_begins_within_a_block_is_right_all_the_same(log: QueueLog, streams: StreamValues) -> None:
    group = reader(log, streams, b"b", b"a")
    group.seek(1)
    assert offsets(group) == [1, 2, 5]
    group.seek(4)
    assert offsets(group) == [5]


def test_a_filter_on_keys_holds_as_well(log: QueueLog, streams: StreamValues) -> None:
    assert offsets(reader(log, streams, b"a", filter=b"k")) == [0, 1]
    assert offsets(reader(log, streams, b"a", filter=b"other")) == []


def test_a_group_whose_filter_is_taken_away_gets_all(log: QueueLog, streams: StreamValues) -> None:
    group = reader(log, streams, b"a")
    group.select(None)
    assert offsets(group) == [0, 1, 2, 3, 4, 5]


def test_many_values_in_one_block_are_looked_at_one_by_one(tmp_path: Path, streams: StreamValues) -> None:
    log = memory_log(str(tmp_path))
    for number in range(VALUES_MAX + 2):
        append(log, str(number))
    log.seal(1)
    assert offsets(reader(log, streams, b"7", b"257")) == [7, 257]
    known = streams.known(log.queue, 0)
    assert known is not None
    assert known.values is None
    assert offsets(reader(log, streams, b"no such")) == []


def test_what_is_remembered_has_a_bound(tmp_path: Path, streams: StreamValues) -> None:
    log = memory_log(str(tmp_path))
    for _ in range(SPANS_MAX + 10):
        append(log, "a")
        log.seal(1)
    group = reader(log, streams, b"b")
    while group.cursor < log.end:
        assert offsets(group) == []
    assert 0 < len(streams.spans) <= SPANS_MAX


def test_long_values_have_a_bound_too(tmp_path: Path, streams: StreamValues) -> None:
    log = memory_log(str(tmp_path))
    for number in range(600):
        append(log, f"{number:040000}")
        log.seal(1)
    for text in (f"{0:030000}", f"{1:040000}"):
        append(log, text)
    log.seal(1)  # more than VALUES_OCTETS_MAX in one
    found = 0
    group = reader(log, streams, f"{1:040000}".encode())
    while group.cursor < log.end:
        found += len(offsets(group))
        held = sum(len(value) for span in streams.spans.values() for value in span.values or ())
        assert held == streams.octets <= SPANS_OCTETS_MAX
    assert found == 2
    last = streams.known(log.queue, 600)
    assert last is not None and last.values is None


def test_readers_want_the_same_in_any_order(streams: StreamValues) -> None:
    wanted = Selection([b"a", b"b"], False, streams)
    assert wanted.same(Selection([b"b", b"a", b"b"], False, streams))
    assert not wanted.same(Selection([b"a"], False, streams))
    assert not wanted.same(Selection([b"a", b"b"], True, streams))


def filtering(log: QueueLog, streams: StreamValues, text: str, values: list[bytes] | None = None) -> StreamGroup:
    group = StreamGroup(1, b"g", b"", log, 0, True)
    group.select(Selection(values, False, streams, parse(text), b"q"))
    group.add(Consumer(1, 1, 1, 1, 0, b"", True, UNLIMITED))
    return group


def test_a_filter_asks_for_more_than_values(log: QueueLog, streams: StreamValues) -> None:
    assert offsets(filtering(log, streams, "header.x-stream-filter-value != 'a'")) == [2, 3, 5]
    assert offsets(filtering(log, streams, "offset % 2 = 1 AND queue = 'q'")) == [1, 3, 5]
    assert offsets(filtering(log, streams, "offset % 2 = 1", [b"a", b"b"])) == [1, 5]
    assert offsets(filtering(log, streams, "octets > 1")) == []


def test_a_filter_looks_at_each_record_once_and_at_so_many_a_turn(tmp_path: Path, streams: StreamValues) -> None:
    log = memory_log(str(tmp_path))
    for _ in range(3000):
        append(log, None)
    log.seal(1)
    group = filtering(log, streams, "offset % 2 = 1")
    found = offsets(group)
    assert found == list(range(1, group.cursor, 2))
    assert SCAN_RECORDS // 8 < group.cursor <= SCAN_RECORDS // 4
    while group.cursor < log.end:
        found += offsets(group)
    assert found == list(range(1, 3000, 2))


def test_readers_with_another_filter_want_something_else(streams: StreamValues) -> None:
    wanted = Selection(None, False, streams, parse("offset > 5"), b"q")
    assert wanted.same(Selection(None, False, streams, parse("(offset>5)"), b"q"))
    assert not wanted.same(Selection(None, False, streams, parse("offset > 6"), b"q"))
    assert not wanted.same(Selection([b"a"], False, streams))
