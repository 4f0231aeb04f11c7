"""What a client of the block protocol reads, record by record."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.client.blocks import BlockClient
from forebay.log.block import HEAD_OCTETS, Block, block_octets, parse_block


def blocks_of(octets: bytes) -> Iterator[Block]:
    """The blocks that stand back to back, checked."""
    while octets:
        length = block_octets(octets[:HEAD_OCTETS])
        yield parse_block(octets[:HEAD_OCTETS], octets[HEAD_OCTETS:length])
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
