"""Blocks as clients stage them."""

from __future__ import annotations

from mypy_extensions import u8

from forebay.core.message import AMQP091
from forebay.log.block import Block, BlockWriter
from forebay.wire.blocks_stage import encode_stage

EMPTY = b"\0\0"  # AMQP 0.9.1's properties of a message that has none
Row = tuple[bytes, bytes, bytes, bytes]  # exchange, routing key, properties, body


def staged_block(*rows: Row, format: int = AMQP091) -> bytes:
    """One whole block with these rows."""
    writer = BlockWriter()
    for exchange, key, properties, body in rows:
        writer.append(u8(format), exchange, key, properties, body)
    return octets_of(writer.seal(0, 0, True))


def octets_of(block: Block) -> bytes:
    return b"".join([block.head, *block.parts()])


def to_queue(queue: bytes, *bodies: bytes) -> bytes:
    """A block of plain messages to a queue."""
    return staged_block(*((b"", queue, EMPTY, body) for body in bodies))


def stage_frame(query: str, batch: int, part: str, block: bytes) -> bytes:
    return encode_stage(query, batch, part, len(block)) + block
