"""Annotations that consumers gave to records that came back. They are delivered with the records from then on.

Only a protocol's adapter reads the annotations (message/modified.py). Here they are bytes, which replace those that the
record had. Notes in the write-ahead log are among those of `attempts.py`, each with 24 bytes of annotations:

    offset, 0, count << 8 | 2   the first `count` bytes, which are in the next triple
    offset, 0, count << 8 | 3   the same, for the bytes behind those noted before
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64, u8

from forebay.log.block import Block, BlockWriter
from forebay.message.annotations import MODIFIED, with_annotation

NOTE_BYTES: Final = 24  # a triple of i64
FIRST_PART: Final = 2  # kinds of notes
NEXT_PART: Final = 3
KIND_BITS: Final = 8
RECORD_MAX: Final = 8192  # bytes of one record's annotations
GROUP_MAX: Final = 8 << 20  # bytes of memory for all annotations of one group
ENTRY_BYTES: Final = 120  # bytes of memory per record beside the annotations


@final
class ModifiedRecords:
    """The annotations of one group's records.

    by_offset  annotations by offset, until the record is settled
    octets     bytes of memory that they take
    """

    def __init__(self) -> None:
        self.by_offset: dict[int, bytes] = {}
        self.octets: i64 = 0

    def of(self, offset: i64) -> bytes:
        """Return the annotations of a record, or b"" if no consumer gave it any."""
        return self.by_offset.get(offset, b"")

    def keep(self, offset: i64, annotations: bytes, notes: BytesWriter) -> bool:
        """Keep and log the annotations of a record. Return False, with nothing done, if they are too large.

        annotations  all of them, with those that the record had
        """
        grown = self.octets + ENTRY_BYTES + i64(len(annotations))
        if len(annotations) > RECORD_MAX or grown > GROUP_MAX:
            return False
        self.put(offset, annotations)
        write_annotations(notes, offset, annotations)
        return True

    def put(self, offset: i64, annotations: bytes) -> None:
        self.forget(offset)
        self.by_offset[offset] = annotations
        self.octets += ENTRY_BYTES + i64(len(annotations))

    def forget(self, offset: i64) -> None:
        """Forget the annotations of a settled record."""
        gone = self.by_offset.pop(offset, None)
        if gone is not None:
            self.octets -= ENTRY_BYTES + i64(len(gone))

    def clear(self) -> None:
        """Forget all annotations."""
        self.by_offset.clear()
        self.octets = 0

    # ---- recovery

    def restore(self, offset: i64, kind: i64, part: bytes) -> None:
        """Apply one note of a record's annotations, in recovery."""
        before = self.of(offset) if kind == NEXT_PART else b""
        if len(before) + len(part) <= RECORD_MAX:
            self.put(offset, before + part)

    def prune(self, kept: dict[int, int]) -> None:
        """Forget the annotations of records that are not among the keys of `kept`."""
        for offset in list(self.by_offset):
            if offset not in kept:
                self.forget(offset)

    def snapshot(self, out: BytesWriter) -> None:
        """Append notes of all annotations."""
        for offset in sorted(self.by_offset):
            write_annotations(out, offset, self.by_offset[offset])


def write_annotations(out: BytesWriter, offset: i64, annotations: bytes) -> None:
    """Append the notes of one record's annotations."""
    at: i64 = 0
    kind: i64 = FIRST_PART
    while at < i64(len(annotations)):
        part = annotations[at : at + NOTE_BYTES]
        write_i64_le(out, offset)
        write_i64_le(out, 0)
        write_i64_le(out, i64(len(part)) << KIND_BITS | kind)
        out.write(part)
        out.write(bytes(NOTE_BYTES - len(part)))
        at += NOTE_BYTES
        kind = NEXT_PART


def annotated_block(block: Block, index: i64, annotations: bytes) -> Block:
    """Return a block with one record of another block, at the same offset and with these annotations."""
    made = BlockWriter()
    made.timestamps.write(block.data[8 * index : 8 * (index + 1)])
    made.append_annotated(
        u8(block.format(index)),
        block.exchange(index),
        block.routing_key(index),
        block.properties(index),
        block.body(index),
        with_annotation(block.annotations(index), MODIFIED, annotations),
    )
    return made.seal(block.base + index, 0, True)
