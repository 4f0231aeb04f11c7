"""Replays frames in order into the state that they describe, for recovery and, all the time, for a follower."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.stored.entry_kinds import START
from forebay.log.block_files import BlockFile
from forebay.log.frame import CHECKPOINT, DROPPED, SEGMENTS, WALS, Frame, FrameEntry, parse_start
from forebay.log.logs import Logs
from forebay.log.queue_log import NOT_HELD

Bounds = tuple[int, int, int]  # of a log: lowest offset kept, end, lowest for consumers


@final
class FrameReplay:
    """The state described by frames, from a checkpoint or the beginning of the log on.

    logs     get the blocks
    bounds   of each log, as last noted
    entries  since the last checkpoint, those of the checkpoint included
    files    those of its notes that say which files must be there
    """

    def __init__(self, logs: Logs) -> None:
        self.logs = logs
        self.bounds: dict[int, Bounds] = {}
        self.entries: list[FrameEntry] = []
        self.files: list[FrameEntry] = []
        self.busy: list[BlockFile] = []  # files that a job reads, which stay open when their log is dropped

    def take(self, frame: Frame, position: i64, file: BlockFile) -> None:
        """Apply a frame that stands at `position` of the file. Raises CorruptFile for a block that cannot follow."""
        if frame.flags & CHECKPOINT:
            self.entries = []
            self.bounds = {}
            self.files = []
        for entry in frame.entries:
            if entry.kind == START:
                self.bounds[entry.queue] = parse_start(entry.payload)
                self.logs.stored_log(entry.queue)
            elif entry.kind == DROPPED:
                self.bounds.pop(entry.queue, None)
                self.files.append(entry)
                self.logs.forget(entry.queue, self.busy)
            elif entry.kind in (SEGMENTS, WALS):
                self.files.append(entry)
            else:
                self.entries.append(entry)
        self.logs.take_blocks(frame, position, file)

    def advance(self, frame: Frame) -> list[int]:
        """Drop at once the records and logs that a taken frame no longer needs. Returns the deleted queues."""
        gone: list[int] = []
        for entry in frame.entries:
            if entry.kind == START:
                self.move(entry.queue)
            elif entry.kind == DROPPED:
                gone.append(entry.queue)
        if frame.flags & CHECKPOINT:
            # A log created after the checkpoint, but in the same frame, is known by its blocks alone.
            begun = {block.queue for block in frame.blocks}
            begun.difference_update(gone)
            for queue in list(self.logs.stored):
                if queue not in self.bounds and queue not in begun:
                    gone.append(queue)
                    self.logs.forget(queue, self.busy)
        return gone

    def move(self, queue: int) -> None:
        """Apply the last noted bounds to a queue's log, which drops the records below them."""
        if queue not in self.bounds:
            return  # the same frame has deleted the log
        kept, end, start = self.bounds[queue]
        log = self.logs.stored[queue].log
        if end > log.end:
            log.end = end
            log.durable_end = end
        log.hold_from(kept if kept < start else NOT_HELD)
        log.truncate(start)

    def finish(self) -> None:
        """Set the bounds of all logs after the last frame: the logs are as the broker had them."""
        for queue, stored in self.logs.stored.items():
            kept, end, start = self.bounds.get(queue, (0, 0, 0))
            stored.log.recovered(start, end, kept)
