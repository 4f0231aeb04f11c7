"""A source: one log, and what all of its readers still need.

A record is stored once, however many queues stand over the log, and is removed when no reader needs it any more.
`LogSource` alone decides that: for the start of the log, for the files that compaction rewrites, for the offsets that a
leader sends its followers, and for the explanation of why disk space is not freed.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.housekeeping import merged
from forebay.log.queue_log import NOT_HELD, QueueLog
from forebay.queue.source.reader import Keeper, SourceReader


@final
class LogSource:
    """A log and its readers.

    number     number of the log on disk, never reused
    readers    the queues over the log, or the one owner of a log of the broker's own
    is_shared  there are several readers
    """

    def __init__(self, log: QueueLog) -> None:
        self.number = log.queue
        self.log = log
        self.readers: list[SourceReader] = []
        self.is_shared = False

    def add_reader(self, reader: SourceReader) -> None:
        """Add a reader. The log keeps what it needs from now on."""
        self.readers.append(reader)
        self.is_shared = len(self.readers) > 1

    def remove_reader(self, reader: SourceReader) -> None:
        """Remove a reader, and release what only it needed. Without a reader left, drop the log itself."""
        self.readers.remove(reader)
        self.is_shared = len(self.readers) > 1
        if self.readers:
            self.hold_pinned()
            self.truncate()

    def needed_from(self) -> i64:
        """Return the offset below which no reader needs a record, apart from retention pins."""
        floor: i64 = NOT_HELD if self.readers else self.log.start
        for reader in self.readers:
            floor = min(floor, reader.needed_from())
        return floor

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of [first, end) that a disk has to keep, for readers and for pins."""
        pinned = max(first, self.log.held, self.log.kept)
        if pinned >= end:
            return self.needed_by_readers(first, end)
        return [*self.needed_by_readers(first, pinned), (pinned, end)]

    def needed_by_readers(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of [first, end) that some reader needs, ascending, without those of pins."""
        if len(self.readers) == 1:
            return self.readers[0].needed(first, end)
        found: list[tuple[int, int]] = []
        for reader in self.readers:
            found += reader.needed(first, end)
        return merged(found)

    def truncate(self) -> None:
        """Remove from the log what no reader needs any more."""
        start = self.log.start
        floor: i64 = NOT_HELD if self.readers else start
        for reader in self.readers:
            floor = min(floor, reader.needed_from())
            if floor <= start:
                return
        self.log.truncate(floor)

    def hold_pinned(self) -> None:
        """Update the log's pinned start to what retention pins hold now."""
        floor: i64 = NOT_HELD
        for reader in self.readers:
            floor = min(floor, reader.pinned_from())
        self.log.hold_from(floor)

    def lowest_keeper(self) -> Keeper | None:
        """Return the group or pin that keeps the lowest offset, or None if none keeps any record."""
        keepers: list[list[Keeper]] = []
        lowest: Keeper | None = None
        for reader in self.readers:
            own = reader.keepers()
            keepers.append(own)
            for keeper in own:
                if lowest is None or keeper.offset < lowest.offset:
                    lowest = keeper
        log = self.log
        if lowest is None or lowest.offset >= log.end:
            return None
        lowest.offset = max(lowest.offset, log.kept)
        lowest.free = max(self.needed_without(lowest, keepers), lowest.offset)
        return lowest

    def lowest_reader(self) -> Keeper | None:
        """Return the reader that needs the lowest offset, or None if every record it needs is needed by others."""
        lowest: SourceReader | None = None
        floor: i64 = NOT_HELD
        free: i64 = NOT_HELD
        for reader in self.readers:
            needed_from = reader.needed_from()
            if lowest is None or needed_from < floor:
                free = floor
                lowest, floor = reader, needed_from
            else:
                free = min(free, needed_from)
        if lowest is None or free == NOT_HELD or floor >= free:
            return None
        keeper = Keeper(lowest, None, None, floor)
        keeper.free = free
        return keeper

    def needed_without(self, without: Keeper, keepers: list[list[Keeper]]) -> i64:
        """Return the first record that the log would keep without one of its keepers.

        keepers  the keepers of each reader
        """
        floor: i64 = self.log.end
        for index, reader in enumerate(self.readers):
            has_group = False
            for keeper in keepers[index]:
                if keeper is not without:
                    floor = min(floor, keeper.offset)
                    if keeper.group is not None:
                        has_group = True
            if not has_group:  # a stream keeps all records, a queue those for its next consumers
                floor = min(floor, reader.start())
        return floor
