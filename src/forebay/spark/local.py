"""The logs of a data directory, read without the broker's help; it may run meanwhile or not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forebay.spark.arrow import BlockView
from forebay.spark.files import QueueFiles, open_queue
from forebay.spark.logs import ADVICE, DataLost, Logs, lost


class LocalLogs(Logs):
    """The logs under one data directory, each as it was at the first question about it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.opened: dict[str, QueueFiles] = {}

    def files(self, queue: str) -> QueueFiles:
        if queue not in self.opened:
            self.opened[queue] = open_queue(self.root, queue, True)
        return self.opened[queue]

    def bounds(self, queue: str) -> tuple[int, int]:
        files = self.files(queue)
        return files.start, files.end

    def offset_at(self, queue: str, timestamp_us: int) -> int:
        files = self.files(queue)
        # Timestamps never decrease: the first block that begins late enough, or the end of the one before it.
        later = next((at for at, place in enumerate(files.places) if place.stamp_us >= timestamp_us), None)
        at = len(files.places) if later is None else later
        if at > 0:
            before = files.places[at - 1]
            for block in files.read(before.base, before.base + before.records):
                stamps = np.frombuffer(block.buffer.view, "<i8", block.layout.count, block.data_at)
                inside = int(np.searchsorted(stamps, timestamp_us))
                if inside < block.layout.count:
                    return max(block.layout.base + inside, files.start)
        return files.end if later is None else max(files.places[later].base, files.start)

    def blocks(self, queue: str, first: int, end: int, fail_on_data_loss: bool) -> Iterator[BlockView]:
        # The planner has seen these offsets on the disk, so the frames need no second check; the blocks get theirs.
        files = self.opened.get(queue) or self.opened.setdefault(queue, open_queue(self.root, queue, False))
        if fail_on_data_loss:
            if files.start > first:
                raise lost(queue, first, files.start)
            if files.end < end:
                raise DataLost(
                    f"queue {queue!r}: offsets to below {end} were to be read, but the log ends at {files.end}; "
                    f"was the queue deleted and made anew? {ADVICE}"
                )
        yield from files.read(first, end)

    def close(self) -> None:
        for files in self.opened.values():
            files.close()
        self.opened = {}
