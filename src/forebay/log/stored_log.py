"""The record that the store keeps of each log beside the log itself, and how recovery adds the blocks of the WAL."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.block_files import BlockFile
from forebay.log.frame import Frame
from forebay.log.queue_log import QueueLog
from forebay.log.segment import Segment


@final
class StoredSegment:
    """A segment in use."""

    def __init__(self, segment: Segment, file: BlockFile) -> None:
        self.segment = segment
        self.file = file


@final
class StoredLog:
    """The record that the store keeps of a log beside the log itself.

    covered  ignore blocks of the WAL up to this offset: a segment has their records, or they were not needed any more
    named    its folder holds the queue's name
    claimed  `create_log` was called for it in this run
    """

    def __init__(self, log: QueueLog) -> None:
        self.log = log
        self.segments: list[StoredSegment] = []
        self.covered: i64 = 0
        self.named = False
        self.claimed = False


def take_blocks(stored: dict[int, StoredLog], frame: Frame, first: i64, position: i64, file: BlockFile) -> i64:
    """Add a frame's blocks from number `first` on, which recovery found at `position` of the file, to their logs.

    Returns the number of the first block whose log is unknown or already has its offsets, or the count of blocks.
    """
    at = first
    blocks = frame.blocks
    while at < i64(len(blocks)):
        block = blocks[at]
        found = stored.get(block.queue)
        if found is None:
            break
        if block.base + block.count > found.covered:
            if block.base < found.log.end:
                break
            place = position + block.position
            found.log.add_stored(block.base, block.count, file, place, block.octets, block.stamp_us)
        at += 1
    return at


def moved_logs(stored: dict[int, StoredLog]) -> list[QueueLog]:
    """Return the durable logs whose `start` or `kept` has changed since the WAL last noted it."""
    found: list[QueueLog] = []
    for each in stored.values():
        log = each.log
        if log.durable and (log.start != log.start_noted or log.kept != log.kept_noted):
            found.append(log)
    return found


def unnamed_logs(stored: dict[int, StoredLog]) -> list[QueueLog]:
    """Return the durable logs whose folder does not hold the queue's name yet."""
    found: list[QueueLog] = []
    for each in stored.values():
        if not each.named and each.log.durable:
            found.append(each.log)
    return found


def with_segments(stored: dict[int, StoredLog]) -> list[StoredLog]:
    """Return the logs that have at least one segment."""
    found: list[StoredLog] = []
    for each in stored.values():
        if each.segments:
            found.append(each)
    return found
