"""What the broker says of records: in blocks, and field by field."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.log.block import BadBlock, Block, BlockWriter, check_columns, parse_block
from forebay.message.annotations import (
    DELAY_KEY,
    DUE,
    PUBLISHER,
    STAGED,
    annotation,
    number_annotation,
    with_annotation,
    with_number,
)

annotated = st.lists(
    st.tuples(st.binary(max_size=20), st.one_of(st.just(b""), st.binary(max_size=20))), min_size=1, max_size=40
)
names = st.integers(PUBLISHER, STAGED)


def sealed(records: list[tuple[bytes, bytes]], base: int = 0) -> Block:
    writer = BlockWriter()
    for body, said in records:
        writer.append_annotated(1, b"e", b"k", b"p", body, said)
    return writer.seal(base, 1, True)


def contents(block: Block) -> list[tuple[bytes, bytes]]:
    for at in range(block.count):
        assert (block.exchange(at), block.routing_key(at), block.properties(at)) == (b"e", b"k", b"p")
    return [(block.body(at), block.annotations(at)) for at in range(block.count)]


@given(annotated)
def test_a_block_gives_back_its_annotations(records: list[tuple[bytes, bytes]]) -> None:
    block = sealed(records)
    parsed = parse_block(block.head, block.data)
    check_columns(parsed)
    assert contents(parsed) == contents(block) == records
    assert parsed.annotated == any(said for _, said in records)
    assert len(block.head) + len(block.data) == block.octets()


@given(annotated)
def test_a_block_without_annotations_has_no_column_for_them(records: list[tuple[bytes, bytes]]) -> None:
    plain = BlockWriter()
    for body, _ in records:
        plain.append(1, b"e", b"k", b"p", body)
    expected = plain.seal(0, 1, True)
    block = sealed([(body, b"") for body, _ in records])
    assert (block.head, block.data) == (expected.head, expected.data)
    assert block.annotations(0) == b""


@given(annotated, st.lists(st.integers(0, 40), max_size=6))
def test_annotations_go_along_when_blocks_are_merged(records: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    parts = [sealed(records[first:end], first) for first, end in pairwise(edges)]
    ranges, wholes = BlockWriter(), BlockWriter()
    for part in parts:
        ranges.append_range(part, 0, part.count)
        wholes.append_all(part, bytes([1]) * int(part.count))
    for writer in (ranges, wholes):
        assert contents(writer.seal(0, 1, True)) == records
        writer.append(1, b"e", b"k", b"p", b"after")  # a writer starts anew
        assert not writer.seal(0, 1, True).annotated


def test_a_column_of_annotations_that_does_not_fit_is_refused() -> None:
    block = sealed([(b"body", b"says"), (b"", b"")])
    for at in (block.annotations_at, block.annotations_at + 4):
        data = bytearray(block.data)
        data[at] ^= 1
        spoilt = Block(block.head, bytes(data), 0, 2, 2, 2, 2, b"", 4)
        with pytest.raises(BadBlock, match="column"):
            check_columns(spoilt)


@given(st.lists(st.tuples(names, st.binary(max_size=30)), max_size=12))
def test_each_field_says_what_was_put_there_last(puts: list[tuple[int, bytes]]) -> None:
    made = b""
    expected: dict[int, bytes] = {}
    for name, value in puts:
        made = with_annotation(made, name, value)
        expected[name] = value
    for name in range(PUBLISHER, STAGED + 1):
        assert annotation(made, name) == expected.get(name, b"")
    assert (made == b"") == (not any(expected.values()))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_come_back(number: int) -> None:
    made = with_number(with_annotation(b"", DELAY_KEY, b"x"), DUE, number)
    assert number_annotation(made, DUE, 0) == number
    assert number_annotation(made, PUBLISHER, 7) == 7
    assert number_annotation(b"", DUE, -1) == -1


def test_annotations_of_another_version_are_not_guessed_at() -> None:
    with pytest.raises(AssertionError, match="annotations of version 2"):
        annotation(b"\x02\x01\x00\x00\x00\x00", PUBLISHER)
