"""Content filters over blocks that no broker has sifted: those of a data directory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from forebay.filter.parser import Filter, parse
from forebay.log.block import HEAD_OCTETS, Block, BlockWriter, trusted_block
from forebay.records.subject import RecordSubject
from forebay.spark.arrow.batches import BlockView, Buffer


def sifted(blocks: Iterable[BlockView], filter: str, queue: str) -> Iterator[BlockView]:
    """Of each block the records that match, as a broker answers a fetch with a filter."""
    parsed = parse(filter)
    for view in blocks:
        at, octets = view.data_at - HEAD_OCTETS, view.octets
        whole = bytes(view.buffer.view[at : at + octets])
        block = trusted_block(whole[:HEAD_OCTETS], whole[HEAD_OCTETS:])
        places = matching(block, parsed, queue.encode())
        if len(places) == block.count:
            yield view
        elif places:
            yield picked(block, places)


def matching(block: Block, filter: Filter, queue: bytes) -> list[int]:
    """The places in the block of the records that match."""
    now_us = time.time_ns() // 1000
    return [place for place in range(int(block.count)) if filter.matches(RecordSubject(queue, block, place, now_us))]


def picked(block: Block, places: list[int]) -> BlockView:
    """A block of these records only."""
    writer = BlockWriter()
    for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        found = [place for _, place in run]
        writer.append_range(block, found[0], len(found))
    made = writer.seal(block.base, 0, True)
    view = BlockView(Buffer(b"".join([made.head, *made.parts()]), "records that match"), 0)
    view.picked = np.array(places, np.int64) + block.base
    return view
