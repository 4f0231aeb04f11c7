"""The logs of a data directory, read without the broker's help; it may run meanwhile or not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from forebay.core.errors import NOT_FOUND, RequestError
from forebay.filter.pattern import Pattern
from forebay.spark.arrow import BlockView
from forebay.spark.files import QueueFiles, ReadOnlyDisk, open_queue, queue_names
from forebay.spark.logs import LogEnd, Logs, cut_off, lost, recreated
from forebay.spark.sift import sifted

LOOK_S: Final = 0.25  # between two looks at files while nothing comes


class LocalLogs(Logs):
    """The logs under one data directory, each as it was when it was looked at last."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.opened: dict[str, QueueFiles] = {}

    def files(self, queue: str) -> QueueFiles:
        if queue not in self.opened:
            self.opened[queue] = open_queue(self.root, queue, True)
        return self.opened[queue]

    def names(self, pattern: str) -> list[str]:
        flag = "(?i)" if pattern.startswith("(?i)") else ""
        whole = Pattern(f"{flag}^(?:{pattern[len(flag) :]})$")
        return sorted([name for name in queue_names(ReadOnlyDisk(self.root)) if whole.find(name)])

    def look(self, queue: str) -> LogEnd:
        files = self.files(queue)
        octets = sum([place.octets for place in files.places])
        return LogEnd(files.id, files.start, files.end, octets)

    def ends(self, after: Mapping[str, int], wait_s: float) -> dict[str, LogEnd]:
        deadline = time.monotonic() + wait_s
        while True:
            self.close()
            found: dict[str, LogEnd] = {}
            for queue in after:
                try:
                    found[queue] = self.look(queue)
                except RequestError as error:
                    if error.reason != NOT_FOUND:
                        raise
            left_s = deadline - time.monotonic()
            if left_s <= 0 or any(each.end > after[queue] for queue, each in found.items()):
                return found
            time.sleep(min(left_s, LOOK_S))

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

    def blocks(
        self, queue: str, first: int, end: int, fail_on_data_loss: bool, id: int | None = None, filter: str = ""
    ) -> Iterator[BlockView]:
        # The planner has seen these offsets on the disk, so the frames need no second check; the blocks get theirs.
        files = self.opened.get(queue) or self.opened.setdefault(queue, open_queue(self.root, queue, False))
        if fail_on_data_loss:
            if id is not None and files.id != id:
                raise recreated(queue)
            if files.start > first:
                raise lost(queue, first, files.start)
            if files.end < end:
                raise cut_off(queue, files.end, end)
        blocks = files.read(first, end)
        yield from sifted(blocks, filter, queue) if filter else blocks

    def deliveries(self, queue: str, first: int, end: int) -> dict[int, int] | None:
        return None

    def close(self) -> None:
        for files in self.opened.values():
            files.close()
        self.opened = {}
