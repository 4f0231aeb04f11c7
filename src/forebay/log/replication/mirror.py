"""A follower's log: a copy of the leader's WAL files, byte for byte, and the state that their frames describe.

Frames are taken into memory, written to the disk as a leader's are, and applied to the logs once they are committed. A
truncation never goes below the committed frames, so it only has to undo what is in memory. Frames found when the folder
was opened are applied already. To truncate those, after this node led and was deposed, the folder is read again.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from forebay.core.errors import DiskFull, StorageError
from forebay.core.ports import Clock, Disk
from forebay.log.block_files import BlockFile
from forebay.log.frame import FILE_HEAD_OCTETS, FileHead
from forebay.log.logs import Logs
from forebay.log.planning import Planner
from forebay.log.recovery.opening import Opening
from forebay.log.recovery.replay import FrameReplay
from forebay.log.replication.incoming import (
    BadShipment,
    IncomingFrame,
    TakenFrame,
    TakenFrames,
    checked,
    frames_in,
    head_of,
)
from forebay.log.replication.outgoing import Walk, file_of, runs_of
from forebay.log.shipment import Shipment
from forebay.log.stored import StoreOptions
from forebay.log.wal import FOLDER, Commit, WalFile, spare_path, wal_path

COPIES: Final = "frames that are in segments by now would have to be cut"


class ForeignLog(StorageError):
    """The folder holds a log that is not of the node's cluster. The folder has to begin anew."""


@final
class Mismatch:
    """The reason why the store did not take frames.

    runs        (epoch, first LSN, last LSN) of each epoch in its own log, newest first
    why         text for people
    needs_copy  records of frames to truncate are in segments, so retries are useless: the folder has to begin anew
    """

    def __init__(self, runs: list[tuple[int, int, int]], why: str, needs_copy: bool = False) -> None:
        self.runs = runs
        self.why = why
        self.needs_copy = needs_copy


@final
class Cut:
    """A truncation of the files, made durable before anything is written behind it.

    file, tail  the last file that stays, and where it ends
    gone        files behind it, newest first; `run` closes them on the thread that writes to them
    lsn         of the last frame that stays, if `run` has to find `tail`; else -1
    """

    def __init__(self) -> None:
        self.file: WalFile | None = None
        self.tail = 0
        self.gone: list[WalFile] = []
        self.lsn = -1

    def run(self, disk: Disk) -> None:
        for wal in self.gone:
            handle = wal.blocks.handle
            if handle < 0:
                continue  # it was never created
            disk.close(handle)
            wal.blocks.handle = -1
            disk.remove(wal_path(wal.head.number) if wal.named else spare_path(wal.head.number))
        if self.gone:
            disk.sync_names(FOLDER)
        file = self.file
        if file is not None and file.blocks.handle >= 0:
            if self.lsn >= 0:
                walk = Walk(disk, file, self.lsn)
                self.tail = int(walk.position + walk.octets())
            disk.truncate(file.blocks.handle, self.tail)
            # A new leader's frames go to another file, whose sync would not make this truncation durable.
            disk.sync(file.blocks.handle)
            file.reserved = self.tail


