"""Stores on real files for tests: a clock that stands still until told, and shorthands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from forebay.core.errors import DiskFull, StorageError
from forebay.core.ports import Clock
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.log.store import FrameEntry, Liveness, Recovery, Store, StoreOptions
from forebay.server.system.disk import DataDisk, Parts

SMALL = StoreOptions(
    wal_octets_max=8192,
    wal_chunk_octets=4096,
    settle_margin_octets=1024,
    segment_octets_max=16384,
    cache_octets_max=4096,
    rewrite_age_us=0,
)
NO_LIMIT = 1 << 60


class TestClock(Clock):
    """A clock that moves only when a test moves it."""

    __test__ = False

    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000

    def now_us(self) -> int:
        return self.us


class PowerCut(StorageError):
    """The test stops everything here."""


class SmallDisk(DataDisk):
    """Real files, on a disk that has room for `octets_max` octets and does `changes_max` more changes."""

    made: WeakSet[SmallDisk] = WeakSet()

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.made.add(self)
        self.octets_max = NO_LIMIT
        self.changes_max = 1 << 60

    def used(self) -> int:
        return sum(os.path.getsize(path) for path in Path(self.root).rglob("*") if path.is_file())

    def check(self, more: int) -> None:
        if more > 0 and self.octets_max < NO_LIMIT and self.used() + more > self.octets_max:
            raise DiskFull(f"{self.root}: no room for {more} octets")

    def change(self) -> None:
        self.changes_max -= 1
        if self.changes_max < 0:
            raise PowerCut("power cut")

    def rename(self, old: str, new: str) -> None:
        self.change()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.change()
        super().remove(path)

    def truncate(self, handle: int, octets: int) -> None:
        self.change()
        super().truncate(handle, octets)

    def make_folder(self, folder: str) -> None:
        self.change()
        super().make_folder(folder)

    def reserve(self, handle: int, octets: int) -> None:
        self.change()
        self.check(octets - self.size(handle))
        super().reserve(handle, octets)

    def pwrite(self, handle: int, parts: Parts, position: int) -> None:
        self.change()
        self.check(position + sum(map(len, parts)) - self.size(handle))
        super().pwrite(handle, parts, position)


class Everything(Liveness):
    """Wants every record that its log retains, but for those named."""

    def __init__(self) -> None:
        self.settled: dict[int, set[int]] = {}

    def live(self, queue: int, first: int, end: int) -> list[tuple[int, int]]:
        settled = self.settled.get(queue, set())
        out: list[tuple[int, int]] = []
        for offset in range(first, end):
            if offset in settled:
                continue
            if out and out[-1][1] == offset:
                out[-1] = (out[-1][0], offset + 1)
            else:
                out.append((offset, offset + 1))
        return out


class Opened:
    """A store that is open on a folder, its logs by queue number, and what recovery found."""

    def __init__(
        self,
        folder: Path,
        queues: list[int],
        options: StoreOptions = SMALL,
        checkpoint: list[FrameEntry] | None = None,
        clock: TestClock | None = None,
    ) -> None:
        self.clock = clock or TestClock()
        self.disk = SmallDisk(str(folder))
        self.store = Store(self.disk, self.clock, options)
        try:
            self.recovery: Recovery = self.store.open()
        except BaseException:
            self.disk.close_all()
            raise
        self.logs = {queue: self.store.create_log(queue, f"q{queue}", True) for queue in queues}
        self.store.start(self.recovery.entries if checkpoint is None else checkpoint)

    def publish(self, queue: int, *bodies: bytes) -> Block:
        """Append records as one block; not synced yet."""
        log = self.logs[queue]
        for body in bodies:
            log.append(2, b"amq.topic", b"a/b", b"", body)
        block = log.seal(self.clock.now_us())
        assert block is not None
        assert self.store.reserve(block.octets() + 200)
        self.store.append(log, block)
        return block

    def sync(self) -> None:
        """Everything to the disk."""
        while (commit := self.store.flush()) is not None:
            commit.run()
            self.store.synced(commit)

    def housekeep(self, liveness: Liveness) -> bool:
        """One piece of housekeeping; whether there was any. Each second begins with a flush, as in a broker."""
        job = None
        for _ in range(2):  # what one second notes the next may do
            self.sync()
            job = job or self.store.plan(liveness, self.clock.now_us())
        if job is None:
            return False
        job.run()
        self.store.done(job)
        return True

    def close(self) -> None:
        self.store.close()
        self.disk.close_all()

    def crash(self) -> None:
        """Leave the files as they are."""
        self.disk.close_all()


@contextmanager
def disks_closed() -> Iterator[None]:
    """Close what is opened meanwhile: `select`, which clients of later tests use, takes no handle above 1,023."""
    before = set(SmallDisk.made)
    yield
    for disk in set(SmallDisk.made) - before:
        disk.close_all()


def bodies(log: QueueLog) -> dict[int, bytes]:
    """Every retained record's body by offset."""
    out: dict[int, bytes] = {}
    offset = log.start
    while (block := log.block(offset)) is not None:
        for index in range(block.count):
            if block.base + index >= log.start:
                out[int(block.base + index)] = block.body(index)
        offset = block.end
    return out


def copied(folder: Path, to: Path) -> Path:
    """The files as they are now, elsewhere."""
    shutil.copytree(folder, to)
    return to
