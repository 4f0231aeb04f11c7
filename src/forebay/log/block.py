"""The block: a run of records of one queue, the unit that is written, read, cached and sent.

One block, little-endian; every part starts at a multiple of 8, padded with zeros:

     0  4  magic "FBK2"
     4  4  CRC32C of the octets from 8 to the end
     8  4  octets of the whole block, a multiple of 8
    12  4  count n of records, >= 1
    16  8  offset of the first record; the others follow without a gap
    24  8  timestamp of the first record, microseconds since 1970-01-01 UTC
    32  4  octets of all exchanges
    36  4  octets of all routing keys
    40  4  octets of all properties
    44  4  octets of all bodies
    48  4  octets of all annotations
    52  4  zeros
    56  8n timestamps, i64
        n  formats, u8 (core/message.py)
       then five columns: exchange, routing key, properties, annotations, body; each
           4(n+1)  i32 offsets into the column's octets: 0, end of record 0, end of record 1, ...
           octets  of all records, back to back

A block of a segment has a head of 88 octets, so that a reader of some columns can read and check these alone:

     0  4  magic "FBK3"
     4     as above, to octet 55: these 32 octets more count neither in the block's checksum nor in its length there
    56  4  CRC32C of the timestamps
    60  4  ... of the formats; from here on with the column's padding
    64  4  ... of the exchanges: their offsets and their octets
    68  4  ... of the routing keys
    72  4  ... of the properties
    76  4  ... of the annotations; 0 where there are none
    80  4  ... of the bodies
    84  4  CRC32C of the octets 0 to 83
    88     as from octet 56 on above

The write-ahead log's small blocks of a turn have a single checksum, because one per column would cost too much there.

Annotations are the broker's own fields of a record (message/annotations.py). Few records have any. A block without
annotations has no column for them.

Columns have offsets instead of lengths, and alignment, so that a reader can pass them to Apache Arrow without a copy.
In memory a block is its head and its `data` (all octets after the head), so that sealing copies each octet once.
If the block is one record with a long body, `data` ends before the body. The body is `tail` and is never copied.
"""

from __future__ import annotations

from typing import Final, final

from crc32c import crc32c
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from forebay.core.ports import Disk

MAGIC: Final = b"FBK2"
HEAD_OCTETS: Final = 56
SUMMED_MAGIC: Final = b"FBK3"
SUMMED_HEAD_OCTETS: Final = 88  # no block is shorter than that
SUMS_AT: Final = 56
HEAD_SUM_AT: Final = 84
BLOCK_OCTETS_MAX: Final = 1 << 28  # readers refuse longer blocks; writers seal long before
LONG_OCTETS: Final = 1 << 20  # bodies of this length or more are copied only once, into the block, or not at all
ZEROS: Final = b"\0\0\0\0\0\0\0\0"
RECORD_OCTETS: Final = 8 + 1 + 4 * 4  # its timestamp, its format, its offsets into four columns
OBJECT_OCTETS: Final = 400  # memory of a cached block beside its data, for budgets


class BadBlock(ValueError):
    """The bytes are not a whole, undamaged block."""


def padding(octets: i64) -> i64:
    """Return how many zeros follow `octets` bytes up to a multiple of 8."""
    return -octets & 7


