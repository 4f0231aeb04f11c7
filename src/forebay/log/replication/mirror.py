"""A follower's log: the leader's WAL files, octet by octet, and the state that they say at hand.

Frames are taken into memory, go to the disk as a leader's do, and are applied to the logs once they are committed, so
that a cut, which is never below what is committed, has nothing to undo but what is in memory. What was found when the
folder was opened is applied already; a cut of that, of a node that led and was deposed, reads the folder anew.
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
    """A folder holds another log than that of the node's cluster: it has to begin anew."""


@final
class Mismatch:
    """The store has not taken frames.

    runs        epoch, first and last LSN of its own stretches, newest first
    why         for people
    needs_copy  it can never take them: what would have to be cut away is in segments. The folder has to begin anew
    """

    def __init__(self, runs: list[tuple[int, int, int]], why: str, needs_copy: bool = False) -> None:
        self.runs = runs
        self.why = why
        self.needs_copy = needs_copy


@final
class Cut:
    """The end of the files: what is behind it goes, durably, before anything is written there.

    file, tail  the file that is the last, and where it ends
    gone        files behind it, the newest first; their handles are closed here, where nobody writes to them any more
    lsn         of the last frame that stays, where `tail` has to be looked for: -1 where it has not
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
                continue  # it was never made
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
            # The frames of a new leader go to another file, whose sync leaves this cut to chance.
            disk.sync(file.blocks.handle)
            file.reserved = self.tail


class MirrorCommit(Commit):
    """Frames from another node on their way to the disk, and before them what has to be cut away.

    full     files that get no more frames
    rebuild  read the folder anew behind the cut; `opening` is the result
    """

    def __init__(self, disk: Disk, options: StoreOptions, frames: list[TakenFrames], full: list[WalFile]) -> None:
        super().__init__(disk, list(frames), None)
        self.options = options
        self.full = full
        self.cut: Cut | None = None
        self.rebuild = False
        self.opening: Opening | None = None

    def run(self) -> None:
        """Run the commit; DiskFull where there is no room: then the cut is made, and nothing is written."""
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
        """Have files for all frames, with room on the disk; else as it was."""
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

    wals       oldest first; the store's own list
    end        lsn of the last frame taken, and `end_epoch` its epoch
    on_disk    lsn of the last frame that is here on the disk, and stands where a leader has it
    committed  as told
    applied    lsn of the last frame that the logs and entries know; `opened`: when the folder was opened
    taken      frames behind that, in their order
    gathered   of these the ones that have not been given to the disk
    under_way  lsn of the last frame of the commit under way that stands as long as it is
    full       files that the frames gathered are the last of
    cut        to be made by the next commit; `rebuild`: and the folder read anew behind it
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
            wals[-1].full = False  # whoever leads may go on with it
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

    # ---- what is there

    def epoch_of(self, lsn: int) -> int | None:
        wal = file_of(self.wals, lsn)
        return None if wal is None else wal.epoch

    def runs(self) -> list[tuple[int, int, int]]:
        return runs_of(self.wals, self.planner.floor)

    def mismatch(self, why: str) -> Mismatch:
        return Mismatch(self.runs(), why)

    # ---- taking

    def take(self, prev_lsn: int, prev_epoch: int, shipments: list[Shipment]) -> Mismatch | None:
        """Take frames that follow this one; those that are here already are passed over."""
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
        """The file that takes the frame: the last one, or one that begins with it."""
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
        """Take a frame that was found to stand behind the last one."""
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
        """True if no segment has, and nothing says for good that it has, what stands for frames behind this one."""
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
        """The frame of this number is the last; what was behind it is gone with the next commit."""
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
        """Have the last file end with this frame; `lowest` is the one behind it, where it was not applied."""
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
        """The commit for all that was taken, if there is any."""
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
        """A commit is back: what of it was not cut away meanwhile is here."""
        if commit.frames:
            self.on_disk = max(self.on_disk, self.under_way)
        self.apply()

    def not_written(self, commit: MirrorCommit) -> None:
        """A commit found the disk full: nothing that was taken since the last one is here."""
        assert commit.cut is None
        if self.end > self.on_disk:
            self.cut_behind(self.on_disk)

    def commit_to(self, lsn: int) -> None:
        self.committed = lsn
        self.apply()

    def apply(self) -> None:
        """Have the logs and entries know what is committed."""
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
        """Take over as the node that leads: what is on its disk is the log, committed or not, and nothing else is."""
        assert not self.rebuild
        if self.end > self.on_disk:
            self.cut_behind(self.on_disk)
        if self.cut is not None:
            self.cut.run(self.disk)
            self.cut = None
        while self.taken:
            self.apply_next()
        self.replay.finish()
