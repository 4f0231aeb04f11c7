"""Replicated stores on real files for tests: one that leads, and those that follow it."""

from __future__ import annotations

from pathlib import Path

from forebay.core.errors import DiskFull
from forebay.core.ports import Disk
from forebay.log.folder.inventory import read_inventory
from forebay.log.frame import Frame, FrameEntry
from forebay.log.recovery.recovery import WalReader
from forebay.log.replication.mirror import Mismatch
from forebay.log.shipment import Shipment
from forebay.log.store import Store, StoreOptions
from forebay.log.wal import FOLDER
from tests.stores import SMALL, Opened, SmallDisk, TestClock, bodies

State = tuple[dict[int, dict[int, bytes]], list[FrameEntry]]
OCTETS_MAX = 1 << 20


class Leading(Opened):
    """A replicated store that leads, alone in its group where a test does not hold back what is committed."""

    def __init__(self, folder: Path, queues: list[int], epoch: int, options: StoreOptions = SMALL) -> None:
        self.clock = TestClock()
        self.disk = SmallDisk(str(folder))
        self.store = Store(self.disk, self.clock, options, True)
        self.recovery = self.store.open()
        self.begin(queues, epoch)

    def begin(self, queues: list[int], epoch: int) -> None:
        self.logs = {queue: self.store.create_log(queue, f"q{queue}", True) for queue in queues}
        self.store.start(self.recovery.entries, epoch)

    def write(self) -> int:
        """Everything to the disk; the number of the last frame there."""
        while (commit := self.store.flush()) is not None:
            commit.run()
            self.store.written(commit)
        return self.store.on_disk

    def sync(self) -> None:
        self.store.commit_to(self.write())

    def full_file(self, queue: int, records: int) -> None:
        """A WAL file with so many records, behind which another begins."""
        for number in range(records):
            self.publish(queue, b"%d" % number)
        assert self.store.rotate([])
        self.write()


class Following:
    """A store that follows."""

    def __init__(self, folder: Path, options: StoreOptions = SMALL, clock: TestClock | None = None) -> None:
        self.folder = folder
        self.clock = clock or TestClock()
        self.disk = SmallDisk(str(folder))
        self.open(self.disk, options)

    def open(self, disk: Disk, options: StoreOptions = SMALL) -> None:
        """Follow on what the disk holds."""
        self.store = Store(disk, self.clock, options, True)
        self.store.open()
        self.store.follow()

    def take(self, prev: tuple[int, int], shipments: list[Shipment]) -> Mismatch | None:
        """`prev`: epoch and lsn."""
        return self.store.take(prev[1], prev[0], shipments)

    def write(self) -> int:
        """All that was taken to the disk; the number of the last frame there."""
        while (commit := self.store.commit()) is not None:
            try:
                commit.run()
            except DiskFull:
                self.store.not_written(commit)
                raise
            self.store.written(commit)
        return self.store.on_disk

    def fetch(self, leader: Store, octets_max: int = OCTETS_MAX) -> Mismatch | None:
        """Take what the leader has behind the last frame that both have, and write it."""
        lsn = last_common(leader.runs(), self.store.runs())
        while lsn < leader.end()[1]:
            shipments = leader.frames_from(lsn + 1, octets_max)
            assert shipments, f"no frames from {lsn + 1}"
            refused = self.take((leader.epoch_of(lsn) or 0, lsn), shipments)
            if refused is not None:
                return refused
            lsn = int(shipments[-1].last)
        self.write()
        return None

    def crash(self) -> None:
        self.disk.close_all()

    def lead(self, queues: list[int], epoch: int) -> Leading:
        """Take over."""
        self.write()
        leading = Leading.__new__(Leading)
        leading.clock, leading.disk, leading.store = self.clock, self.disk, self.store
        leading.recovery = self.store.recovery()
        leading.begin(queues, epoch)
        return leading


def last_common(ours: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]]) -> int:
    """The last lsn at which both logs have the same epoch; 0 where they have none."""
    spans = {epoch: (first, last) for epoch, first, last in ours}
    for epoch, first, last in theirs:
        if epoch in spans and min(last, spans[epoch][1]) >= max(first, spans[epoch][0]):
            return min(last, spans[epoch][1])
    return 0


def wal_files(folder: Path) -> dict[str, bytes]:
    """Octets of the WAL files by name, without what is only reserved."""
    return {path.name: path.read_bytes().rstrip(b"\0") for path in sorted((folder / FOLDER).glob("*.wal"))}


def state_of(folder: Path) -> State:
    """The state to which a store of this folder comes."""
    disk = SmallDisk(str(folder))
    try:
        recovery = Store(disk, TestClock(), SMALL, read_inventory(disk) is not None).open()
        return {queue: bodies(log) for queue, log in recovery.logs.items() if log.end}, list(recovery.entries)
    finally:
        disk.close_all()


def frames(folder: Path) -> list[Frame]:
    """All that is in the write-ahead log."""
    disk = SmallDisk(str(folder))
    found: list[Frame] = []
    names = disk.list(FOLDER)
    for name in names:
        if name.endswith(".wal"):
            path = f"{FOLDER}/{name}"
            reader = WalReader(disk, path, disk.open(path, False), int(name[:-4]), name == names[-1])
            while (frame := reader.next()) is not None:
                found.append(frame)
    disk.close_all()
    return found
