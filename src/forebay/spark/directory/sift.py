"""Applies content filters to blocks of a data directory, which no broker has filtered."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from forebay.filter.nodes import FilterNode
from forebay.filter.parser import Filter, parse
from forebay.log.block import Block, BlockWriter
from forebay.message.rows import YES
from forebay.message.subject import RecordSubject
from forebay.spark.arrow.batches import BlockView, WholeRun, as_readers_see, block_of, numbers, same_text, view_of
from forebay.spark.filters.columns import conditions, needed, properties_in

ONLY_RECORDS: Final = "failures"  # a property that no table has; it is 0 here, as the directory does not record it


def sifted(blocks: Iterable[BlockView], filter: str, queue: str) -> Iterator[BlockView]:
    """Yield the matching records of each block, as a broker answers a fetch with a filter."""
    parsed = parse(filter)
    by_record = ONLY_RECORDS in properties_in(parsed.root)
    for stored in blocks:
        view = as_readers_see(stored)
        places = matching(block_of(view), parsed, queue.encode()) if by_record else places_of(view, parsed.root, queue)
        if len(places) == view.count:
            yield view
        elif places:
            yield picked(block_of(view), places)


def places_of(view: BlockView, root: FilterNode, queue: str) -> list[int]:
    """Return the places in the block of the matching records, evaluating the filter once for all equal records."""
    arrays = arrays_of(view, root, queue)
    held = conditions(root, list(arrays), list(arrays.values()))
    places: list[int] = np.flatnonzero(held == YES).tolist()
    return places


def arrays_of(view: BlockView, root: FilterNode, queue: str) -> dict[str, pa.Array]:
    """Return the fields of `Rows` that a filter needs, for all records of a block. Returns at least one field."""
    count = int(view.count)
    run = WholeRun(view, 0, count)
    properties = properties_in(root)
    found: dict[str, pa.Array] = {}
    for name in needed([root]):
        if name == "topic":
            found["queues"] = same_text(queue, count)
        elif name == "offset":
            found["offsets"] = numbers(pa.int64(), run.offsets())
        elif name == "exchange":
            found["exchanges"] = run.cells(name, pa.binary())
        elif name == "routing_key":
            found["keys"] = run.cells(name, pa.binary())
        elif name == "format":
            found["formats"] = numbers(pa.int32(), run.formats().astype(np.int32))
        elif name == "timestamp":
            found["timestamps_us"] = pa.Array.from_buffers(pa.int64(), count, [None, run.timestamps()])
            found["now_us"] = numbers(pa.int64(), np.full(count, time.time_ns() // 1000))
        elif name == "raw_properties":
            found["raw"] = run.cells(name, pa.binary())
        elif name == "delivery_count":
            found["deliveries"] = numbers(pa.int32(), np.zeros(count, np.int32))
        else:
            bodies = run.payloads()
            if None in properties:
                found["bodies"] = bodies
            if "octets" in properties:
                ends = np.frombuffer(bodies.buffers()[1], np.int32, count + 1)
                found["octets"] = numbers(pa.int32(), np.diff(ends))
    if not found:
        found["now_us"] = numbers(pa.int64(), np.zeros(count, np.int64))
    return found


def matching(block: Block, filter: Filter, queue: bytes) -> list[int]:
    """Return the places in the block of the matching records, evaluating the filter record by record."""
    now_us = time.time_ns() // 1000
    return [place for place in range(int(block.count)) if filter.matches(RecordSubject(queue, block, place, now_us))]


def picked(block: Block, places: list[int]) -> BlockView:
    """Return a block of the records at these places only."""
    writer = BlockWriter()
    for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        found = [place for _, place in run]
        writer.append_range(block, found[0], len(found))
    view = view_of(writer.seal(block.base, 0, True))
    view.picked = np.array(places, np.int64) + block.base
    return view
