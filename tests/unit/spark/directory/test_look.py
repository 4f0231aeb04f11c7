"""A look at a data directory: its cost, what a task is told of it, and what it does where files have changed since."""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from pyspark.sql.types import StructField, StructType

from forebay.core.errors import CorruptFile
from forebay.log.block import SUMMED_HEAD_OCTETS, Block, BlockWriter
from forebay.log.columns.parts import column_starts
from forebay.log.segment import HEAD_OCTETS, SegmentEntry, encode_foot, encode_head, segment_path, summed
from forebay.spark.arrow.batches import BatchMaker
from forebay.spark.directory.files import ReadOnlyDisk
from forebay.spark.directory.local import LocalLogs
from forebay.spark.directory.look import Places, look
from forebay.spark.reading.logs import DataLost
from forebay.spark.reading.plan import Range
from forebay.spark.schema import TYPES, block_columns
from tests.spark_schema import full_schema
from tests.stores import Everything, Opened

QUEUE = 1
NOW_US = 1_700_000_000_000_000
HANDLES = 200  # beside those that the tests have
MANY = 1100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory with one queue, `q`, and nothing in its log yet."""
    (tmp_path / "wal").mkdir()
    made = tmp_path / "queues" / str(QUEUE)
    made.mkdir(parents=True)
    (made / "queue.json").write_text(json.dumps({"name": "q", "id": QUEUE}))
    return tmp_path


def block_of(base: int, count: int) -> Block:
    """Records whose bodies are their offsets, one a second."""
    writer = BlockWriter()
    for offset in range(base, base + count):
        writer.append(2, b"amq.topic", b"a/b", b"", b"%d" % offset)
    return writer.seal(base, stamp_of(base), True)


def stamp_of(offset: int) -> int:
    return NOW_US + offset * 1_000_000


def write_segment(folder: Path, first: int, end: int, *blocks: Block) -> Path:
    """A segment, as housekeeping leaves it."""
    head = encode_head(QUEUE, first, end)
    entries: list[SegmentEntry] = []
    octets = b""
    for block in map(summed, blocks):
        position = HEAD_OCTETS + len(octets)
        entries.append(SegmentEntry(block.base, block.timestamp_us(0), position, block.octets(), block.count))
        octets += block.head + b"".join(block.parts())
    foot = encode_foot(head, QUEUE, first, end, HEAD_OCTETS + len(octets), entries)
    path = folder / segment_path(QUEUE, first)
    path.with_suffix(".tmp").write_bytes(head + octets + foot)
    return path.with_suffix(".tmp").rename(path)


def write_segments(folder: Path, count: int, records: int = 2) -> None:
    for first in range(0, count * records, records):
        write_segment(folder, first, first + records, block_of(first, records))


def offsets(logs: LocalLogs, first: int, end: int, share: object = None) -> list[int]:
    """As a task reads them, after the trip of what it is told."""
    blocks = logs.blocks("q", first, end, True, QUEUE, share=pickle.loads(pickle.dumps(share)))
    found: list[int] = []
    for batch in BatchMaker(full_schema(), "q").batches(blocks, first, end):
        at = batch.column("offset").to_pylist()
        assert batch.column("value").to_pylist() == [b"%d" % offset for offset in at]
        found += at
    return found


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python it runs."""
    count = 0

    def trace(_frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class CountingDisk(ReadOnlyDisk):
    """Counts the files that it opens."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.files = 0

    def open(self, path: str, create: bool) -> int:
        self.files += 1
        return super().open(path, create)


def test_a_look_takes_one_step_a_segment(folder: Path) -> None:
    """A billion rows are 16,000 segments."""
    lines = []
    for count in (100, 200, 400):
        write_segments(folder, count)
        lines.append(lines_of(lambda: look(ReadOnlyDisk(str(folder)), "q", True)))
    assert lines[2] - lines[1] < 2.2 * (lines[1] - lines[0])
    disk = CountingDisk(str(folder))
    places = look(disk, "q", True)
    assert disk.files == 400 + 1, "a head of each, and the index of the first"
    assert (places.start, places.end) == (0, 800)


def test_a_task_is_told_its_own_places_and_opens_no_others(folder: Path) -> None:
    write_segments(folder, 400)
    planner = LocalLogs(str(folder))
    share = planner.share(Range("q", 301, 311, QUEUE))
    assert isinstance(share, Places)
    assert [span.first for span in share.spans] == [300, 302, 304, 306, 308, 310]
    assert len(pickle.dumps(share)) < 1000
    task = LocalLogs(str(folder))
    task.disk = disk = CountingDisk(str(folder))
    assert offsets(task, 301, 311, share) == list(range(301, 311))
    assert disk.files == 6
    few, many = LocalLogs(str(folder)), LocalLogs(str(folder))
    few_lines = lines_of(lambda: planner.share(Range("q", 100, 102)))
    write_segments(folder, 1600)
    many.places("q")
    assert lines_of(lambda: many.share(Range("q", 100, 102))) <= few_lines + 20
    few.close()


@pytest.fixture
def few_handles() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = len(os.listdir("/proc/self/fd")) + HANDLES
    assert most < MANY
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_handles")
def test_more_segments_than_files_may_be_open(folder: Path) -> None:
    write_segments(folder, MANY)
    with LocalLogs(str(folder)) as logs:
        assert logs.bounds("q") == (0, 2 * MANY)
        assert logs.offset_at("q", stamp_of(MANY)) == MANY
        assert offsets(logs, 0, 2 * MANY) == list(range(2 * MANY))
        assert offsets(logs, 5, 2 * MANY - 5, logs.share(Range("q", 5, 2 * MANY - 5))) == list(range(5, 2 * MANY - 5))


def test_segments_that_were_merged_since_are_looked_for_again(folder: Path) -> None:
    write_segments(folder, 10, 10)
    share = LocalLogs(str(folder)).share(Range("q", 5, 95))
    # In the place of the first five, and of two more that are still there.
    write_segment(folder, 0, 50, block_of(0, 50))
    for first in (10, 20, 30):
        (folder / segment_path(QUEUE, first)).unlink()
    write_segment(folder, 60, 80, block_of(60, 20))
    with LocalLogs(str(folder)) as logs:
        assert offsets(logs, 5, 95, share) == list(range(5, 95))
        assert offsets(logs, 0, 100) == list(range(100))


def test_a_merge_in_the_middle_of_a_read_gives_no_record_twice(folder: Path) -> None:
    write_segments(folder, 10, 10)
    logs = LocalLogs(str(folder))
    share = logs.share(Range("q", 0, 100))

    def blocks() -> Iterator[object]:
        for number, block in enumerate(logs.blocks("q", 0, 100, True, QUEUE, share=share)):
            yield block
            if number == 2:
                write_segment(folder, 0, 100, block_of(0, 100))
                for first in range(10, 100, 10):
                    (folder / segment_path(QUEUE, first)).unlink()

    found: list[int] = []
    for batch in BatchMaker(full_schema(), "q").batches(blocks(), 0, 100):  # type: ignore[arg-type]
        found += batch.column("offset").to_pylist()
    assert found == list(range(100))


def test_what_was_in_the_wal_is_read_from_the_segment_that_it_came_to(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [QUEUE])
    opened.housekeep(Everything())
    for at in range(12):
        opened.publish(QUEUE, b"%d" % at + bytes(1000))
    opened.sync()
    share = LocalLogs(str(tmp_path)).share(Range("q1", 3, 12))
    assert isinstance(share, Places)
    assert share.spans == []
    assert opened.store.checkpoint_due()
    opened.store.rotate([])
    opened.sync()
    while list((tmp_path / "wal").glob("*.wal"))[1:]:
        assert opened.housekeep(Everything())
    with LocalLogs(str(tmp_path)) as logs:
        blocks = logs.blocks("q1", 3, 12, True, QUEUE, share=share)
        batches = BatchMaker(full_schema(), "q1").batches(blocks, 3, 12)
        assert [at for batch in batches for at in batch.column("offset").to_pylist()] == list(range(3, 12))
    opened.crash()


def test_what_is_gone_since_it_was_planned_is_said(folder: Path) -> None:
    write_segments(folder, 10, 10)
    share = LocalLogs(str(folder)).share(Range("q", 5, 95))
    (folder / segment_path(QUEUE, 0)).unlink()
    with LocalLogs(str(folder)) as logs, pytest.raises(DataLost, match="offsets 5 to 9 of queue 'q' are gone"):
        offsets(logs, 5, 95, share)
    assert [block.base for block in logs.blocks("q", 5, 95, False, QUEUE, share=share)] == list(range(10, 100, 10))


def test_times_of_segments_some_of_which_hold_nothing(folder: Path) -> None:
    write_segment(folder, 0, 10)
    write_segment(folder, 10, 20, block_of(12, 3), block_of(17, 2))
    write_segment(folder, 20, 30)
    write_segment(folder, 30, 40, block_of(35, 1))
    write_segment(folder, 40, 50)
    there = [12, 17, 35]  # the first of each block: its records are of one moment
    with LocalLogs(str(folder)) as logs:
        assert logs.bounds("q") == (12, 50)
        for offset in range(-1, 52):
            wanted = next((each for each in there if each >= offset), 50)
            assert logs.offset_at("q", stamp_of(offset)) == wanted, offset


@pytest.mark.parametrize(("column", "place"), [("timestamp", 0), ("routing_key", 3), ("body", 6)])
def test_damage_in_a_column_that_nobody_reads_does_not_fail_the_read(folder: Path, column: str, place: int) -> None:
    block = block_of(0, 10)
    path = write_segment(folder, 0, 10, block)
    octets = bytearray(path.read_bytes())
    octets[HEAD_OCTETS + SUMMED_HEAD_OCTETS + column_starts(block)[place]] ^= 1
    path.write_bytes(octets)
    logs = LocalLogs(str(folder))
    for name, needs in (("timestamp", "timestamp"), ("key", "routing_key"), ("value", "body"), ("offset", "")):
        schema = StructType([StructField(name, TYPES[name])])

        def read(schema: StructType = schema) -> int:
            blocks = logs.blocks("q", 0, 10, True, columns=block_columns(schema.names))
            return sum(batch.num_rows for batch in BatchMaker(schema, "q").batches(blocks, 0, 10))

        if needs == column:
            with pytest.raises(CorruptFile, match=f"the column {column} of the block at offset 0"):
                read()
        else:
            assert read() == 10
