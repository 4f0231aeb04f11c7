"""The content of the log files in order: frames with their blocks and notes, and segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from forebay.broker.internal_log import (
    DEDUPLICATION_LOG,
    DELAYED_LOG,
    LOGS_A_VHOST,
    MESSAGE_SESSIONS_LOG,
    RETAINED_LOG,
    SESSIONS_LOG,
    STAGING_LOG,
    VHOSTS_MAX,
    vhost_of_log,
)
from forebay.cli.log.files import damage_of
from forebay.cli.log.folder import ReadingDisk, Recovered
from forebay.core.errors import CorruptFile
from forebay.core.stored.entry_kinds import BROKER, CATALOG, CURSOR, HELD, INTAKE, INTERNAL, RETURNS, SETTLED, START
from forebay.log.folder.required import NUMBER, SPAN
from forebay.log.frame import CHECKPOINT, CLEAN, DROPPED, SEGMENTS, WALS, Frame, FrameEntry, parse_start
from forebay.log.recovery.recovery import WalReader
from forebay.log.segment import parse_segment, queue_folder
from forebay.log.wal import FOLDER, wal_path
from forebay.queue.source.pins import RELEASED

KINDS: Final = {
    START: "start",
    SETTLED: "settled",
    CURSOR: "cursor",
    CATALOG: "catalog",
    INTERNAL: "internal",
    BROKER: "broker",
    RETURNS: "returns",
    HELD: "held",
    INTAKE: "intake",
    SEGMENTS: "segments",
    WALS: "wals",
    DROPPED: "dropped",
}
INTERNALS: Final = {
    SESSIONS_LOG: "sessions",
    RETAINED_LOG: "retained",
    DELAYED_LOG: "delayed",
    DEDUPLICATION_LOG: "deduplication",
    STAGING_LOG: "staging",
    MESSAGE_SESSIONS_LOG: "message sessions",
}
SECRETS: Final = {"password", "hash"}
HEX_OCTETS: Final = 64  # printed of a note that has no decoder
WORD_OCTETS: Final = 8

Row = dict[str, Any]


class Dump:
    """The files of a folder as rows: each a file, a frame, a segment's block, or damage.

    names  vhost and name of queues by number, as far as they could be recovered
    queue  number of the only queue to include; None for all
    """

    def __init__(self, disk: ReadingDisk, names: dict[int, tuple[str, str]], queue: int | None) -> None:
        self.disk = disk
        self.names = names
        self.queue = queue
        self.damaged = False

    def rows(self, file: str | None, first_lsn: int) -> Iterator[Row]:
        """Yield a row for each file, frame, block and damage, segments first.

        file       path below the data folder of the only file to read; None for all
        first_lsn  first frame of the write-ahead log to return
        """
        for queue in sorted(int(name) for name in self.disk.list("queues") if name.isdigit()):
            for name in self.disk.list(queue_folder(queue)):
                path = f"{queue_folder(queue)}/{name}"
                if name.endswith(".seg") and file in {None, path} and self.queue in {None, queue}:
                    yield from self._segment(path)
        names = self.disk.list(FOLDER)
        numbers = [int(name[:-4]) for name in names if name.endswith(".wal") and name[:-4].isdigit()]
        for number in numbers:
            if file in {None, wal_path(number)}:
                yield from self._wal(number, number == numbers[-1], first_lsn)

    def _damage(self, error: CorruptFile) -> Row:
        self.damaged = True
        found = damage_of(self.disk, error)
        return {"row": "damage", "file": found.file, "position": found.position, "text": found.text}

    def _segment(self, path: str) -> Iterator[Row]:
        handle = self.disk.open(path, False)
        try:
            segment = parse_segment(self.disk, path, handle)
        except CorruptFile as error:
            yield self._damage(error)
            return
        finally:
            self.disk.close(handle)
        name = self.name_of(segment.queue)
        yield {"row": "file", "file": path, "kind": "segment", **name, "first": segment.first, "end": segment.end}
        for entry in segment.entries:
            yield {"row": "block", "file": path, **block_fields(name, entry.base, entry.count, entry)}

    def _wal(self, number: int, last: bool, first_lsn: int) -> Iterator[Row]:
        path = wal_path(number)
        handle = self.disk.open(path, False)
        try:
            reader = WalReader(self.disk, path, handle, number, last)
            octets = self.disk.size(handle)
            yield {
                "row": "file",
                "file": path,
                "kind": "wal",
                "octets": octets,
                "number": number,
                "salt": reader.head.salt,
                "first_lsn": reader.head.first_lsn,
            }
            for found in self._frames(reader):
                if isinstance(found, CorruptFile):
                    yield self._damage(found)
                elif found.lsn >= first_lsn:
                    row = self._frame(path, int(reader.position - found.octets), found)
                    if self.queue is None or row["blocks"] or row["notes"]:
                        yield row
        except CorruptFile as error:
            yield self._damage(error)
        finally:
            self.disk.close(handle)

    def _frames(self, reader: WalReader) -> Iterator[Frame | CorruptFile]:
        """Yield the frames of a WAL file to its end, also those behind damage. Damage is yielded as an error."""
        while True:
            try:
                while (frame := reader.next()) is not None:
                    yield frame
            except CorruptFile as error:
                yield error
                found = reader.later_frame()
                if found >= 0:
                    after = reader.frame_at(found)
                    reader.pass_over(found, after.lsn, after.epoch)
                    continue
            return

    def _frame(self, path: str, position: int, frame: Frame) -> Row:
        """Return the row of a frame, with only the blocks and notes of the chosen queue."""
        blocks = [
            block_fields(self.name_of(int(each.queue)), int(each.base), int(each.count), each)
            for each in frame.blocks
            if self.queue in {None, int(each.queue)}
        ]
        notes = [self._note(each) for each in frame.entries if self.queue is None or self._is_about(each)]
        return {
            "row": "frame",
            "file": path,
            "position": position,
            "octets": int(frame.octets),
            "lsn": int(frame.lsn),
            "epoch": int(frame.epoch),
            "checkpoint": bool(frame.flags & CHECKPOINT),
            "clean": bool(frame.flags & CLEAN),
            "blocks": blocks,
            "notes": notes,
        }

    def _is_about(self, entry: FrameEntry) -> bool:
        return entry.queue == self.queue and entry.kind not in {CATALOG, BROKER}  # their `queue` is a vhost's number

    def _note(self, entry: FrameEntry) -> Row:
        about: Row = {} if entry.kind in {CATALOG, BROKER, WALS} else self.name_of(entry.queue)
        if entry.kind == CATALOG:
            about = {"vhost_number": entry.queue}
        if entry.group and entry.kind not in {CATALOG, BROKER}:
            about["group"] = entry.group
        kind = KINDS.get(entry.kind, str(entry.kind))
        return {"kind": kind, **about, "octets": len(entry.payload), **said(entry)}

    def name_of(self, queue: int) -> Row:
        """Return a log's number, with its queue and vhost, or the name of an internal log."""
        if queue in self.names:
            vhost, name = self.names[queue]
            return {"queue": queue, "vhost": vhost, "name": name}
        vhost_number = vhost_of_log(queue)
        if 0 <= vhost_number < VHOSTS_MAX and queue + LOGS_A_VHOST * vhost_number in INTERNALS:
            return {"queue": queue, "internal": INTERNALS[queue + LOGS_A_VHOST * vhost_number]}
        return {"queue": queue}


