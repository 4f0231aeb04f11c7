"""Blocks of one long record, whose body is never copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import AMQP091
from forebay.log.block import (
    HEAD_OCTETS,
    LONG_OCTETS,
    BadBlock,
    Block,
    BlockWriter,
    block_octets,
    parse_block,
    read_block,
    tail_octets,
)
from forebay.server.system.disk import DataDisk


def sealed(*bodies: bytes) -> Block:
    writer = BlockWriter()
    for body in bodies:
        writer.append(AMQP091, b"e", b"key", b"\0\0", body)
    return writer.seal(7, 1, True)


def octets_of(block: Block) -> bytes:
    return b"".join([block.head, *block.parts()])


@pytest.mark.parametrize("octets", [LONG_OCTETS, LONG_OCTETS + 1, LONG_OCTETS + 7])
def test_a_long_body_is_the_same_object_from_writer_to_reader(octets: int) -> None:
    body = b"x" * octets
    block = sealed(body)
    assert block.tail is body
    assert block.body(0) is body
    assert block.body_span(0, 1) == octets
    assert len(block.data) < 200


@pytest.mark.parametrize("octets", [LONG_OCTETS, LONG_OCTETS + 1, LONG_OCTETS + 7])
def test_it_is_written_as_any_block(octets: int, tmp_path: Path) -> None:
    body = bytes(range(256)) * (octets // 256) + b"y" * (octets % 256)
    block = sealed(body)
    whole = octets_of(block)
    assert block_octets(whole[:HEAD_OCTETS]) == len(whole) == block.octets()
    assert tail_octets(whole[:HEAD_OCTETS]) == octets
    parsed = parse_block(whole[:HEAD_OCTETS], whole[HEAD_OCTETS:])
    assert (parsed.tail, parsed.body(0), parsed.properties(0)) == (b"", body, b"\0\0")
    disk = DataDisk(str(tmp_path))
    handle = disk.open("block", True)
    disk.pwrite(handle, [b"before", block.head, *block.parts()], 0)
    read = read_block(disk, handle, 6, len(whole))
    assert (read.tail, read.routing_key(0), read.octets()) == (body, b"key", len(whole))
    disk.pwrite(handle, [b"!"], 6 + len(whole) - 100)
    with pytest.raises(BadBlock, match="checksum"):
        read_block(disk, handle, 6, len(whole))
    with pytest.raises(BadBlock):
        read_block(disk, handle, 6, 400)
    disk.close_all()


def test_with_others_it_is_a_part_of_the_column() -> None:
    long = b"x" * LONG_OCTETS
    block = sealed(b"short", long)
    assert block.tail == b""
    assert [block.body(0), block.body(1)] == [b"short", long]


def test_records_of_such_a_block_can_be_copied_to_another() -> None:
    long = b"x" * LONG_OCTETS
    alone, short = sealed(long), sealed(b"a", b"b")
    writer = BlockWriter()
    writer.append_range(alone, 0, 1)
    made = writer.seal(3, 1, True)
    assert made.tail is long
    writer.append_range(short, 1, 1)
    writer.append_range(alone, 0, 1)
    both = writer.seal(3, 1, True)
    assert [both.body(0), both.body(1)] == [b"b", long]
    writer.append_all(alone, bytes([AMQP091]))
    assert writer.seal(3, 1, False).body(0) == long
    writer.append(AMQP091, b"", b"", b"", b"after")
    assert writer.seal(4, 1, True).body(0) == b"after"
