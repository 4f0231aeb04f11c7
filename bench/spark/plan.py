#!/usr/bin/env python3
"""How long a read of a billion rows takes to plan from a data directory, and how long one of its tasks takes to start.

Makes a data directory of segments that have heads and indexes, and holes for their blocks; but one, in the middle, has
records. Plans a read of all, and reads of it what the task with those records does until its first batch. No JVM.

usage: bench/spark/plan.py [--segments 15259] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from forebay.log.block import BlockWriter
from forebay.log.segment import HEAD_OCTETS, SegmentEntry, encode_foot, encode_head, segment_path
from forebay.spark.options import parse_options
from forebay.spark.reading.reader import ForebayReader, RangePartition
from forebay.spark.schema import default_schema

QUEUE: Final = 1
BLOCK_ROWS: Final = 4096
BLOCKS: Final = 16  # a segment of 64 MiB of 1 KiB rows
ROWS: Final = BLOCK_ROWS * BLOCKS
BODY: Final = bytes(1000)
STAMP_US: Final = 1_700_000_000_000_000
ROUNDS: Final = 20


def make(folder: Path, segments: int) -> int:
    """The directory; the first offset of the segment with records."""
    (folder / "wal").mkdir(parents=True)
    (folder / "queues" / str(QUEUE)).mkdir(parents=True)
    (folder / "queues" / str(QUEUE) / "queue.json").write_text(json.dumps({"name": "q", "id": QUEUE}))
    writer = BlockWriter()
    for _ in range(BLOCK_ROWS):
        writer.append(1, b"", b"key", b"", BODY)
    block = writer.seal(0, STAMP_US, True)
    octets = block.octets()
    middle = segments // 2
    for number in range(segments):
        first = number * ROWS
        entries = [
            SegmentEntry(first + at * BLOCK_ROWS, STAMP_US + number, HEAD_OCTETS + at * octets, octets, BLOCK_ROWS)
            for at in range(BLOCKS)
        ]
        head = encode_head(QUEUE, first, first + ROWS)
        end = HEAD_OCTETS + BLOCKS * octets
        handle = os.open(folder / segment_path(QUEUE, first), os.O_CREAT | os.O_WRONLY)
        os.pwrite(handle, head, 0)
        os.pwrite(handle, encode_foot(head, QUEUE, first, first + ROWS, end, entries), end)
        if number == middle:
            for entry in entries:
                moved = writer_of(entry.base)
                os.pwrite(handle, moved, entry.position)
        os.close(handle)
    return middle * ROWS


def writer_of(base: int) -> bytes:
    """A block of records from an offset on."""
    writer = BlockWriter()
    for _ in range(BLOCK_ROWS):
        writer.append(1, b"", b"key", b"", BODY)
    block = writer.seal(base, STAMP_US, True)
    return block.head + b"".join(block.parts())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=15_259, help="of 65,536 rows each")
    parser.add_argument("--folder", type=Path, help="where the files are made; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made, "data")
        first = make(folder, options.segments)
        reader = ForebayReader(parse_options({"forebay.data": str(folder), "subscribe": "q"}), default_schema(False))
        before = time.process_time()
        parts = [part for part in reader.partitions() if isinstance(part, RangePartition)]
        plan_s = time.process_time() - before
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sizes = [len(pickle.dumps(part)) for part in parts]
        mine = next(part for part in parts if part.range is not None and part.range.first <= first < part.range.end)
        assert mine.range is not None
        # From the records on: those before them are holes.
        told = RangePartition(type(mine.range)("q", first, first + ROWS, QUEUE), mine.share)
        starts_ms = []
        for _ in range(ROUNDS):
            task = pickle.loads(pickle.dumps((reader, told)))
            begun = time.perf_counter()
            batch = next(iter(task[0].read(task[1])))
            starts_ms.append((time.perf_counter() - begun) * 1000)
            assert batch.num_rows == BLOCK_ROWS
        print(f"{options.segments * ROWS:,} rows in {options.segments:,} segments of {BLOCKS} blocks")
        print(f"planned in {plan_s:.2f} s of CPU into {len(parts):,} tasks; the process has taken {peak_mib:.0f} MiB")
        print(f"a task is sent {statistics.median(sizes):,.0f} octets, at most {max(sizes):,}")
        print(f"and has its first batch after {statistics.median(starts_ms):.1f} ms, at most {max(starts_ms):.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
