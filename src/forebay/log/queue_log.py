"""One queue's log: the block being filled, an index of the sealed blocks, and the cache in front of their files.

The index is six parallel arrays, 36 bytes a block and no object, because a million blocks of one record each must not
cost more than their records. Entries from `first` on are retained. Entries before `first` are dropped once they are
half of the arrays. Blocks ascend by offset, but offsets may be missing between them: a rewrite of a file leaves out
records that nobody needed any more.

Records that no consumer needs are dropped, unless a reader of blocks holds them. Held records stay below `start` and
are visible to such readers only.

A block's file is a number: positive for a WAL file, negative for a segment, 0 for memory only.
"""

from __future__ import annotations

from typing import Final, final

from librt.vecs import append, extend, vec
from mypy_extensions import i32, i64, u8

from forebay.log.block import OBJECT_OCTETS, Block, BlockWriter
from forebay.log.block_files import BlockFile, BlockFiles
from forebay.log.columns.parts import BlockPart, part_of

IN_MEMORY: Final = 0  # file number of a block that never goes to a disk
TRIM_MIN: Final = 1024  # dropped entries from which on compacting a list is worth the copy
SPARED_MAX: Final = 64  # blocks not on the disk that one eviction skips at most
NOT_HELD: Final = 1 << 62  # of `QueueLog.held`: above every offset


@final
class BlockCache:
    """A cache of blocks of all durable logs within one memory budget; evicts the oldest block first.

    The entry of a block that its log dropped stays in the list until eviction reaches it or the list is compacted.
    """

    def __init__(self, octets_max: i64) -> None:
        self.octets_max: i64 = octets_max
        self.octets: i64 = 0
        self.count: i64 = 0
        self.first: i64 = 0
        self.logs: list[QueueLog] = []
        self.bases = vec[i64]()

    def add(self, log: QueueLog, block: Block) -> None:
        log.cached[int(block.base)] = block
        octets = block.octets() + OBJECT_OCTETS
        self.octets += octets
        log.cached_octets += octets
        if log.cached_max and log.cached_octets > log.cached_max:
            self.trim(log)
        self.count += 1
        self.logs.append(log)
        self.bases = append(self.bases, block.base)
        if self.octets > self.octets_max:
            self.shrink()
        elif len(self.logs) - self.first > 2 * self.count + TRIM_MIN:
            self.compact()

    def removed(self, log: QueueLog, block: Block) -> None:
        """Update the totals after a log has removed the block from its own dictionary."""
        octets = block.octets() + OBJECT_OCTETS
        self.octets -= octets
        log.cached_octets -= octets
        self.count -= 1

    def trim(self, log: QueueLog) -> None:
        """Evict the oldest blocks of a log over its `cached_max`, up to the first block that is not on the disk yet."""
        while log.cached_octets > log.cached_max:
            base = next(iter(log.cached))
            block = log.cached[base]
            if block.end > log.durable_end:
                return
            del log.cached[base]
            self.removed(log, block)

    def shrink(self) -> None:
        """Evict the oldest blocks until the cache is within budget. Requeue blocks that are not on the disk yet."""
        at = self.first
        end = i64(len(self.logs))
        spared: i64 = 0
        while at < end and self.octets > self.octets_max and spared < SPARED_MAX:
            log = self.logs[at]
            base = int(self.bases[at])
            block = log.cached.get(base)
            at += 1
            if block is None:
                continue
            if block.end > log.durable_end:
                self.logs.append(log)
                self.bases = append(self.bases, base)
                spared += 1
            else:
                del log.cached[base]
                self.removed(log, block)
        self.first = at
        if at > TRIM_MIN and 2 * at > i64(len(self.logs)):
            self.compact()

    def compact(self) -> None:
        """Drop the list entries of blocks that are no longer cached."""
        logs: list[QueueLog] = []
        bases = vec[i64]()
        for at in range(self.first, i64(len(self.logs))):
            log = self.logs[at]
            if int(self.bases[at]) in log.cached:
                logs.append(log)
                bases = append(bases, self.bases[at])
        self.logs = logs
        self.bases = bases
        self.first = 0
        self.count = i64(len(logs))