@final
class Block:
    """A sealed, immutable run of records.

    head   the block's first 56 or 88 bytes; empty for a block that never goes to a disk
    data   all bytes after the head, without `tail` and its padding
    tail   the body of its only record, if that is long
    base   offset of the first record
    count  number of records
    annotated  at least one record has annotations

    `annotations_at` and `annotations_octets_at` mean nothing in a block without annotations.
    """

    def __init__(
        self,
        head: bytes,
        data: bytes,
        base: i64,
        count: i64,
        exchanges: i64,
        keys: i64,
        properties: i64,
        tail: bytes = b"",
        annotations: i64 = 0,
    ) -> None:
        self.head = head
        self.data = data
        self.tail = tail
        self.base: i64 = base
        self.count: i64 = count
        self.end: i64 = base + count
        offsets = 4 * (count + 1)
        offsets += padding(offsets)
        # Positions in `data` of each column's offsets and of its octets.
        self.formats_at: i64 = 8 * count
        self.exchange_at: i64 = self.formats_at + count + padding(count)
        self.exchange_octets_at: i64 = self.exchange_at + offsets
        self.key_at: i64 = self.exchange_octets_at + exchanges + padding(exchanges)
        self.key_octets_at: i64 = self.key_at + offsets
        self.properties_at: i64 = self.key_octets_at + keys + padding(keys)
        self.properties_octets_at: i64 = self.properties_at + offsets
        self.annotated = annotations > 0
        self.annotations_at: i64 = self.properties_octets_at + properties + padding(properties)
        self.annotations_octets_at: i64 = self.annotations_at + offsets
        self.body_at: i64 = self.annotations_at
        if annotations:
            self.body_at = self.annotations_octets_at + annotations + padding(annotations)
        self.body_octets_at: i64 = self.body_at + offsets

    def octets(self) -> i64:
        """Return the length of the whole block, head included."""
        head: i64 = len(self.head)
        tail: i64 = len(self.tail)
        return (head or HEAD_OCTETS) + len(self.data) + tail + padding(tail)

    def parts(self) -> list[bytes]:
        """Return all bytes after the head, as they stand in a file."""
        tail = self.tail
        return [self.data, tail, ZEROS[: padding(len(tail))]] if tail else [self.data]

    def timestamp_us(self, index: i64) -> i64:
        return read_i64_le(self.data, 8 * index)

    def format(self, index: i64) -> i64:
        return i64(self.data[self.formats_at + index])

    def exchange(self, index: i64) -> bytes:
        return self.cell(self.exchange_at, self.exchange_octets_at, index)

    def routing_key(self, index: i64) -> bytes:
        return self.cell(self.key_at, self.key_octets_at, index)

    def properties(self, index: i64) -> bytes:
        return self.cell(self.properties_at, self.properties_octets_at, index)

    def annotations(self, index: i64) -> bytes:
        return self.cell(self.annotations_at, self.annotations_octets_at, index) if self.annotated else b""

    def body(self, index: i64) -> bytes:
        return self.tail or self.cell(self.body_at, self.body_octets_at, index)

    def body_span(self, index: i64, count: i64) -> i64:
        """Return the total bytes of the bodies of `count` records from `index` on."""
        at = self.body_at + 4 * index
        return i64(read_i32_le(self.data, at + 4 * count)) - i64(read_i32_le(self.data, at))

    def span(self, index: i64, count: i64) -> i64:
        """Return the bytes of `count` records from `index` on in all columns, without head and padding."""
        octets = count * RECORD_OCTETS
        for column in (self.exchange_at, self.key_at, self.properties_at, self.body_at):
            octets += self.column_span(column, index, count)
        if self.annotated:
            octets += 4 * count + self.column_span(self.annotations_at, index, count)
        return octets

    def column_span(self, offsets_at: i64, index: i64, count: i64) -> i64:
        """Return the bytes of `count` records in the column whose offsets stand at `offsets_at`."""
        at = offsets_at + 4 * index
        return i64(read_i32_le(self.data, at + 4 * count)) - i64(read_i32_le(self.data, at))

    def length(self, offsets_at: i64) -> i64:
        """Return the length of the column whose offsets stand at `offsets_at`, without the `tail`."""
        return i64(read_i32_le(self.data, offsets_at + 4 * self.count))

    def cell(self, offsets_at: i64, octets_at: i64, index: i64) -> bytes:
        """Return one value of the column whose offsets and bytes stand at these positions of `data`."""
        data = self.data
        at = offsets_at + 4 * index
        return data[octets_at + i64(read_i32_le(data, at)) : octets_at + i64(read_i32_le(data, at + 4))]