class MirrorCommit(Commit):
    """Frames from the leader on their way to the disk, and a truncation before them.

    full     files that get no more frames
    rebuild  read the folder again after the truncation; `opening` is the result
    """

    def __init__(self, disk: Disk, options: StoreOptions, frames: list[TakenFrames], full: list[WalFile]) -> None:
        super().__init__(disk, list(frames), None)
        self.options = options
        self.full = full
        self.cut: Cut | None = None
        self.rebuild = False
        self.opening: Opening | None = None

    def run(self) -> None:
        """Truncate, then write the frames. Raises DiskFull after the truncation if there is no room for the frames."""
        if self.cut is not None:
            self.cut.run(self.disk)
            self.cut = None
        if self.rebuild:
            self.opening = Opening(self.disk, Logs(self.disk, self.options))
            self.opening.run()
        else:
            self.make_room()
            for frame in self.frames:
                self.write(frame)
            for file in self.full:
                self.disk.truncate(file.blocks.handle, file.tail)
                file.reserved = file.tail
        self.ran = True

    def is_plain(self) -> bool:
        if self.cut is not None or self.rebuild or self.full or len(self.frames) != 1:
            return False
        frame = self.frames[0]
        return frame.file.named and frame.end() <= frame.file.reserved

    def make_room(self) -> None:
        """Create the frames' files and reserve room. On DiskFull remove the files it created."""
        made: list[WalFile] = []
        try:
            for frame in self.frames:
                file = frame.file
                if file.blocks.handle < 0:
                    file.blocks.handle = self.disk.open(spare_path(file.head.number), True)
                    made.append(file)
                    self.disk.truncate(file.blocks.handle, 0)
                self.reserve(file, frame.end())
        except DiskFull:
            for file in made:
                self.disk.close(file.blocks.handle)
                file.blocks.handle = -1
                self.disk.remove(spare_path(file.head.number))
            raise

    def reserve(self, file: WalFile, need: int) -> None:
        if need <= file.reserved:
            return
        step = self.options.wal_chunk_octets
        try:
            self.disk.reserve(file.blocks.handle, -(-need // step) * step)
            file.reserved = -(-need // step) * step
        except DiskFull:
            self.disk.reserve(file.blocks.handle, need)
            file.reserved = need


class Mirror:
    """A follower's log.

    wals       oldest first; the same list as the store's
    end        lsn of the last frame taken; its epoch is `end_epoch`
    on_disk    lsn of the last frame on this disk that the leader has, too
    committed  lsn up to which the leader has committed
    applied    lsn of the last frame applied to the logs and entries; `opened`: that of the opened folder
    taken      frames after `applied`, in ascending order
    gathered   those of them that have not been given to the disk
    under_way  lsn of the last frame of the running commit that has not been truncated since
    full       files whose last frame is in `gathered`
    cut        truncation for the next commit; `rebuild`: the folder is read again after it
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        options: StoreOptions,
        planner: Planner,
        wals: list[WalFile],
        replay: FrameReplay,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.options = options
        self.planner = planner
        self.logs = replay.logs
        self.wals = wals
        self.replay = replay
        if wals:
            wals[-1].full = False  # the leader may still append to it
        self.end = wals[-1].last if wals else 0
        self.end_epoch = wals[-1].epoch if wals else 0
        self.on_disk = self.end
        self.under_way = self.end
        self.committed = 0
        self.applied = self.opened = self.end
        self.taken: deque[TakenFrame] = deque()
        self.gathered: list[TakenFrames] = []
        self.full: list[WalFile] = []
        self.cut: Cut | None = None
        self.rebuild = False

    # ---- the log's state

    def epoch_of(self, lsn: int) -> int | None:
        wal = file_of(self.wals, lsn)
        return None if wal is None else wal.epoch

    def runs(self) -> list[tuple[int, int, int]]:
        return runs_of(self.wals, self.planner.floor)

    def mismatch(self, why: str) -> Mismatch:
        return Mismatch(self.runs(), why)

    # ---- taking

    def take(self, prev_lsn: int, prev_epoch: int, shipments: list[Shipment]) -> Mismatch | None:
        """Take the leader's frames that follow frame `prev_lsn`. Skips frames that are here already."""
        if self.rebuild:
            return self.mismatch("the folder is being read anew")
        if prev_lsn and self.epoch_of(prev_lsn) != prev_epoch:
            return self.mismatch(f"no frame {prev_lsn} of epoch {prev_epoch} is here")
        before = prev_lsn
        try:
            for shipment in shipments:
                if shipment.first != before + 1:
                    raise BadShipment(f"frame {shipment.first} does not follow {before}")
                before = int(shipment.last)
                refused = self.take_shipment(shipment)
                if refused is not None:
                    return refused
        except BadShipment as error:
            return self.mismatch(str(error))
        return None

    def take_shipment(self, shipment: Shipment) -> Mismatch | None:
        head = head_of(shipment)
        for place in frames_in(shipment):
            lsn = int(place.lsn)
            if lsn <= self.end:
                here = self.epoch_of(lsn)
                if here == place.epoch:
                    continue
                if here is None or not self.may_cut(lsn - 1):
                    return Mismatch(self.runs(), f"frame {lsn} is of epoch {place.epoch} there: {COPIES}", True)
                self.cut_behind(lsn - 1)
                if self.rebuild:
                    return self.mismatch(f"frame {lsn} is of epoch {place.epoch} there, and is cut away here")
            file = self.file_for(head, shipment, place)
            self.gather(shipment, place, file)
        return None

    def file_for(self, head: FileHead, shipment: Shipment, place: IncomingFrame) -> WalFile:
        """Return the WAL file for the frame: the last file, or a new one that begins with the frame."""
        position = int(shipment.position + place.at)
        last = self.wals[-1] if self.wals else None
        if last is not None and last.head_octets == shipment.file_head:
            if last.tail != position or last.full:
                raise BadShipment(f"frame {place.lsn} stands at octet {position} there, at {last.tail} here")
            return last
        if place.lsn != head.first_lsn or position != FILE_HEAD_OCTETS or place.lsn != self.end + 1:
            raise BadShipment(f"frame {place.lsn} follows {self.end} in file {head.number}, which is not here")
        if last is not None and head.number <= last.head.number:
            raise BadShipment(f"file {head.number} follows {last.head.number}")
        if place.epoch < self.end_epoch:
            raise BadShipment(f"epoch {place.epoch} follows {self.end_epoch}")
        return self.new_file(head, int(place.epoch))

    def new_file(self, head: FileHead, epoch: int) -> WalFile:
        return WalFile(head, BlockFile(head.number, wal_path(head.number), -1, True), FILE_HEAD_OCTETS, 0, False, epoch)

    def gather(self, shipment: Shipment, place: IncomingFrame, file: WalFile) -> None:
        """Check a frame that follows the last one, and add it to the next commit."""
        frame = checked(shipment, place, file)
        lsn = int(place.lsn)
        if not self.wals or self.wals[-1] is not file:
            self.begin_file(file)
        if not self.gathered or self.gathered[-1].file is not file:
            self.gathered.append(TakenFrames(lsn, file))
        octets = shipment.octets[place.at : place.at + place.octets]
        self.taken.append(TakenFrame(frame, file.tail, file))
        file.mark(lsn, file.tail)
        self.gathered[-1].add(lsn, octets)
        file.tail += len(octets)
        file.last = lsn
        self.end = lsn
        self.end_epoch = file.epoch

    def begin_file(self, file: WalFile) -> None:
        if self.wals:
            old = self.wals[-1]
            old.full = True
            old.full_us = self.clock.now_us()
            self.full.append(old)
        self.wals.append(file)
        self.logs.files.add(file.blocks)

    # ---- cutting

    def may_cut(self, lsn: int) -> bool:
        """Return whether frames after `lsn` may be truncated: no segment, manifest or inventory relies on them."""
        assert lsn >= self.committed, f"frames up to {self.committed} are committed, and {lsn + 1} is to be cut away"
        planner = self.planner
        if lsn < planner.floor:
            return False
        gone = [wal.head.number for wal in self.wals if wal.head.first_lsn > lsn]
        newest = max([wal.head.number for wal in self.wals if wal.head.first_lsn <= lsn], default=0)
        manifest, inventory = planner.manifest, planner.inventory
        if manifest is not None and (manifest.lsn > lsn or manifest.wal > newest):
            return False
        return inventory is None or not set(gone) & set(inventory.wals)

    def cut_behind(self, lsn: int) -> None:
        """Truncate the log after frame `lsn`, in memory now and on the disk with the next commit."""
        if lsn < self.applied:
            self.rebuild = True
        cut = self.cut = self.cut or Cut()
        lowest: TakenFrame | None = None
        while self.taken and self.taken[-1].lsn > lsn:
            lowest = self.taken.pop()
        while self.gathered and self.gathered[-1].lsn > lsn:
            if not self.gathered[-1].keep(lsn):
                self.gathered.pop()
        while self.wals and self.wals[-1].head.first_lsn > lsn:
            wal = self.wals.pop()
            cut.gone.append(wal)
            self.logs.files.let_go(wal.blocks)
        self.full = [wal for wal in self.full if wal in self.wals[:-1]]
        self.end = lsn
        self.end_epoch = self.wals[-1].epoch if self.wals else 0
        self.on_disk = min(self.on_disk, lsn)
        self.under_way = min(self.under_way, lsn)
        cut.file = self.shortened(cut, lsn, lowest)

    def shortened(self, cut: Cut, lsn: int, lowest: TakenFrame | None) -> WalFile | None:
        """End the last file with frame `lsn`, and return it. `lowest` is the next frame, if it was not applied."""
        if not self.wals:
            return None
        wal = self.wals[-1]
        tail = wal.tail
        if wal.last > lsn and self.rebuild:
            cut.lsn = lsn
        elif wal.last > lsn:
            assert lowest is not None and lowest.lsn == lsn + 1 and lowest.file is wal
            tail = lowest.position
        wal.cut(lsn, tail)
        wal.full = False
        cut.tail = min(cut.tail, tail) if cut.file is wal else tail
        return wal

    # ---- the disk

    def flush(self) -> MirrorCommit | None:
        """Return the commit of all that was taken since the last one, or None if there is nothing."""
        if not self.gathered and self.cut is None:
            return None
        commit = MirrorCommit(self.disk, self.options, self.gathered, self.full)
        commit.cut = self.cut
        commit.rebuild = self.rebuild
        self.gathered = []
        self.full = []
        self.cut = None
        self.under_way = self.end
        return commit

    def written(self, commit: MirrorCommit) -> None:
        """Record that a commit is on the disk, without the frames truncated since, and apply what is committed."""
        if commit.frames:
            self.on_disk = max(self.on_disk, self.under_way)
        self.apply()

    def not_written(self, commit: MirrorCommit) -> None:
        """Truncate the log after `on_disk`, because a commit found the disk full."""
        assert commit.cut is None
        if self.end > self.on_disk:
            self.cut_behind(self.on_disk)

    def commit_to(self, lsn: int) -> None:
        self.committed = lsn
        self.apply()

    def apply(self) -> None:
        """Apply the committed frames that are on the disk to the logs and entries."""
        last = min(self.committed, self.on_disk)
        while self.taken and self.taken[0].lsn <= last:
            self.apply_next()

    def apply_next(self) -> None:
        taken = self.taken.popleft()
        self.replay.take(taken.frame, taken.position, taken.file.blocks)
        for queue in self.replay.advance(taken.frame):
            self.planner.dropped.append((queue, taken.lsn))
        self.applied = taken.lsn

    def finish(self) -> None:
        """Apply every frame on the disk, committed or not, and truncate the rest, to take over as leader."""
        assert not self.rebuild
        if self.end > self.on_disk:
            self.cut_behind(self.on_disk)
        if self.cut is not None:
            self.cut.run(self.disk)
            self.cut = None
        while self.taken:
            self.apply_next()
        self.replay.finish()
