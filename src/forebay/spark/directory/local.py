"""Reads the logs of a data directory without the broker, which may be running or not."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np

from forebay.core.stored.columns import TIMESTAMPS
from forebay.filter.pattern import Pattern
from forebay.spark.arrow.batches import BlockView
from forebay.spark.directory.files import ReadOnlyDisk, Vanished
from forebay.spark.directory.look import LOOKS_MAX, Places, landmarks, look, queue_names
from forebay.spark.directory.sift import sifted
from forebay.spark.reading.logs import LogAccess, LogEnd, cut_off, lost, recreated
from forebay.spark.reading.plan import Range

LOOK_S: Final = 0.25  # pause between two scans of the files while there are no new records
REST_FACTOR: Final = 10  # the least pause in durations of a scan, which reads the head of every segment


class LocalLogs(LogAccess):
    """The logs under one data directory, each as it was at its last scan."""

    def __init__(self, root: str) -> None:
        self.disk = ReadOnlyDisk(root)
        self.known: dict[str, Places] = {}

    def places(self, queue: str) -> Places:
        if queue not in self.known:
            self.known[queue] = look(self.disk, queue, True)
        return self.known[queue]

    def names(self, pattern: str) -> list[str]:
        flag = "(?i)" if pattern.startswith("(?i)") else ""
        whole = Pattern(f"{flag}^(?:{pattern[len(flag) :]})$")
        return sorted([name for name in queue_names(self.disk) if whole.find(name)])

    def look(self, queue: str) -> LogEnd:
        places = self.places(queue)
        return LogEnd(places.id, places.start, places.end, places.octets())

    def ends(self, after: Mapping[str, int], wait_s: float) -> dict[str, LogEnd]:
        deadline = time.monotonic() + wait_s
        while True:
            self.known = {}
            began = time.monotonic()
            found = self.ends_of_existing(after)
            now = time.monotonic()
            if now >= deadline or any(each.end > after[queue] for queue, each in found.items()):
                return found
            time.sleep(min(deadline - now, max(LOOK_S, REST_FACTOR * (now - began))))

    def offset_at(self, queue: str, timestamp_us: int) -> int:
        places = self.places(queue)
        blocks = landmarks(self.disk, places, timestamp_us)
        later = bisect_left(blocks, timestamp_us, key=lambda block: block.stamp_us)
        # The record is in the last block that begins earlier, or else it is the first of the block after that.
        if later > 0:
            before = blocks[later - 1]
            for block in places.read(self.disk, before.base, before.base + before.records, False):
                stamps = np.frombuffer(block.buffer.view, "<i8", block.count, block.start(TIMESTAMPS))
                inside = int(np.searchsorted(stamps, timestamp_us))
                if inside < block.count:
                    return max(block.base + inside, places.start)
        return max(blocks[later].base, places.start) if later < len(blocks) else places.end

    def share(self, range: Range) -> Places:
        return self.places(range.queue).part(range.first, range.end)

    def blocks(
        self,
        queue: str,
        first: int,
        end: int,
        fail_on_data_loss: bool,
        id: int | None = None,
        filter: str = "",
        share: object = None,
        columns: Collection[str] | None = None,
    ) -> Iterator[BlockView]:
        whole = bool(filter) or columns is None or "body" in columns
        blocks = self.found(queue, first, end, fail_on_data_loss, id, share, whole)
        yield from sifted(blocks, filter, queue) if filter else blocks

    def found(
        self, queue: str, first: int, end: int, fail_on_data_loss: bool, id: int | None, share: object, whole: bool
    ) -> Iterator[BlockView]:
        """Yield the blocks of [first, end).

        Scan the directory again if files were removed before they could be read.
        """
        # The planner has checked the WAL's frames up to these offsets, so only the blocks are checked here.
        places = share if isinstance(share, Places) else self.known.get(queue)
        wanted = first
        tries = 0
        while True:
            if places is None:
                places = look(self.disk, queue, False)
            if fail_on_data_loss:
                check_there(places, queue, wanted, end, id)
            try:
                for block in places.read(self.disk, wanted, end, whole):
                    yield block
                    wanted, tries = block.end(), 0
            except Vanished:
                tries += 1
                if tries == LOOKS_MAX:
                    raise
                places = None
            else:
                return

    def deliveries(self, queue: str, first: int, end: int) -> dict[int, int] | None:
        return None

    def close(self) -> None:
        self.known = {}


def check_there(places: Places, queue: str, first: int, end: int, id: int | None) -> None:
    """Raise DataLost unless all records of [first, end) are present, in the log with this id."""
    if id is not None and places.id != id:
        raise recreated(queue)
    if places.start > first:
        raise lost(queue, first, places.start)
    if places.end < end:
        raise cut_off(queue, places.end, end)
