"""Fetches that name their columns: these come as they are stored, and the others not at all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path

import pytest

from forebay.core.message import ACCEPTED, AMQP091
from forebay.core.stored.columns import ANNOTATIONS, BODIES, COLUMNS, PROPERTIES
from forebay.log.block import LONG_OCTETS, Block, BlockWriter
from forebay.log.columns.parts import parse_part, parse_parts, part_of
from forebay.session.blocks.answers import OCTETS_A_WORK, WORK_A_REQUEST
from forebay.wire.blocks.frames import (
    BLOCKS,
    BLOCKS_HEAD_OCTETS,
    PICKED,
    PREFACE,
    REQUEST,
    decode_blocks_head,
    encode_json,
)
from tests.blocks import blocks_of
from tests.unit.session.blocks.test_connection import LOGIN, Rig, error, fetch

SUBSETS = list(chain.from_iterable(combinations(COLUMNS, count) for count in (0, 1, 2, len(COLUMNS))))
MEBIBYTE = 1 << 20
READ_OCTETS = OCTETS_A_WORK * WORK_A_REQUEST


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(str(tmp_path))
    made.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)
    made.vhost.catalog.declare_queue(b"memory", False, False, False, {}, 0)
    made.turn()
    made.send(PREFACE)
    made.ask(LOGIN)
    yield made
    made.close()


def publish(rig: Rig, queue: bytes, bodies: list[bytes]) -> None:
    """One block."""
    for number, body in enumerate(bodies):
        route = rig.vhost.router.route(b"", b"$queue/%s/%d" % (queue, number))
        assert rig.vhost.publishing.publish(route, AMQP091, b"properties %d" % number, body).status == ACCEPTED
    rig.clock.us += 1000
    rig.turn()


def bits(columns: tuple[str, ...]) -> int:
    return sum(COLUMNS[name] for name in columns)


Row = tuple[int, int, int, bytes, bytes, bytes, bytes]


def rows(block: Block, columns: tuple[str, ...]) -> list[Row]:
    """The records of a block, as if it had these columns only."""

    def kept(name: str, value: bytes) -> bytes:
        return value if name in columns else b""

    return [
        (
            block.base + at,
            block.timestamp_us(at) if "timestamp" in columns else 0,
            block.format(at) if "format" in columns else 0,
            kept("exchange", block.exchange(at)),
            kept("routing_key", block.routing_key(at)),
            kept("properties", block.properties(at)),
            kept("body", block.body(at)),
        )
        for at in range(int(block.count))
    ]


@pytest.mark.parametrize("columns", SUBSETS, ids=",".join)
@pytest.mark.parametrize("queue", ["s", "memory"])
def test_exactly_the_columns_that_are_asked_for_come(rig: Rig, queue: str, columns: tuple[str, ...]) -> None:
    for count in (1, 2, 7):
        publish(rig, queue.encode(), [b"body %d" % number for number in range(count)])
    publish(rig, queue.encode(), [bytes(LONG_OCTETS + 3)])
    (whole,) = rig.ask(fetch(queue, 0, 11))
    (some,) = rig.ask(fetch(queue, 0, 11, columns=list(columns)))
    assert some.kind == BLOCKS
    assert decode_blocks_head(some.payload) == decode_blocks_head(whole.payload)
    stored = list(blocks_of(whole.payload[BLOCKS_HEAD_OCTETS:]))
    came = parse_parts(some.payload[BLOCKS_HEAD_OCTETS:], bits(columns))
    every = tuple(COLUMNS)
    assert [rows(block, every) for block in came] == [rows(block, columns) for block in stored]
    assert (len(some.payload) < LONG_OCTETS) == ("body" not in columns)


def test_of_records_that_match_too(rig: Rig) -> None:
    publish(rig, b"s", [b'{"n": %d}' % number for number in range(10)])
    (answer,) = rig.ask(fetch("s", 0, 10, filter="/n >= 8", columns=["properties"]))
    assert answer.kind == PICKED
    parts = answer.payload[BLOCKS_HEAD_OCTETS:]
    block, taken = parse_part(parts, 0, PROPERTIES)
    assert parts[taken:] == b"".join(offset.to_bytes(8, "little") for offset in (8, 9))
    assert [(block.properties(at), block.body(at), block.routing_key(at)) for at in range(int(block.count))] == [
        (b"properties 8", b"", b""),
        (b"properties 9", b"", b""),
    ]


def test_an_answer_reads_no_more_than_it_may_and_the_turn_no_more_than_that(rig: Rig) -> None:
    for _ in range(12):
        publish(rig, b"s", [bytes(MEBIBYTE)])
    requests = [encode_json(REQUEST, fetch("s", first, 12, columns=[])) for first in (0, 8)]
    rig.send(b"".join(requests))
    (first,) = rig.written()
    assert decode_blocks_head(first.payload) == (READ_OCTETS // MEBIBYTE, 0)
    assert rig.vhosts.shared.next_turn.sessions == [rig.session.id]
    first, second = rig.frames()
    assert decode_blocks_head(second.payload) == (12, 0)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("body", "columns is 'body', not a list of columns"),
        (["body", "offset"], "'offset' is no column; known are timestamp, format, exchange, routing_key, properties, "),
        ([5], "5 is no column"),
    ],
)
def test_what_is_no_column_is_refused_by_name(rig: Rig, columns: object, said: str) -> None:
    (answer,) = rig.ask(fetch("s", 0, 1, columns=columns))
    assert said in str(error(answer)["text"])


def test_annotations_are_a_column_like_any_other() -> None:
    writer = BlockWriter()
    writer.append_annotated(AMQP091, b"e", b"k", b"p", b"b", b"said")
    block = writer.seal(0, 1, True)
    for columns, said in ((PROPERTIES | ANNOTATIONS, b"said"), (PROPERTIES | BODIES, b"")):
        (part,) = parse_parts(b"".join(part_of(block, columns).parts), columns)
        assert (part.annotations(0), part.properties(0)) == (said, b"p")
