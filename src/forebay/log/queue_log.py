"""One queue's log: the block being filled, an index of the sealed ones, and the cache in front of their files.

The index is six parallel arrays, 36 octets a block and no object, because a million blocks of one record each must not
cost more than their records. Entries from `first` on are retained; those before it are dropped when they are half of
the arrays. Blocks ascend by offset, but offsets may be missing between them: records that nobody wanted any more were
left out when a file was rewritten.

What nobody consumes any more goes, unless readers of blocks hold it: then it stays below `start`, for them alone.

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
TRIM_MIN: Final = 1024  # dropped entries that are worth moving the others
SPARED_MAX: Final = 64  # blocks not on the disk that one look for space in the cache passes over
NOT_HELD: Final = 1 << 62  # of `QueueLog.held`: above every offset


@final
class BlockCache:
    """Blocks in memory, of all durable logs together, within a budget; what came first goes first.

    The entry of a block that its log dropped stays in the list until it is met or the list is compacted.
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
        """Note that its log has taken the block out of its own dictionary."""
        octets = block.octets() + OBJECT_OCTETS
        self.octets -= octets
        log.cached_octets -= octets
        self.count -= 1

    def trim(self, log: QueueLog) -> None:
        """Drop the oldest blocks of a log that has more in memory than it should, as far as they are on the disk."""
        while log.cached_octets > log.cached_max:
            base = next(iter(log.cached))
            block = log.cached[base]
            if block.end > log.durable_end:
                return
            del log.cached[base]
            self.removed(log, block)

    def shrink(self) -> None:
        """Drop the oldest until the budget holds, but not what is not on the disk yet: that goes to the end."""
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
        """Drop the entries of blocks that are no longer cached."""
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
    """Places of blocks, in ascending order of offsets: one entry is the same place of all arrays."""

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
        """A copy of the entries [first, end)."""
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
        """Offset after the last record of block `at`."""
        return self.bases[at] + i64(self.counts[at])