def block_octets(head: bytes) -> int:
    """Return the length of the block that begins with these bytes, 56 or more. Raises BadBlock if none does."""
    if len(head) < HEAD_OCTETS or (head[:4] != MAGIC and head[:4] != SUMMED_MAGIC):
        raise BadBlock("no block starts here")
    octets = i64(read_i32_le(head, 8))
    if octets < HEAD_OCTETS or octets > BLOCK_OCTETS_MAX or octets & 7:
        raise BadBlock(f"a block of {octets} octets cannot be")
    return int(octets + head_octets(head) - HEAD_OCTETS)


def head_octets(octets: bytes) -> i64:
    """Return the length of the head of the block that begins with these bytes."""
    return SUMMED_HEAD_OCTETS if octets[:4] == SUMMED_MAGIC else HEAD_OCTETS


def tail_octets(head: bytes) -> int:
    """Return the length of the `tail` of the block with this head, or 0 if it has none."""
    bodies = i64(read_i32_le(head, 44))
    return int(bodies) if read_i32_le(head, 12) == 1 and bodies >= LONG_OCTETS else 0


def parse_block(head: bytes, data: bytes, tail: bytes = b"") -> Block:
    """Return the block of this head and data. Raises BadBlock unless every byte is as it was written.

    tail  the body without its padding, if it was read separately
    """
    octets = block_octets(head)
    found = len(head) + len(data) + len(tail) + int(padding(len(tail)))
    if found != octets or len(head) != head_octets(head):
        raise BadBlock(f"block of {octets} octets has only {found}")
    if checksum(head[8:HEAD_OCTETS], data, tail) != i64(read_i32_le(head, 4)) & 0xFFFFFFFF:
        raise BadBlock("checksum does not match")
    check_head(head)
    return trusted_block(head, data, tail)


def parse_whole(octets: bytes) -> Block:
    """Parse a block as `parse_block` does, from all its bytes in one piece."""
    head = head_octets(octets)
    return parse_block(octets[:head], octets[head:])


def check_head(head: bytes) -> None:
    """Check the head's own checksum, if it has one. Raises BadBlock if it does not match."""
    if head[:4] == SUMMED_MAGIC and crc32c(head[:HEAD_SUM_AT]) != i64(read_i32_le(head, HEAD_SUM_AT)) & 0xFFFFFFFF:
        raise BadBlock("checksum of the head does not match")


def checksum(rest_of_head: bytes, data: bytes, tail: bytes) -> i64:
    """Return the CRC32C of a block from byte 8 on."""
    sum = crc32c(data, crc32c(rest_of_head))
    if tail:
        sum = crc32c(ZEROS[: padding(len(tail))], crc32c(tail, sum))
    return i64(sum)


def trusted_block(head: bytes, data: bytes, tail: bytes = b"") -> Block:
    """Return the block of bytes whose checksum the caller has checked. Raises BadBlock if the lengths do not fit."""
    count = i64(read_i32_le(head, 12))
    exchanges = i64(read_i32_le(head, 32))
    keys = i64(read_i32_le(head, 36))
    properties = i64(read_i32_le(head, 40))
    bodies = i64(read_i32_le(head, 44))
    annotations = i64(read_i32_le(head, 48))
    if count < 1 or exchanges < 0 or keys < 0 or properties < 0 or annotations < 0 or bodies < 0:
        lengths = f"{exchanges}, {keys}, {properties}, {annotations}, {bodies}"
        raise BadBlock(f"block of {count} records with columns of {lengths} octets")
    block = Block(head, data, read_i64_le(head, 16), count, exchanges, keys, properties, tail, annotations)
    if len(head) + block.body_octets_at + bodies + padding(bodies) != block.octets():
        raise BadBlock("column lengths do not add up to the block's")
    return block