def names_in(recovered: Recovered | None) -> dict[int, tuple[str, str]]:
    """Return vhost and name of each queue, by its number."""
    if recovered is None:
        return {}
    return {
        int(queue.id): (vhost.name.decode("utf-8", "replace"), queue.name.decode("utf-8", "replace"))
        for vhost in recovered.vhosts.by_name.values()
        for queue in vhost.catalog.queues.values()
    }


def block_fields(name: Row, base: int, count: int, place: Any) -> Row:
    """Return the fields of a block: its queue, offsets, size, time, and position in a frame or segment."""
    return {
        **name,
        "first": base,
        "last": base + count - 1,
        "count": count,
        "octets": int(place.octets),
        "position": int(place.position),
        "stored_us": int(place.stamp_us),
    }


def said(entry: FrameEntry) -> Row:
    """Return the decoded content of a note. Returns its first bytes in hex if it has no decoder."""
    payload = entry.payload
    if entry.kind == START:
        kept, end, start = parse_start(payload)
        return {"kept": kept, "end": end, "start": start}
    if entry.kind in {CATALOG, BROKER}:
        return {"command": plain(msgspec.msgpack.decode(payload))}
    if entry.kind == SETTLED:
        return {"settled": [[first, end - 1] for first, end in SPAN.iter_unpack(payload)]}
    if entry.kind == SEGMENTS:
        return {"segments": [list(each) for each in SPAN.iter_unpack(payload)]}
    if entry.kind == WALS:
        return {"wals": [number for (number,) in NUMBER.iter_unpack(payload)]}
    if entry.kind == CURSOR:
        return {"committed": int.from_bytes(payload[-WORD_OCTETS:], "little", signed=True)}
    if entry.kind == HELD:
        offset, ttl_us = SPAN.unpack_from(payload)
        released = {"released": True} if offset == RELEASED else {"offset": offset, "ttl_us": ttl_us}
        return {"reader": payload[SPAN.size :].decode("utf-8", "replace"), **released}
    return {"hex": payload[:HEX_OCTETS].hex() + ("…" if len(payload) > HEX_OCTETS else "")} if payload else {}


def plain(value: object) -> object:
    """Return a catalog command as a JSON value, without passwords and hashes."""
    if isinstance(value, dict):
        return {
            str(plain(name)): "***" if plain(name) in SECRETS and each else plain(each) for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
