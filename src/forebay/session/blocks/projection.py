"""Fetches that name their columns: of each block only these leave the broker, so that a count costs no bodies.

A block without some columns is a block like any other: their values are empty in it. Its checksum is its own; that of
the stored block was checked when it was read. Reading is work for the one thread that everybody waits for, so it is
measured as that of filters is (picking.py).
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import Block, make_head, padding
from forebay.log.queue_log import QueueLog
from forebay.wire.blocks.frames import BODIES, EXCHANGES, KEYS, PROPERTIES

OCTETS_A_WORK: Final = 256  # of a block that is read and checked, for one unit of work
READ_OCTETS: Final = 8 << 20  # of the blocks that one request reads


@final
class Projection:
    """The blocks of one answer.

    next  where to fetch on
    work  that they took
    """

    def __init__(self, log: QueueLog, first: i64, end: i64, octets_max: i64, columns: i64) -> None:
        self.parts: list[bytes] = []
        self.octets: i64 = 0
        self.work: i64 = 0
        offset = first
        read: i64 = 0
        while offset < end and read < READ_OCTETS and self.octets < octets_max:
            block = log.kept_block(offset)
            if block is None or block.base >= end:
                offset = end
                break
            read += block.octets()
            for part in projected(block, columns):
                self.parts.append(part)
                self.octets += len(part)
            offset = block.end
        self.next: i64 = max(first, offset)
        self.work = read // OCTETS_A_WORK


def projected(block: Block, columns: i64) -> list[bytes]:
    """The block with these variable columns, the others empty: its head and the rest.

    columns  EXCHANGES, KEYS, PROPERTIES and BODIES, added up
    """
    data = block.data
    count = block.count
    offsets = 4 * (count + 1)
    empty = bytes(int(offsets + padding(offsets)))
    parts = [data[: block.exchange_at]]
    exchanges: i64 = 0
    keys: i64 = 0
    properties: i64 = 0
    annotations: i64 = 0
    bodies: i64 = 0
    if columns & EXCHANGES:
        parts.append(data[block.exchange_at : block.key_at])
        exchanges = block.length(block.exchange_at)
    else:
        parts.append(empty)
    if columns & KEYS:
        parts.append(data[block.key_at : block.properties_at])
        keys = block.length(block.key_at)
    else:
        parts.append(empty)
    if columns & PROPERTIES:
        parts.append(data[block.properties_at : block.body_at])
        properties = block.length(block.properties_at)
        if block.annotated:  # they stand behind the properties, and go along with them
            annotations = block.length(block.annotations_at)
    else:
        parts.append(empty)
    tail = b""
    if columns & BODIES:
        parts.append(data[block.body_at :])
        tail = block.tail
        bodies = len(tail) if tail else block.length(block.body_at)
    else:
        parts.append(empty)
    rest = b"".join(parts)
    head = make_head(rest, block.base, count, exchanges, keys, properties, bodies, tail, annotations)
    made = Block(head, rest, block.base, count, exchanges, keys, properties, tail, annotations)
    return [head, *made.parts()]
