"""The store's notes of each log beside the log itself, and how it takes back what the WAL has of all of them."""

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
    """The store's notes of a log beside the log itself.

    covered  blocks of the WAL up to this offset count no more: a segment has them, or nobody wanted them even then
    named    its folder says its name
    claimed  `create_log` was called for it in this run
    """

    def __init__(self, log: QueueLog) -> None:
        self.log = log
        self.segments: list[StoredSegment] = []
        self.covered: i64 = 0
        self.named = False
        self.claimed = False


def take_blocks(stored: dict[int, StoredLog], frame: Frame, first: i64, position: i64, file: BlockFile) -> i64:
    """Have the logs take in the blocks of a frame from the `first`th on, which recovery found at this position.

    returns  the place of the first block whose log is not there, or has those offsets; their number if there is none
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
    """Logs that start elsewhere than was noted last."""
    found: list[QueueLog] = []
    for each in stored.values():
        log = each.log
        if log.durable and (log.start != log.start_noted or log.kept != log.kept_noted):
            found.append(log)
    return found


def unnamed_logs(stored: dict[int, StoredLog]) -> list[QueueLog]:
    """Logs whose folder does not say their name yet."""
    found: list[QueueLog] = []
    for each in stored.values():
        if not each.named and each.log.durable:
            found.append(each.log)
    return found


def with_segments(stored: dict[int, StoredLog]) -> list[StoredLog]:
    """The logs that have any segments."""
    found: list[StoredLog] = []
    for each in stored.values():
        if each.segments:
            found.append(each)
    return found
