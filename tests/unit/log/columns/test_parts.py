"""Blocks with a checksum for each column: some columns are read and checked, the others not."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import AMQP091
from forebay.core.stored.columns import BODIES, COLUMN_NAMES, COLUMNS, EVERY_COLUMN, KEYS
from forebay.log.block import (
    HEAD_OCTETS,
    LONG_OCTETS,
    SUMMED_HEAD_OCTETS,
    BadBlock,
    Block,
    BlockWriter,
    block_octets,
    parse_whole,
    read_block,
)
from forebay.log.columns.parts import check_every_column, column_lengths, column_starts, parse_parts, part_of, read_part
from forebay.log.segment import summed
from forebay.server.system.disk import DataDisk

BODY = b"body %d" + bytes(50)


def sealed(annotated: bool = True, body: bytes = b"") -> Block:
    writer = BlockWriter()
    for at in range(1 if body else 9):
        said = b"said" if annotated and at == 5 else b""
        writer.append_annotated(AMQP091, b"exchange", b"key %d" % at, b"\0\0", body or BODY % at, said)
    return writer.seal(7, 12345, True)


def octets_of(block: Block) -> bytes:
    return b"".join([block.head, *block.parts()])


def written(path: Path, octets: bytes) -> tuple[DataDisk, int]:
    path.mkdir(exist_ok=True)
    disk = DataDisk(str(path))
    handle = disk.open("block", True)
    disk.pwrite(handle, [b"before", octets, b"after"], 0)
    return disk, handle


BLOCKS = pytest.mark.parametrize(
    "block", [sealed(), sealed(False), sealed(False, b"x" * (LONG_OCTETS + 3))], ids=["annotated", "plain", "long"]
)


@BLOCKS
def test_it_is_the_same_block_with_a_longer_head(block: Block, tmp_path: Path) -> None:
    made = summed(block)
    octets = octets_of(made)
    assert octets[SUMMED_HEAD_OCTETS:] == octets_of(block)[HEAD_OCTETS:]
    assert block_octets(made.head) == len(octets) == made.octets() == block.octets() + 32
    assert sum(column_lengths(made.head)) == len(octets) - SUMMED_HEAD_OCTETS
    assert summed(made) is made
    disk, handle = written(tmp_path, octets)
    for parsed in (parse_whole(octets), read_block(disk, handle, 6, len(octets))):
        assert (parsed.body(0), parsed.routing_key(0)) == (block.body(0), b"key 0")
        check_every_column(parsed)


@BLOCKS
def test_any_octet_that_changed_is_found(block: Block) -> None:
    octets = octets_of(summed(block))
    for at in [*range(SUMMED_HEAD_OCTETS + 64), *range(SUMMED_HEAD_OCTETS + 64, len(octets), len(octets) // 50)]:
        spoilt = octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :]
        with pytest.raises(BadBlock):
            parse_whole(spoilt)


@BLOCKS
def test_damage_in_a_column_concerns_its_readers_only(block: Block, tmp_path: Path) -> None:
    octets = octets_of(summed(block))
    starts = [SUMMED_HEAD_OCTETS + at for at in column_starts(block)]
    starts[-1] = len(octets)
    for damaged in range(len(COLUMN_NAMES)):
        if starts[damaged] == starts[damaged + 1]:
            continue
        at = starts[damaged]
        disk, handle = written(tmp_path / str(damaged), octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :])
        for place, name in enumerate(COLUMN_NAMES):
            if place == damaged:
                with pytest.raises(BadBlock, match=f"column {name} does not match"):
                    read_part(disk, handle, 6, len(octets), 1 << place)
            else:
                part = read_part(disk, handle, 6, len(octets), 1 << place)
                assert part.parts[1:] == [octets[starts[place] : starts[place + 1]]] * (len(part.parts) - 1)
        assert read_part(disk, handle, 6, len(octets), EVERY_COLUMN & ~(1 << damaged)).base == 7
        assert read_part(disk, handle, 6, len(octets), 0).octets == SUMMED_HEAD_OCTETS


@BLOCKS
def test_parts_of_a_file_and_of_memory_are_the_same(block: Block, tmp_path: Path) -> None:
    octets = octets_of(summed(block))
    disk, handle = written(tmp_path, octets)
    for columns in (*COLUMNS.values(), KEYS | BODIES, EVERY_COLUMN):
        read = b"".join(read_part(disk, handle, 6, len(octets), columns).parts)
        made = b"".join(part_of(block, columns).parts)
        assert read[SUMMED_HEAD_OCTETS:] == made[SUMMED_HEAD_OCTETS:]
        first, second = parse_parts(read + made, columns)
        assert [first.routing_key(0), first.body(0)] == [second.routing_key(0), second.body(0)]
        assert first.routing_key(0) == (b"key 0" if columns & KEYS else b"")
        assert first.body(0) == (block.body(0) if columns & BODIES else b"")
        assert (first.base, first.count) == (7, block.count)


def test_a_part_whose_octets_changed_is_refused() -> None:
    octets = b"".join(part_of(sealed(), KEYS).parts)
    for at in range(len(octets)):
        # Of columns that did not come the head has no checksum, and nobody compares that of the whole.
        with pytest.raises(BadBlock):
            parse_parts(octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :], KEYS)
    with pytest.raises(BadBlock, match="no part"):
        parse_parts(octets_of(sealed()), KEYS)