def read_block(disk: Disk, handle: int, position: int, octets: int) -> Block:
    """Read and check the block of `octets` bytes at `position`. Raises BadBlock if there is none.

    Reads in parts, because cutting the head or a long body off a single read would copy all the rest.
    """
    head = disk.pread(handle, SUMMED_HEAD_OCTETS, position)
    start = int(head_octets(head))
    head = head[:start]
    last = tail_octets(head) if len(head) == start else 0
    size = octets - start - last - int(padding(last))
    if size < 0:
        raise BadBlock(f"block of {octets} octets with a body of {last}")
    data = disk.pread(handle, size, position + start)
    tail = disk.pread(handle, last, position + start + size) if last else b""
    return parse_block(head, data, tail)


def check_columns(block: Block) -> None:
    """Check a peer's block. Raises BadBlock unless the offsets of every column ascend from 0 to its length."""
    check_offsets(block, block.exchange_at, 32)
    check_offsets(block, block.key_at, 36)
    check_offsets(block, block.properties_at, 40)
    check_offsets(block, block.body_at, 44)
    if block.annotated:
        check_offsets(block, block.annotations_at, 48)


def check_offsets(block: Block, offsets_at: i64, length_at: i64) -> None:
    """Check the offsets of the column whose length stands at `length_at` of the head. Raises BadBlock."""
    data = block.data
    last: i64 = 0
    good = read_i32_le(data, offsets_at) == 0
    for index in range(1, block.count + 1):
        offset = i64(read_i32_le(data, offsets_at + 4 * index))
        good = good and offset >= last
        last = offset
    if not good or last != i64(read_i32_le(block.head, length_at)):
        raise BadBlock("the offsets of a column do not ascend to its length")


@final
class ColumnWriter:
    """One column of variable length being filled.

    octets  the end of the column; the `before` bytes that precede it are in `parts`
    """

    def __init__(self) -> None:
        self.offsets = BytesWriter()
        self.octets = BytesWriter()
        self.parts: list[bytes] = []
        self.before: i64 = 0
        write_i32_le(self.offsets, 0)

    def append(self, value: bytes) -> None:
        octets = self.octets
        octets.write(value)
        write_i32_le(self.offsets, i32(self.before + len(octets)))

    def append_long(self, value: bytes) -> None:
        """Append a long value without copying it before the block is sealed."""
        octets = self.octets
        if len(octets):
            self.parts.append(octets.getvalue())
            self.before += len(octets)
            octets.truncate(0)
        self.parts.append(value)
        self.before += len(value)
        write_i32_le(self.offsets, i32(self.before))

    def size(self) -> i64:
        """Return the total bytes of all values."""
        return self.before + len(self.octets)

    def append_range(self, data: bytes, offsets_at: i64, octets_at: i64, first: i64, count: i64) -> None:
        """Append `count` values of a sealed block's column, from number `first` on."""
        at = offsets_at + 4 * first
        start = i64(read_i32_le(data, at))
        shift = self.size() - start
        offsets = self.offsets
        for index in range(count):
            write_i32_le(offsets, i32(i64(read_i32_le(data, at + 4 * (index + 1))) + shift))
        self.octets.write(data[octets_at + start : octets_at + i64(read_i32_le(data, at + 4 * count))])

    def append_all(self, data: bytes, offsets_at: i64, octets_at: i64, count: i64) -> None:
        """Append all values of a sealed block's column. Long columns are copied once, when the new block is sealed."""
        octets = i64(read_i32_le(data, offsets_at + 4 * count))
        if octets < LONG_OCTETS:
            self.append_range(data, offsets_at, octets_at, 0, count)
            return
        shift = self.size()
        if shift:
            offsets = self.offsets
            for index in range(1, count + 1):
                write_i32_le(offsets, i32(i64(read_i32_le(data, offsets_at + 4 * index)) + shift))
        else:
            self.offsets.write(data[offsets_at + 4 : offsets_at + 4 * (count + 1)])
        if len(self.octets):
            self.parts.append(self.octets.getvalue())
            self.octets.truncate(0)
        self.parts.append(data[octets_at : octets_at + octets])
        self.before = shift + octets

    def take_alone(self) -> bytes:
        """Remove and return the column's only value if it is long, leaving an empty one. Else return no bytes."""
        if len(self.parts) != 1 or len(self.octets):
            return b""
        value = self.parts.pop()
        self.before = 0
        return value

    def take(self) -> list[bytes]:
        """Return the column as it stands in a block, and reset the writer."""
        offsets = self.offsets.getvalue()
        octets = self.octets.getvalue()
        end = padding(self.size())
        parts = self.parts
        self.offsets.truncate(4)
        self.octets.truncate(0)
        if parts:
            self.parts = []
            self.before = 0
        return [offsets, ZEROS[: padding(len(offsets))], *parts, octets, ZEROS[:end]]


