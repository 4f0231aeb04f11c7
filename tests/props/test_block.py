"""The block: what goes in comes out, and nothing else ever does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.log.block import (
    BLOCK_OCTETS_MAX,
    HEAD_OCTETS,
    LONG_OCTETS,
    MAGIC,
    BadBlock,
    Block,
    BlockWriter,
    block_octets,
    parse_block,
)
from tests.examples import examples

Record = tuple[int, bytes, bytes, bytes, bytes]
short = st.binary(max_size=20)
records = st.lists(st.tuples(st.integers(1, 3), short, short, short, st.binary(max_size=300)), min_size=1, max_size=40)


def sealed(contents: list[Record], base: int = 0, now_us: int = 1) -> Block:
    writer = BlockWriter()
    for record in contents:
        writer.append(*record)
    return writer.seal(base, now_us, True)


def contents(block: Block) -> list[Record]:
    return [
        (int(block.format(i)), block.exchange(i), block.routing_key(i), block.properties(i), block.body(i))
        for i in range(block.count)
    ]


@given(records, st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_a_block_gives_back_its_records(given_records: list[Record], base: int, now_us: int) -> None:
    block = sealed(given_records, base, now_us)
    octets = block.head + block.data
    assert len(octets) == block.octets() == block_octets(block.head)
    assert len(octets) % 8 == 0
    parsed = parse_block(block.head, block.data)
    assert contents(parsed) == contents(block) == given_records
    assert (parsed.base, parsed.count, parsed.end) == (base, len(given_records), base + len(given_records))
    assert {parsed.timestamp_us(i) for i in range(parsed.count)} == {now_us}


@given(records, st.lists(st.integers(0, 40), max_size=6))
def test_blocks_merged_in_parts_are_the_same_records(given_records: list[Record], cuts: list[int]) -> None:
    block = sealed(given_records, 7, 99)
    writer = BlockWriter()
    edges = sorted({0, len(given_records), *(cut for cut in cuts if cut < len(given_records))})
    for first, end in pairwise(edges):
        writer.append_range(block, first, end - first)
    merged = writer.seal(7, 0, True)
    assert [merged.head, *merged.parts()] == [block.head, *block.parts()]


@given(st.lists(st.sampled_from([b"", b"", b"a", b"due"]), min_size=1, max_size=8), st.data())
def test_a_part_of_a_block_is_one_wherever_its_annotations_are(
    given_annotations: list[bytes], data: st.DataObject
) -> None:
    writer = BlockWriter()
    for each in given_annotations:
        writer.append_annotated(1, b"e", b"k", b"p", b"body", each)
    block = writer.seal(7, 99, True)
    first = data.draw(st.integers(0, len(given_annotations) - 1))
    end = data.draw(st.integers(first + 1, len(given_annotations)))
    writer.append_range(block, first, end - first)
    part = writer.seal(7 + first, 0, True)
    parsed = parse_block(part.head, part.data)
    assert [parsed.annotations(index) for index in range(parsed.count)] == given_annotations[first:end]
    assert contents(parsed) == [(1, b"e", b"k", b"p", b"body")] * (end - first)


@given(records)
def test_a_writer_starts_anew(given_records: list[Record]) -> None:
    writer = BlockWriter()
    for _ in range(2):
        for record in given_records:
            writer.append(*record)
        block = writer.seal(0, 5, True)
        assert contents(block) == given_records
        assert writer.count == 0


@given(st.lists(st.sampled_from([0, 1, 7, LONG_OCTETS - 1, LONG_OCTETS, LONG_OCTETS + 3]), min_size=1, max_size=5))
@settings(deadline=None, max_examples=examples(30))
def test_long_bodies_among_short_ones(lengths: list[int]) -> None:
    given_records = [(1, b"e", b"k", b"p" * place, bytes([place]) * octets) for place, octets in enumerate(lengths)]
    writer = BlockWriter()
    for _ in range(2):
        for record in given_records:
            writer.append(*record)
        assert writer.bodies.size() == sum(lengths)
        block = writer.seal(5, 1, True)
        assert contents(parse_block(block.head, b"".join(block.parts()))) == given_records
        assert writer.bodies.size() == 0
    halves = BlockWriter()
    for first in range(len(lengths)):
        halves.append_range(block, first, 1)
    merged = halves.seal(5, 0, True)
    assert [merged.head, *merged.parts()] == [block.head, *block.parts()]


def test_every_flipped_octet_is_found() -> None:
    block = sealed([(2, b"e", b"key", b"pp", b"body"), (1, b"", b"", b"", b"")])
    octets = block.head + block.data
    for at in range(len(octets)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(octets)
            damaged[at] ^= flip
            with pytest.raises(BadBlock):
                parse_block(bytes(damaged[:HEAD_OCTETS]), bytes(damaged[HEAD_OCTETS:]))


def test_every_cut_is_found() -> None:
    block = sealed([(2, b"e", b"key", b"pp", b"body")])
    octets = block.head + block.data
    for end in range(len(octets)):
        with pytest.raises(BadBlock):
            parse_block(octets[:HEAD_OCTETS][:end], octets[HEAD_OCTETS:end])


@given(st.binary(max_size=200))
def test_any_octets_are_a_block_or_refused(octets: bytes) -> None:
    with pytest.raises(BadBlock):
        parse_block(octets[:HEAD_OCTETS], octets[HEAD_OCTETS:])
    head = MAGIC + octets[: HEAD_OCTETS - 4].ljust(HEAD_OCTETS - 4, b"\0")
    with pytest.raises(BadBlock):
        parse_block(head, octets[HEAD_OCTETS:])


@pytest.mark.parametrize("octets", [0, 40, 49, -8, BLOCK_OCTETS_MAX + 8])
def test_a_length_that_no_block_has_is_refused(octets: int) -> None:
    head = MAGIC + bytes(4) + (octets & 0xFFFFFFFF).to_bytes(4, "little") + bytes(36)
    with pytest.raises(BadBlock):
        block_octets(head)