@final
class BlockIndex:
    """Positions of blocks in ascending order of offsets. Entry `at` is element `at` of every array."""

    def __init__(self) -> None:
        self.bases = vec[i64]()
        self.counts = vec[i32]()
        self.files = vec[i32]()
        self.positions = vec[i64]()
        self.octets = vec[i32]()
        self.stamps = vec[i64]()

    def add(self, base: i64, count: i64, file: i64, position: i64, octets: i64, stamp_us: i64) -> None:
        self.bases = append(self.bases, base)
        self.counts = append(self.counts, i32(count))
        self.files = append(self.files, i32(file))
        self.positions = append(self.positions, position)
        self.octets = append(self.octets, i32(octets))
        self.stamps = append(self.stamps, stamp_us)

    def part(self, first: i64, end: i64) -> BlockIndex:
        """Return a copy of the entries [first, end)."""
        index = BlockIndex()
        index.bases = self.bases[first:end]
        index.counts = self.counts[first:end]
        index.files = self.files[first:end]
        index.positions = self.positions[first:end]
        index.octets = self.octets[first:end]
        index.stamps = self.stamps[first:end]
        return index

    def extend(self, other: BlockIndex) -> None:
        self.bases = extend(self.bases, other.bases)
        self.counts = extend(self.counts, other.counts)
        self.files = extend(self.files, other.files)
        self.positions = extend(self.positions, other.positions)
        self.octets = extend(self.octets, other.octets)
        self.stamps = extend(self.stamps, other.stamps)

    def size(self) -> i64:
        return i64(len(self.bases))

    def end(self, at: i64) -> i64:
        """Return the offset after the last record of the block at entry `at`."""
        return self.bases[at] + i64(self.counts[at])


@final
class Stretch:
    """Consecutive blocks that stand back to back in one file.

    end  offset after their last record
    """

    def __init__(self, file: BlockFile, position: i64, octets: i64, end: i64) -> None:
        self.file = file
        self.position: i64 = position
        self.octets: i64 = octets
        self.end: i64 = end


