"""Blocks as clients of their protocol read and stage them."""

from __future__ import annotations

from collections.abc import Iterator

from mypy_extensions import u8

from forebay.client.blocks import BlockClient
from forebay.core.message import AMQP091
from forebay.log.block import HEAD_OCTETS, Block, BlockWriter, block_octets, parse_whole
from forebay.wire.blocks.stage import encode_stage

EMPTY = b"\0\0"  # AMQP 0.9.1's properties of a message that has none
Row = tuple[bytes, bytes, bytes, bytes]  # exchange, routing key, properties, body


def blocks_of(octets: bytes) -> Iterator[Block]:
    """The blocks that stand back to back, checked."""
    while octets:
        length = block_octets(octets[:HEAD_OCTETS])
        yield parse_whole(octets[:length])
        octets = octets[length:]


def records(client: BlockClient, queue: str, first: int, end: int) -> dict[int, bytes]:
    """The bodies of the records of [first, end) that may be read, by offset."""
    found: dict[int, bytes] = {}
    for fetched in client.fetch(queue, first, end):
        for block in blocks_of(fetched.blocks):
            for offset in range(max(first, fetched.start, int(block.base)), min(end, int(block.end))):
                found[offset] = block.body(offset - int(block.base))
    return found


def bodies(client: BlockClient, queue: str, first: int, end: int) -> list[bytes]:
    """The bodies alone, in their order."""
    return list(records(client, queue, first, end).values())


def staged_block(*rows: Row, format: int = AMQP091) -> bytes:
    """One whole block with these rows."""
    writer = BlockWriter()
    for exchange, key, properties, body in rows:
        writer.append(u8(format), exchange, key, properties, body)
    return octets_of(writer.seal(0, 0, True))


def annotated_block(row: Row, annotations: bytes) -> bytes:
    """One whole block with this row, of which it says something that a client cannot know."""
    writer = BlockWriter()
    writer.append_annotated(AMQP091, *row, annotations)
    return octets_of(writer.seal(0, 0, True))


def octets_of(block: Block) -> bytes:
    return b"".join([block.head, *block.parts()])


def to_queue(queue: bytes, *bodies: bytes) -> bytes:
    """A block of plain messages to a queue."""
    return staged_block(*((b"", queue, EMPTY, body) for body in bodies))


def stage_frame(query: str, batch: int, part: str, block: bytes) -> bytes:
    return encode_stage(query, batch, part, len(block)) + block