@final
class AnnotationWriter:
    """The column of annotations being filled. Records without annotations are added only before one that has some."""

    def __init__(self) -> None:
        self.column = ColumnWriter()
        self.records: i64 = 0

    def fill(self, count: i64) -> None:
        """Add empty annotations until the column has `count` records."""
        column = self.column
        end = i32(column.size())
        while self.records < count:
            write_i32_le(column.offsets, end)
            self.records += 1

    def append(self, index: i64, annotations: bytes) -> None:
        """Append the annotations of the record with this index in the block."""
        self.fill(index)
        self.column.append(annotations)
        self.records += 1

    def append_range(self, index: i64, block: Block, first: i64, count: i64) -> None:
        """Append the annotations of `count` records of a sealed block; the first gets `index` in the new block."""
        self.fill(index)
        self.column.append_range(block.data, block.annotations_at, block.annotations_octets_at, first, count)
        self.records += count


@final
class BlockWriter:
    """Collects the records appended to one log until they are sealed into a block."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.timestamps = BytesWriter()  # stays empty while all records are of the moment of sealing
        self.formats = BytesWriter()
        self.exchanges = ColumnWriter()
        self.keys = ColumnWriter()
        self.properties = ColumnWriter()
        self.bodies = ColumnWriter()
        self.annotations: AnnotationWriter | None = None  # made for the first record that has any

    def append(self, format: u8, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes) -> None:
        """Append a record. Its timestamp will be the time of sealing."""
        self.formats.append(format)
        self.exchanges.append(exchange)
        self.keys.append(routing_key)
        self.properties.append(properties)
        if len(body) < LONG_OCTETS:
            self.bodies.append(body)
        else:
            self.bodies.append_long(body)
        self.count += 1

    def append_annotated(
        self, format: u8, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes, annotations: bytes
    ) -> None:
        """Append a record that may have annotations."""
        if annotations:
            self.annotate().append(self.count, annotations)
        self.append(format, exchange, routing_key, properties, body)

    def annotate(self) -> AnnotationWriter:
        """Return the column of annotations, created if the block has none yet."""
        column = self.annotations
        if column is None:
            column = self.annotations = AnnotationWriter()
        return column

    def append_range(self, block: Block, first: i64, count: i64) -> None:
        """Append records of another block with their timestamps. Do not mix with `append` in one block."""
        data = block.data
        self.timestamps.write(data[8 * first : 8 * (first + count)])
        at = block.formats_at + first
        self.formats.write(data[at : at + count])
        if block.annotated:
            self.annotate().append_range(self.count, block, first, count)
        self.exchanges.append_range(data, block.exchange_at, block.exchange_octets_at, first, count)
        self.keys.append_range(data, block.key_at, block.key_octets_at, first, count)
        self.properties.append_range(data, block.properties_at, block.properties_octets_at, first, count)
        if block.tail:
            self.bodies.append_long(block.tail)
        else:
            self.bodies.append_range(data, block.body_at, block.body_octets_at, first, count)
        self.count += count

    def append_all(self, block: Block, formats: bytes) -> None:
        """Append all records of another block with these formats. Their timestamps will be the time of sealing."""
        data = block.data
        count = block.count
        self.formats.write(formats)
        if block.annotated:
            self.annotate().append_range(self.count, block, 0, count)
        self.exchanges.append_all(data, block.exchange_at, block.exchange_octets_at, count)
        self.keys.append_all(data, block.key_at, block.key_octets_at, count)
        self.properties.append_all(data, block.properties_at, block.properties_octets_at, count)
        if block.tail:
            self.bodies.append_long(block.tail)
        else:
            self.bodies.append_all(data, block.body_at, block.body_octets_at, count)
        self.count += count

    def octets(self) -> i64:
        """Return the approximate length of the block if it were sealed now."""
        annotations: i64 = 0 if self.annotations is None else self.annotations.column.size() + 4 * self.count
        return (
            HEAD_OCTETS
            + 29 * self.count
            + annotations
            + self.exchanges.size()
            + self.keys.size()
            + self.properties.size()
            + self.bodies.size()
        )

    def seal(self, base: i64, now_us: i64, durable: bool) -> Block:
        """Return the block of all appended records, and reset the writer.

        base     offset of its first record
        now_us   timestamp of records that have none
        durable  whether the block gets a head; without one it cannot be written to a disk
        """
        count = self.count
        assert count > 0
        exchanges = self.exchanges.size()
        keys = self.keys.size()
        properties = self.properties.size()
        bodies = self.bodies.size()
        if len(self.timestamps):
            timestamps = self.timestamps.getvalue()
        else:
            stamp = BytesWriter()
            write_i64_le(stamp, now_us)
            timestamps = stamp.getvalue() * count
        assert len(timestamps) == 8 * count
        parts = [timestamps, self.formats.getvalue(), ZEROS[: padding(count)]]
        parts += self.exchanges.take()
        parts += self.keys.take()
        parts += self.properties.take()
        annotations: i64 = 0
        column = self.annotations
        if column is not None:
            annotations = column.column.size()
            if annotations:  # a range of a sealed block may have none: then the new block has no column for them
                column.fill(count)
                parts += column.column.take()
            self.annotations = None
        tail = self.bodies.take_alone() if count == 1 and bodies >= LONG_OCTETS else b""
        parts += self.bodies.take()
        data = b"".join(parts)
        self.timestamps.truncate(0)
        self.formats.truncate(0)
        self.count = 0
        head = b""
        if durable:
            head = make_head(data, base, count, exchanges, keys, properties, bodies, tail, annotations)
        return Block(head, data, base, count, exchanges, keys, properties, tail, annotations)


def make_head(
    data: bytes,
    base: i64,
    count: i64,
    exchanges: i64,
    keys: i64,
    properties: i64,
    bodies: i64,
    tail: bytes = b"",
    annotations: i64 = 0,
) -> bytes:
    """Return the first 56 bytes of a block, checksum included."""
    head = BytesWriter()
    last: i64 = len(tail)
    write_i32_le(head, i32(HEAD_OCTETS + len(data) + last + padding(last)))
    write_i32_le(head, i32(count))
    write_i64_le(head, base)
    write_i64_le(head, read_i64_le(data, 0))
    write_i32_le(head, i32(exchanges))
    write_i32_le(head, i32(keys))
    write_i32_le(head, i32(properties))
    write_i32_le(head, i32(bodies))
    write_i32_le(head, i32(annotations))
    write_i32_le(head, 0)
    rest = head.getvalue()
    crc = checksum(rest, data, tail)
    start = BytesWriter()
    write_i32_le(start, i32(crc - ((crc >> 31) << 32)))
    return MAGIC + start.getvalue() + rest