@final
class QueueLog:
    """The log of one queue.

    queue        number of the queue, never used twice
    start        lowest offset that consumers may have
    kept         lowest offset that is retained; below `start` only where a reader of blocks holds it
    held         records from here on stay, even if `start` moves past them
    end          next offset to be sealed
    durable_end  records below this offset are on the disk (for a log in memory: all sealed records)
    octets       bytes of all retained blocks
    cached       blocks in memory, by their first offset; their bytes are `cached_octets`
    cached_max   bytes of this log to cache at most; 0: no limit but that of the whole cache
    """

    def __init__(self, queue: int, name: str, durable: bool, files: BlockFiles, cache: BlockCache) -> None:
        self.queue = queue
        self.name = name
        self.durable = durable
        self.start: i64 = 0
        self.kept: i64 = 0
        self.held: i64 = NOT_HELD
        self.end: i64 = 0
        self.durable_end: i64 = 0
        self.octets: i64 = 0
        self.stamp_us: i64 = 0
        self.writer = BlockWriter()
        self.files = files
        self.cache = cache
        self.cached: dict[int, Block] = {}
        self.cached_octets: i64 = 0
        self.cached_max: i64 = 0
        self.index = BlockIndex()
        self.first: i64 = 0
        self.start_noted: i64 = 0
        self.kept_noted: i64 = 0

    def readable_end(self) -> i64:
        """Return the offset after the last record that readers may see. A durable log's must be on the disk."""
        return self.durable_end if self.durable else self.end

    def append(self, format: u8, exchange: bytes, key: bytes, properties: bytes, body: bytes) -> None:
        """Append a record to the block being filled."""
        self.writer.append(format, exchange, key, properties, body)

    def append_annotated(
        self, format: u8, exchange: bytes, key: bytes, properties: bytes, body: bytes, annotations: bytes
    ) -> None:
        """Append a record that may have annotations to the block being filled."""
        self.writer.append_annotated(format, exchange, key, properties, body, annotations)

    def seal(self, now_us: i64) -> Block | None:
        """Seal the records appended since the last call into a block and return it. Returns None if there are none.

        The caller hands a durable log's block to the store. A block in memory is indexed here.
        """
        if self.writer.count == 0:
            return None
        self.stamp_us = max(self.stamp_us, now_us)
        block = self.writer.seal(self.end, self.stamp_us, self.durable)
        self.end = block.end
        if not self.durable:
            self.durable_end = block.end
            self.cached[int(block.base)] = block
            self.add(block.base, block.count, IN_MEMORY, 0, block.octets(), self.stamp_us)
        return block

    def add_block(self, block: Block, file: BlockFile, position: i64) -> None:
        """Add a sealed block to the index and the cache. It will stand at this position of the file."""
        octets = block.octets()
        self.add(block.base, block.count, i64(file.number), position, octets, block.timestamp_us(0))
        file.blocks += 1
        file.octets += octets
        self.cache.add(self, block)

    def add_stored(self, base: i64, count: i64, file: BlockFile, position: i64, octets: i64, stamp_us: i64) -> None:
        """Add a block that recovery found on the disk to the index."""
        self.add(base, count, i64(file.number), position, octets, stamp_us)
        file.blocks += 1
        file.octets += octets
        self.stamp_us = max(self.stamp_us, stamp_us)
        if base + count > self.end:
            self.end = base + count
            self.durable_end = self.end

    def add(self, base: i64, count: i64, file: i64, position: i64, octets: i64, stamp_us: i64) -> None:
        self.index.add(base, count, file, position, octets, stamp_us)
        self.octets += octets

    def find(self, offset: i64) -> i64:
        """Return the entry of the first retained block that ends after `offset`, or the index's size if none does."""
        index = self.index
        low = self.first
        high = index.size()
        if high > low and offset >= index.bases[high - 1]:
            low = high - 1
        while low < high:
            middle = (low + high) >> 1
            if index.bases[middle] + i64(index.counts[middle]) > offset:
                high = middle
            else:
                low = middle + 1
        return low

    def block(self, offset: i64) -> Block | None:
        """Return the block with the first record at or after `offset` for consumers, or None if there is none yet.

        Raises DamagedBlock if the block read from the disk is not as it was written.
        """
        at = self.find_kept(max(offset, self.start))
        return None if at < 0 else self.load(at)

    def kept_block(self, offset: i64) -> Block | None:
        """Return the block as `block` does, but also records held below `start`. Leaves the cache as it is.

        A reader that goes through a whole log would otherwise evict what consumers need next.
        """
        at = self.find_kept(offset)
        if at < 0:
            return None
        block = self.cached.get(int(self.index.bases[at]))
        return self.read(at) if block is None else block

    def kept_part(self, offset: i64, columns: i64) -> BlockPart | None:
        """Return these columns (core/stored/columns.py) of the block that `kept_block` returns.

        Reads no other columns.
        """
        at = self.find_kept(offset)
        if at < 0:
            return None
        index = self.index
        base = index.bases[at]
        block = self.cached.get(int(base))
        number = i64(index.files[at])
        if block is None and number < 0:
            octets = i64(index.octets[at])
            count = i64(index.counts[at])
            return self.files.read_part(
                number, index.positions[at], octets, self.queue, self.name, base, count, columns
            )
        return part_of(self.read(at) if block is None else block, columns)

    def find_kept(self, offset: i64) -> i64:
        """Return the entry of the block with the first retained record at or after `offset`, or -1 if there is none."""
        offset = max(offset, self.kept)
        if offset >= self.end:
            return -1
        at = self.find(offset)
        return at if at < self.index.size() else -1

    def load(self, at: i64) -> Block:
        """Return the block of an index entry from the cache, or read it from the disk into the cache."""
        block = self.cached.get(int(self.index.bases[at]))
        if block is None:
            block = self.read(at)
            self.cache.add(self, block)
        return block

    def read(self, at: i64) -> Block:
        """Read the block of an index entry from the disk. Raises DamagedBlock if it cannot be read."""
        index = self.index
        number = i64(index.files[at])
        octets = i64(index.octets[at])
        base = index.bases[at]
        return self.files.read(number, index.positions[at], octets, self.queue, self.name, base, i64(index.counts[at]))

    def stretch(self, offset: i64, end: i64, octets_max: i64) -> Stretch | None:
        """Return the blocks of [offset, end) that stand back to back in one segment.

        Returns at least one block, then as many as `octets_max` bytes hold. Returns None if the first block is in no
        segment, or in a damaged one.
        """
        at = self.find_kept(offset)
        index = self.index
        if at < 0 or index.files[at] >= 0 or index.bases[at] >= end:
            return None
        number = index.files[at]
        if not self.files.files[int(number)].whole:
            return None
        position = index.positions[at]
        octets = i64(index.octets[at])
        after = at + 1
        while after < index.size() and index.files[after] == number and index.bases[after] < end:
            more = octets + i64(index.octets[after])
            if index.positions[after] != position + octets or more > octets_max:
                break
            octets = more
            after += 1
        return Stretch(self.files.files[int(number)], position, octets, index.end(after - 1))

    def octets_from(self, offset: i64) -> i64:
        """Return the total bytes of the blocks that end after `offset`."""
        octets = self.octets
        for below in range(self.first, self.find(offset)):
            octets -= i64(self.index.octets[below])
        return octets

    def offset_at(self, timestamp_us: i64) -> i64:
        """Return the first offset for consumers with a timestamp from `timestamp_us` on, or `end` if there is none."""
        return max(self.kept_offset_at(timestamp_us), self.start)

    def kept_offset_at(self, timestamp_us: i64) -> i64:
        """Return the offset as `offset_at` does, but consider records held below `start`, too."""
        index = self.index
        low = self.first
        high = index.size()
        while low < high:
            middle = (low + high) >> 1
            if index.stamps[middle] >= timestamp_us:
                high = middle
            else:
                low = middle + 1
        # Block `low` begins at or after the time, but the block before it may hold such a record, too.
        if low > self.first:
            block = self.load(low - 1)
            left: i64 = 0
            right = block.count
            while left < right:
                middle = (left + right) >> 1
                if block.timestamp_us(middle) >= timestamp_us:
                    right = middle
                else:
                    left = middle + 1
            if left < block.count:
                return max(block.base + left, self.kept)
        if low >= index.size():
            return self.end
        return max(index.bases[low], self.kept)

    def truncate(self, floor: i64) -> None:
        """Move `start` up to `floor`, and drop the records below it that no reader holds."""
        if floor <= self.start:
            return
        self.start = min(floor, self.end)
        self.drop_below(min(self.start, self.held))

    def hold_from(self, offset: i64) -> None:
        """Hold records from `offset` on. Drop records that only an earlier hold kept. NOT_HELD holds none."""
        self.held = offset
        self.drop_below(min(self.start, offset))

    def drop_below(self, floor: i64) -> None:
        """Drop the blocks that end at or below `floor`."""
        if floor <= self.kept:
            return
        self.kept = floor
        index = self.index
        size = index.size()
        at = self.first
        while at < size and index.bases[at] + i64(index.counts[at]) <= floor:
            self.drop(at)
            at += 1
        self.first = at
        if at == size:
            if size:
                self.index = BlockIndex()
                self.first = 0
        elif at > TRIM_MIN and 2 * at > size:
            self.index = index.part(at, size)
            self.first = 0

    def drop(self, at: i64) -> None:
        """Release the block of an index entry: its file's counts and its cache entry. The entry stays in the arrays."""
        index = self.index
        octets = i64(index.octets[at])
        self.octets -= octets
        number = i64(index.files[at])
        if number != IN_MEMORY:
            file = self.files.files[int(number)]
            file.blocks -= 1
            file.octets -= octets
            if self.files.damages:
                self.files.forgive(number, index.positions[at])
        base = int(index.bases[at])
        block = self.cached.get(base)
        if block is not None:
            del self.cached[base]
            if number != IN_MEMORY:
                self.cache.removed(self, block)

    def missing(self, offset: i64) -> list[tuple[int, int]]:
        """Return the offset intervals from `offset` on without records. Rewrites of files left these records out."""
        index = self.index
        found: list[tuple[int, int]] = []
        next = offset
        for at in range(self.find(offset), index.size()):
            if index.bases[at] > next:
                found.append((next, index.bases[at]))
            next = index.end(at)
        if next < self.end:
            found.append((next, self.end))
        return found

    def retention_floor(self, now_us: i64, age_us: i64, octets: i64, messages: i64, start: i64 = -1) -> i64:
        """Return the end of the first blocks from `start` on that are over a limit, or `start` if none is.

        start  the first record that counts; -1: that of the log

        A limit of 0 does not apply. A block is over the age if all its records are. Only blocks on the disk count.
        """
        index = self.index
        size = index.size()
        first = self.first
        kept = self.octets
        if start < 0:
            start = self.start
        if self.kept < start:  # held records count towards no limit
            first = self.find(start)
            kept = self.octets_from(start)
        at = first
        while at < size and index.end(at) <= self.durable_end:
            over = octets > 0 and kept > octets
            if not over and messages > 0:
                over = self.end - index.end(at) >= messages
            if not over and age_us > 0:
                # A block may hold records of many turns, but none later than the next block's first.
                latest = index.stamps[at + 1] if at + 1 < size else self.stamp_us
                over = latest < now_us - age_us
            if not over:
                break
            kept -= i64(index.octets[at])
            at += 1
        return start if at == first else index.end(at - 1)

    def entries_in(self, number: i64) -> BlockIndex:
        """Return a copy of the index entries of one file."""
        index = self.index
        size = index.size()
        low = self.first
        # Blocks of segments come first, then those of WAL files in ascending order, so a later file ends the search.
        while low < size and i64(index.files[low]) != number and (number < 0 or i64(index.files[low]) < number):
            low += 1
        high = low
        while high < size and i64(index.files[high]) == number:
            high += 1
        return index.part(low, high)

    def replace(self, first: i64, end: i64, rewritten: BlockIndex) -> None:
        """Replace the index entries with offsets in [first, end) by those of the rewritten blocks."""
        index = self.index
        size = index.size()
        low = self.first
        while low < size and index.bases[low] < first:
            low += 1
        high = low
        while high < size and index.bases[high] < end:
            self.drop(high)
            high += 1
        merged = index.part(self.first, low)
        for at in range(rewritten.size()):
            if rewritten.end(at) <= self.kept:
                continue
            octets = i64(rewritten.octets[at])
            number = i64(rewritten.files[at])
            file = self.files.files[int(number)]
            file.blocks += 1
            file.octets += octets
            self.octets += octets
            merged.add(
                rewritten.bases[at],
                i64(rewritten.counts[at]),
                number,
                rewritten.positions[at],
                octets,
                rewritten.stamps[at],
            )
        merged.extend(index.part(high, size))
        self.index = merged
        self.first = 0

    def recovered(self, start: i64, end: i64, kept: i64 = NOT_HELD) -> None:
        """Set the log's bounds as the WAL last noted them, after recovery has added all blocks.

        Records kept below `start` stay held until `hold_from` says where readers hold.
        """
        if end > self.end:
            self.end = end
            self.durable_end = end
        if kept < start:
            self.held = kept
        self.truncate(start)
        self.start = max(self.start, self.lowest(self.start))
        self.kept = min(max(self.kept, self.lowest(self.kept)), self.start)
        self.start_noted = self.start
        self.kept_noted = self.kept

    def lowest(self, offset: i64) -> i64:
        """Return the first offset of the first retained block that ends after `offset`, or `end` if there is none."""
        at = self.find(offset)
        return self.index.bases[at] if at < self.index.size() else self.end

    def clear(self) -> None:
        """Drop every block, because the log is being deleted."""
        for at in range(self.first, self.index.size()):
            self.drop(at)
        self.index = BlockIndex()
        self.first = 0
        self.start = self.end
        self.kept = self.end
        self.cached = {}