@final
class Stretch:
    """Blocks that stand back to back in one file.

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

    queue        its number, never used twice
    start        lowest offset that consumers may have
    kept         lowest offset that is retained; below `start` only where it is held
    held         no record from here on goes, whatever becomes of `start`
    end          next offset to be sealed
    durable_end  records below it are on the disk (of a log in memory: all that are sealed)
    octets       of all retained blocks
    cached       blocks in memory, by their first offset, with `cached_octets`
    cached_max   octets that should be in memory at most; 0: as much as all logs together may have
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
        """The end of what readers may see: it would be there after a crash; a log in memory is all there anyway."""
        return self.durable_end if self.durable else self.end

    def append(self, format: u8, exchange: bytes, key: bytes, properties: bytes, body: bytes) -> None:
        """Add one record to the block being filled."""
        self.writer.append(format, exchange, key, properties, body)

    def append_annotated(
        self, format: u8, exchange: bytes, key: bytes, properties: bytes, body: bytes, annotations: bytes
    ) -> None:
        """Append a record that may have annotations."""
        self.writer.append_annotated(format, exchange, key, properties, body, annotations)

    def seal(self, now_us: i64) -> Block | None:
        """The block of all that was appended since the last, None if nothing was; a durable log's goes to the store."""
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
        """Take in a sealed block that will stand at this position of the file."""
        octets = block.octets()
        self.add(block.base, block.count, i64(file.number), position, octets, block.timestamp_us(0))
        file.blocks += 1
        file.octets += octets
        self.cache.add(self, block)

    def add_stored(self, base: i64, count: i64, file: BlockFile, position: i64, octets: i64, stamp_us: i64) -> None:
        """Take in a block that recovery found on the disk."""
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
        """Index entry of the first retained block that ends after `offset`; the index's size if there is none."""
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
        """The block that holds the first record at or after `offset` for consumers; None if there is none yet.

        Raises DamagedBlock if the disk does not give back what was written.
        """
        at = self.find_kept(max(offset, self.start))
        return None if at < 0 else self.load(at)

    def kept_block(self, offset: i64) -> Block | None:
        """The block as `block`, also of records that are kept for those who hold them; the cache stays as it is.

        Who reads a log from end to end would put out of the cache what consumers are about to need.
        """
        at = self.find_kept(offset)
        if at < 0:
            return None
        block = self.cached.get(int(self.index.bases[at]))
        return self.read(at) if block is None else block

    def kept_part(self, offset: i64, columns: i64) -> BlockPart | None:
        """Return the block as `kept_block`, of these columns only (core/stored/columns.py); no others are read."""
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
        """Index entry of the block with the first retained record at or after `offset`; -1 if there is none."""
        offset = max(offset, self.kept)
        if offset >= self.end:
            return -1
        at = self.find(offset)
        return at if at < self.index.size() else -1

    def load(self, at: i64) -> Block:
        """The block of an index entry, from memory or the disk."""
        block = self.cached.get(int(self.index.bases[at]))
        if block is None:
            block = self.read(at)
            self.cache.add(self, block)
        return block

    def read(self, at: i64) -> Block:
        """The block of an index entry, from the disk."""
        index = self.index
        number = i64(index.files[at])
        octets = i64(index.octets[at])
        base = index.bases[at]
        return self.files.read(number, index.positions[at], octets, self.queue, self.name, base, i64(index.counts[at]))

    def stretch(self, offset: i64, end: i64, octets_max: i64) -> Stretch | None:
        """The blocks of [offset, end) that stand back to back in one segment: at least one, then up to `octets_max`.

        None where the first of them is in no segment.
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
        """Octets of the blocks that end after an offset, up to the end."""
        octets = self.octets
        for below in range(self.first, self.find(offset)):
            octets -= i64(self.index.octets[below])
        return octets

    def offset_at(self, timestamp_us: i64) -> i64:
        """Offset of the first record for consumers whose timestamp is this or later; `end` if there is none."""
        return max(self.kept_offset_at(timestamp_us), self.start)

    def kept_offset_at(self, timestamp_us: i64) -> i64:
        """The offset as `offset_at`, also of records that are kept for those who hold them."""
        index = self.index
        low = self.first
        high = index.size()
        while low < high:
            middle = (low + high) >> 1
            if index.stamps[middle] >= timestamp_us:
                high = middle
            else:
                low = middle + 1
        # Block `low` begins at or after the time; the one before it may hold such a record too.
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
        """Forget the records below `floor`, which no consumer needs any more."""
        if floor <= self.start:
            return
        self.start = min(floor, self.end)
        self.drop_below(min(self.start, self.held))

    def hold_from(self, offset: i64) -> None:
        """Keep records from `offset` on, and none that only were held before; NOT_HELD for none at all."""
        self.held = offset
        self.drop_below(min(self.start, offset))

    def drop_below(self, floor: i64) -> None:
        """Forget the records below `floor`."""
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
        """Forget the block of an index entry, which stays in the arrays."""
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
        """The intervals from `offset` on that hold no records: these were left out when a file was rewritten."""
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
        """Return the end of the first blocks from `start` on that are over a limit (0: no limit); `start` if none is.

        start  the first record that counts; -1: that of the log

        Only what is on the disk goes. A block is over the age if all its records are.
        """
        index = self.index
        size = index.size()
        first = self.first
        kept = self.octets
        if start < 0:
            start = self.start
        if self.kept < start:  # what is held counts towards no limit
            first = self.find(start)
            kept = self.octets_from(start)
        at = first
        while at < size and index.end(at) <= self.durable_end:
            over = octets > 0 and kept > octets
            if not over and messages > 0:
                over = self.end - index.end(at) >= messages
            if not over and age_us > 0:
                # Records of one block may be of many turns, up to the first of the next block.
                latest = index.stamps[at + 1] if at + 1 < size else self.stamp_us
                over = latest < now_us - age_us
            if not over:
                break
            kept -= i64(index.octets[at])
            at += 1
        return start if at == first else index.end(at - 1)

    def entries_in(self, number: i64) -> BlockIndex:
        """A copy of the index entries of one file."""
        index = self.index
        size = index.size()
        low = self.first
        # WAL blocks follow all segments, and WAL files follow each other: a later one ends the search.
        while low < size and i64(index.files[low]) != number and (number < 0 or i64(index.files[low]) < number):
            low += 1
        high = low
        while high < size and i64(index.files[high]) == number:
            high += 1
        return index.part(low, high)

    def replace(self, first: i64, end: i64, rewritten: BlockIndex) -> None:
        """The blocks with offsets in [first, end) were rewritten: take the new ones into the index in their stead."""
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
        """Take over the WAL's notes of the log beyond its blocks.

        What was kept below `start` stays so until `hold_from` says who holds it.
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
        """First offset at or after this one that a block begins with or holds."""
        at = self.find(offset)
        return self.index.bases[at] if at < self.index.size() else self.end

    def clear(self) -> None:
        """Forget every block: the log is dropped."""
        for at in range(self.first, self.index.size()):
            self.drop(at)
        self.index = BlockIndex()
        self.first = 0
        self.start = self.end
        self.kept = self.end
        self.cached = {}
