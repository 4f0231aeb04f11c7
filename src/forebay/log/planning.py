"""Plans the store's background work: which files to remove, and which to rewrite.

A file is removed once a record on the disk says that it need not be there. A single node has such notes in its log. A
replicated store shares its log with other nodes, so it has an inventory beside it. It never acts on a frame that is not
committed.
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import DiskFull
from forebay.core.ports import Clock, Disk
from forebay.core.stored.entry_kinds import START
from forebay.log.folder.inventory import Inventory, remove_inventory, write_inventory
from forebay.log.folder.manifest import Manifest, write_manifest
from forebay.log.folder.required import NUMBER_OCTETS, SPAN_OCTETS, segments_payload, wals_payload
from forebay.log.frame import (
    FILE_HEAD_OCTETS,
    FRAME_HEAD_OCTETS,
    PIECE_OCTETS,
    SEGMENTS,
    START_OCTETS_MAX,
    WALS,
    FrameEntry,
    encode_start,
)
from forebay.log.housekeeping import Job, Liveness, Rewrite, merged
from forebay.log.logs import Logs
from forebay.log.queue_log import QueueLog
from forebay.log.recovery.opening import Opening
from forebay.log.replication.copying import Snapshot, SnapshotFile
from forebay.log.replication.told import ALL, NO_END, AllWanted, FileOrder, Intervals, ToldLiveness, coarse
from forebay.log.stored import StoreOptions
from forebay.log.stored_log import moved_logs, with_segments
from forebay.log.wal import GatheredFrame, WalFile, spare_path
from forebay.log.wal_maker import WalMaker

JOB_RETRY_US: Final = 10_000_000  # wait this long after a job found the disk full
EVERYTHING: Final = AllWanted()
FILES_TOLD_MAX: Final = 16  # WAL files that one job of a follower rewrites
NAMES_MAX: Final = 100  # queue names that one job writes: a stop of the broker waits for the running job


class Intent:
    """Rewrites that wait until the settlements they rest on are durable. Otherwise a crash would bring records back.

    wal  the file to rewrite; None for segments
    lsn  of the frame with the last of these settlements
    """

    def __init__(self, wal: WalFile | None, lsn: int, rewrites: list[Rewrite]) -> None:
        self.wal = wal
        self.lsn = lsn
        self.rewrites = rewrites


class Planner:
    """Plans jobs, and records their results.

    replicated  the inventory says which files must be there
    manifest    as it is on the disk; `inventory` likewise
    floor       records of frames up to this lsn may be in segments
    dropped     queue, and lsn of the frame that notes its deletion
    stale       the inventory on the disk is out of date
    intent      rewrites to run once the settlements they rest on are durable
    """

    def __init__(
        self, disk: Disk, clock: Clock, options: StoreOptions, logs: Logs, maker: WalMaker, replicated: bool
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.options = options
        self.logs = logs
        self.maker = maker
        self.replicated = replicated
        self.manifest: Manifest | None = None
        self.inventory: Inventory | None = None
        self.floor = 0
        self.dropped: list[tuple[int, int]] = []
        self.stale = False
        self.leaving: list[tuple[str, int]] = []  # segments that the inventory being written does not name
        self.unnamed: list[tuple[str, int]] = []  # segments, with their lsn, that the one on the disk does not name
        self.not_before_us = 0
        self.keep_lsn = NO_END  # WAL files from this frame on are kept for members that catch up
        self.keep_all = False  # a member makes a copy
        self.intent: Intent | None = None
        self.order: FileOrder | None = None  # for followers: to do the same as the running job
        self.order_all_due = False
        self.orders: list[FileOrder] = []  # for followers; each is sent once its frame is committed
        self.snapshots: list[Snapshot] = []  # copies under way, during which no file is removed or changed

    # ---- the start

    def adopt(self, opening: Opening) -> None:
        """Take over the logs and files that `opening` found on the disk."""
        self.logs = opening.logs
        self.maker.files = opening.logs.files
        self.dropped = [(queue, opening.lsn) for queue in opening.dropped()]
        self.found(opening.manifest, opening.inventory)

    def found(self, manifest: Manifest | None, inventory: Inventory | None) -> None:
        """Take over the manifest and the inventory found on the disk."""
        self.manifest = manifest
        self.inventory = inventory
        self.floor = 0 if inventory is None else inventory.floor

    def begin(self, wals: list[WalFile]) -> None:
        """Write a missing manifest, and a replicated store's inventory, before any file that they must name."""
        if self.manifest is None:
            self.write_manifest(Manifest(0, 0, False))
        if self.replicated and self.inventory is None:
            # Frames that this node wrote as a single node must never be truncated.
            self.floor = wals[-1].last if wals else 0
            inventory = self.current(wals, self.floor)
            write_inventory(self.disk, inventory)
            self.inventory = inventory

    def begun(self, file: WalFile) -> None:
        """Write the manifest of a single node's first durable frame, which names all files. Remove the inventory."""
        self.write_manifest(Manifest(file.head.number, file.head.first_lsn, False))
        if self.inventory is not None:
            remove_inventory(self.disk)
            self.inventory = None

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest. On a full disk keep the old one, which claims less but is true."""
        try:
            write_manifest(self.disk, manifest)
        except DiskFull:
            if self.manifest is None:
                raise
        else:
            self.manifest = manifest

    def end(self, file: WalFile, durable: int) -> None:
        """Truncate the WAL file of a single node and write a clean manifest, after the last frame of this run."""
        self.disk.truncate(file.blocks.handle, file.tail)
        self.disk.sync(file.blocks.handle)
        self.write_manifest(Manifest(file.head.number, durable, True))

    # ---- what the log says of files

    def checkpoint_octets(self, checkpoint: list[FrameEntry], wals: list[WalFile]) -> int:
        """Return the bytes of a file with only this checkpoint. The next file made ahead gets room for it."""
        entries = 0
        for entry in checkpoint:
            entries += PIECE_OCTETS + len(entry.payload) + 8
        starts = len(self.logs.stored) * (2 * PIECE_OCTETS + START_OCTETS_MAX)
        files = SPAN_OCTETS * self.logs.segment_totals()[0] + PIECE_OCTETS + NUMBER_OCTETS * (len(wals) + 1)
        octets = FILE_HEAD_OCTETS + FRAME_HEAD_OCTETS + entries + starts + files
        self.maker.expect(octets)
        return octets

    def note_files(self, frame: GatheredFrame, wals: list[WalFile]) -> None:
        """Note where the logs start and which files must be there, for a checkpoint."""
        if not self.replicated:
            frame.add_note(WALS, 0, 0, wals_payload(required(wals)))
        for queue, stored in self.logs.stored.items():
            log = stored.log
            if log.durable:
                # Blocks before `end` are in this frame or earlier ones, so all are on the disk once this frame is.
                frame.add_note(START, queue, 0, encode_bounds(log))
            if stored.segments and not self.replicated:
                frame.add_note(SEGMENTS, queue, 0, segments_payload(stored))

    def note_starts(self, frame: GatheredFrame) -> None:
        """Note in the frame where logs start now, so that purged or expired records do not come back."""
        for log in moved_logs(self.logs.stored):
            note_start(frame, log)

    def current(self, wals: list[WalFile], durable: int) -> Inventory:
        """Return the inventory as it should be."""
        spans: list[tuple[int, int, int]] = []
        for stored in with_segments(self.logs.stored):
            queue = int(stored.log.queue)
            spans += [(queue, each.segment.first, each.segment.end) for each in stored.segments]
        return Inventory(self.floor, self.lasting(wals, durable), tuple(spans))

    def lasting(self, wals: list[WalFile], durable: int) -> tuple[int, ...]:
        """Return the numbers of WAL files that must be there: committed, or named by the inventory on the disk."""
        known = () if self.inventory is None else self.inventory.wals
        numbers: list[int] = []
        for wal in wals:
            if not wal.empty_lsn and (wal.head.first_lsn <= durable or wal.head.number in known):
                numbers.append(wal.head.number)
        return tuple(numbers)

    # ---- plans

    def plan(
        self,
        frame: GatheredFrame,
        wals: list[WalFile],
        finished: WalFile | None,
        durable: int,
        liveness: Liveness,
        now_us: int,
    ) -> Job | None:
        """Return the next job of a single node or a leader, or None if there is nothing to do.

        frame     the frame being gathered
        finished  the file that the next commit completes
        durable   number of the last frame that is durable
        """
        self.note_starts(frame)
        settled = noted_lsn(frame)  # read first: a rewrite need not wait for the notes of files made below
        job = Job(self.disk, self.options.segment_octets_max)
        is_time = now_us >= self.not_before_us
        if is_time:
            job.manifest = self.plan_manifest(wals, durable)
        self.plan_removals(job, frame, wals, finished, durable)
        job.name = self.logs.unnamed()[:NAMES_MAX]
        if self.maker.spare is None and not self.maker.making:
            job.spare = (spare_path(self.maker.next_number), self.maker.spare_octets)
        if is_time and not self.snapshots:
            self.plan_rewrites(job, settled, wals, finished, durable, liveness, now_us)
            job.name += self.logs.unnamed_of(job, len(job.name))
            self.plan_inventory(job, wals, durable)
        return job if job.has_work() else None

    def plan_manifest(self, wals: list[WalFile], durable: int) -> Manifest | None:
        """Return the manifest for the newest WAL file, or None if the one on the disk names it already."""
        head = wals[-1].head
        if durable < head.first_lsn or (self.manifest is not None and self.manifest.wal == head.number):
            return None
        return Manifest(head.number, head.first_lsn, False)

    def plan_removals(
        self, job: Job, frame: GatheredFrame, wals: list[WalFile], finished: WalFile | None, durable: int
    ) -> None:
        """Plan the removal of files whose blocks no log holds. The note of that must be on the disk first."""
        if self.snapshots:
            return
        lsn = noted_lsn(frame) if self.replicated else frame.lsn
        if durable >= wals[-1].head.first_lsn:
            empty = self.empty(wals, finished)
            named = [wal for wal in empty if not wal.empty_lsn]
            for wal in named:
                wal.empty_lsn = lsn
            if named and not self.replicated:
                frame.add_note(WALS, 0, 0, wals_payload(required(wals)))
            self.remove_wals(job, wals, empty, durable)
        self.drop_segments(frame, lsn)
        self.plan_gone(job, durable)

    def plan_gone(self, job: Job, durable: int) -> None:
        """Plan the removal of segments that nothing names any more, and of the folders of deleted logs."""
        job.remove += self.dead_segments(durable)
        named = self.named_queues() if self.replicated and self.dropped else set()
        kept: list[tuple[int, int]] = []
        for queue, dropped in self.dropped:
            if dropped > durable or queue in named:
                kept.append((queue, dropped))
            else:
                job.drop.append(queue)
            self.stale = self.stale or queue in named
        self.dropped = kept

    def named_queues(self) -> set[int]:
        """Return the queues whose segments must be there, by the inventory on the disk."""
        return set() if self.inventory is None else {queue for queue, _, _ in self.inventory.segments}

    def empty(self, wals: list[WalFile], finished: WalFile | None) -> list[WalFile]:
        """Return the WAL files without needed blocks; of a replicated store only the oldest, to leave no gap."""
        found: list[WalFile] = []
        for wal in wals[:-1]:
            if wal.blocks.blocks == 0 and wal is not finished:
                found.append(wal)
            elif self.replicated:
                break
        return found

    def remove_wals(self, job: Job, wals: list[WalFile], empty: list[WalFile], durable: int) -> None:
        octets = 0
        for wal in wals:
            octets += wal.tail
        kept_max = self.kept_octets_max(wals) if self.replicated and empty else 0
        for wal in empty:
            if self.replicated and wal.last >= self.keep_lsn and octets <= kept_max:
                break
            octets -= wal.tail
            if wal.empty_lsn <= durable and not self.is_named(wal):
                wals.remove(wal)
                self.logs.files.forget(wal.blocks)
                job.remove.append(wal.blocks.path)

    def kept_octets_max(self, wals: list[WalFile]) -> int:
        """Return how many bytes of WAL files to keep for members that catch up. Beyond that a copy is shorter.

        A member that makes a copy needs all frames from its beginning on.
        """
        options = self.options
        if self.keep_all:
            return options.catch_up_octets_max
        copy = self.logs.segment_totals()[1]
        for wal in wals:
            if not wal.empty_lsn:
                copy += wal.tail
        return min(max(copy, options.catch_up_octets_min), options.catch_up_octets_max)

    def is_named(self, wal: WalFile) -> bool:
        """Return whether the inventory on the disk says that the file must be there."""
        return self.inventory is not None and wal.head.number in self.inventory.wals

    def drop_segments(self, frame: GatheredFrame, lsn: int) -> None:
        """Drop segments without needed blocks, and note that they need not be there."""
        changed = self.logs.drop_segments(lsn)
        if self.replicated:
            self.stale = self.stale or bool(changed)
            return
        for stored in changed:
            frame.add_note(SEGMENTS, int(stored.log.queue), 0, segments_payload(stored))

    def dead_segments(self, durable: int) -> list[str]:
        """Return the paths of segments that may be removed now."""
        if not self.replicated:
            return self.logs.dead_segments(durable)
        paths = [path for path, lsn in self.unnamed if lsn <= durable]
        self.unnamed = [(path, lsn) for path, lsn in self.unnamed if lsn > durable]
        return paths

    def plan_inventory(self, job: Job, wals: list[WalFile], durable: int) -> None:
        """Plan a new inventory if the one on the disk is out of date."""
        if not self.replicated or self.inventory is None:
            return
        if self.stale or self.inventory.floor != self.floor or self.inventory.wals != self.lasting(wals, durable):
            job.inventory = self.current(wals, durable)
            self.leaving, self.logs.dead = self.logs.dead, []
            self.stale = False

    def plan_rewrites(
        self,
        job: Job,
        settled: int,
        wals: list[WalFile],
        finished: WalFile | None,
        durable: int,
        liveness: Liveness,
        now_us: int,
    ) -> None:
        """Plan rewrites once the settlements they rest on are durable. Until then keep them as an intent.

        settled  lsn of the frame with all settlements that `liveness` counts
        """
        intent = self.intent
        if intent is None or not self.is_valid(intent, wals, durable):
            wal = oldest(wals, durable)
            rewrites = self.plan_wal(wal, wals, finished, durable, liveness, now_us)
            if rewrites:
                intent = Intent(wal, settled, rewrites)
            else:
                intent = Intent(None, settled, self.logs.plan_segments(liveness))
        self.intent = None
        if intent.rewrites and intent.lsn > durable:
            self.intent = intent
        elif intent.rewrites:
            self.carry_out(job, intent, liveness)

    def is_valid(self, intent: Intent, wals: list[WalFile], durable: int) -> bool:
        """Return whether the files that the intent is about are still there."""
        if intent.wal is not None:
            return oldest(wals, durable) is intent.wal
        return len(self.logs.still_here(intent.rewrites)) == len(intent.rewrites)

    def carry_out(self, job: Job, intent: Intent, liveness: Liveness) -> None:
        """Plan an intent's rewrites, with records that are needed again: a group may have been made or moved."""
        rewrites = self.logs.still_here(intent.rewrites)
        for rewrite in rewrites:
            wanted = liveness.live(rewrite.log.queue, rewrite.first, rewrite.end)
            rewrite.wanted = merged([*rewrite.wanted, *wanted])
        if intent.wal is None:
            job.rewrites = self.logs.pinned(rewrites)
        elif rewrites:
            job.rewrites = rewrites
            self.floor = max(self.floor, intent.wal.last)
            self.order = self.order_of(job, intent.lsn)

    def rewrite_is_due(self, durable: int) -> bool:
        """Return whether the settlements that an intent waits for are durable."""
        return self.intent is not None and self.intent.lsn <= durable

    def plan_wal(
        self,
        wal: WalFile,
        wals: list[WalFile],
        finished: WalFile | None,
        durable: int,
        liveness: Liveness,
        now_us: int,
    ) -> list[Rewrite]:
        """Return rewrites that copy the needed records of a WAL file, or [] if it is too early for them."""
        if not wal.full or wal is finished or durable < wals[-1].head.first_lsn:
            return []
        if now_us - wal.full_us < self.options.rewrite_age_us:
            return []
        rewrites: list[Rewrite] = []
        files = {wal.blocks.number: wal.blocks}
        for queue, stored in self.logs.stored.items():
            if not stored.log.durable:
                continue
            entries = stored.log.entries_in(wal.blocks.number)
            size = entries.size()
            if size:
                first = int(entries.bases[0])
                end = int(entries.end(size - 1))
                wanted = liveness.live(queue, first, end)
                rewrites.append(Rewrite(stored.log, entries, files, wanted, first, end, False))
        return rewrites

    # ---- a follower's plans

    def plan_as_told(
        self, wals: list[WalFile], durable: int, opened: int, order: ToldLiveness, now_us: int
    ) -> Job | None:
        """Return a follower's job for the leader's order, or None if it is not about the oldest file with blocks.

        An order about all files covers the next WAL files, too, as a member that was away missed their orders.

        opened  lsn of the last frame found in the folder. Until it is committed these frames may be truncated: no job
        """
        if not wals or durable < opened or now_us < self.not_before_us:
            return None
        job = Job(self.disk, self.options.segment_octets_max)
        self.find_empty(wals, durable)
        begin = wals.index(oldest(wals, durable))
        for wal in wals[begin : begin + (FILES_TOLD_MAX if order.number == ALL else 1)]:
            if order.number in (ALL, wal.head.number):
                rewrites = self.plan_wal(wal, wals, None, durable, order, now_us)
                job.rewrites += rewrites
                self.floor = max(self.floor, wal.last) if rewrites else self.floor
        if order.number == ALL and not job.rewrites:
            job.rewrites = self.logs.pinned(self.logs.plan_segments(order))
        if not job.rewrites:
            return None
        job.folders = [rewrite.log.queue for rewrite in job.rewrites]
        self.plan_inventory(job, wals, durable)
        return job

    def plan_following(self, wals: list[WalFile], durable: int, opened: int, now_us: int) -> Job | None:
        """Return a follower's job without an order: remove empty files, update the inventory, merge segments."""
        if not wals or durable < opened:
            return None
        job = Job(self.disk, self.options.segment_octets_max)
        if durable >= wals[-1].head.first_lsn:
            self.remove_wals(job, wals, self.find_empty(wals, durable), durable)
        self.stale = bool(self.logs.drop_segments(durable)) or self.stale
        self.plan_gone(job, durable)
        if now_us >= self.not_before_us:
            job.manifest = self.plan_manifest(wals, durable)
            job.rewrites = self.logs.pinned(self.logs.plan_segments(EVERYTHING))
            self.plan_inventory(job, wals, durable)
        return job if job.has_work() else None

    def find_empty(self, wals: list[WalFile], durable: int) -> list[WalFile]:
        """Return a follower's WAL files without needed blocks. All that a follower has applied is committed."""
        empty = self.empty(wals, None)
        for wal in empty:
            wal.empty_lsn = wal.empty_lsn or durable
        return empty

    # ---- orders for followers

    def order_of(self, job: Job, lsn: int) -> FileOrder | None:
        """Return the order for followers to rewrite a WAL file as this job does, or None for a single node."""
        if not self.replicated:
            return None
        wanted = {int(each.log.queue): around(each) for each in job.rewrites}
        return FileOrder(next(iter(job.rewrites[0].files)), lsn, wanted)

    def order_all(self, frame: GatheredFrame, liveness: Liveness) -> None:
        """Add an order with the needed offsets of all logs, if one was requested."""
        if not self.order_all_due:
            return
        self.order_all_due = False
        wanted: dict[int, Intervals] = {}
        for queue, stored in self.logs.stored.items():
            if stored.log.durable:
                end = int(stored.log.durable_end)
                wanted[queue] = [*coarse(liveness.live(queue, int(stored.log.kept), end)), (end, NO_END)]
        self.orders.append(FileOrder(ALL, noted_lsn(frame), wanted))

    def take_orders(self, durable: int) -> list[FileOrder]:
        """Remove and return the orders whose frame is durable, so that any next leader knows their reasons."""
        ready = [order for order in self.orders if order.lsn <= durable]
        self.orders = [order for order in self.orders if order.lsn > durable]
        return ready

    # ---- copies of the files

    def snapshot(self, wals: list[WalFile], tails: dict[int, int], end: int, durable: int) -> Snapshot:
        """Return the files as they are now. None is removed or changed until `release`.

        tails  end of each WAL file to copy, by number
        end    lsn of the last frame in the files
        """
        files: list[SnapshotFile] = []
        for stored in with_segments(self.logs.stored):
            files += [SnapshotFile(each.segment.path, each.segment.octets) for each in stored.segments]
        for wal in wals[settled_files(wals, durable) :]:
            if wal.head.number in tails:
                files.append(SnapshotFile(wal.blocks.path, tails[wal.head.number]))
        current = self.current(wals, durable)
        inventory = Inventory(current.floor, tuple([each for each in current.wals if each in tails]), current.segments)
        snapshot = Snapshot(self.disk, files, end, inventory)
        self.snapshots.append(snapshot)
        return snapshot

    def give_up_copies(self) -> None:
        """End all snapshots, so that files may be removed and changed."""
        for snapshot in list(self.snapshots):
            self.release(snapshot)

    def release(self, snapshot: Snapshot) -> None:
        """End a snapshot whose copy is done or given up."""
        snapshot.is_over = True
        if snapshot in self.snapshots:
            self.snapshots.remove(snapshot)

    # ---- what is done

    def done(self, job: Job, frame: GatheredFrame | None, durable: int) -> None:
        """Record the results of a job. `frame` is the frame being gathered, if any."""
        for log in job.name if job.names_written else []:  # else the disk was full, and they have no folders yet
            self.logs.named(log)
        if job.manifest is not None and not job.full:
            self.manifest = job.manifest
        if job.inventory is not None:
            self.take_inventory(job)
        if self.order is not None and not job.full:
            self.orders.append(self.order)
        self.order = None
        if job.full:
            self.not_before_us = self.clock.now_us() + JOB_RETRY_US
        for rewrite in job.rewrites:
            if not self.logs.take_rewrite(rewrite):
                # The log was deleted during the job, which has made its folder again.
                self.dropped.append((rewrite.log.queue, durable if frame is None else noted_lsn(frame)))
            elif rewrite.made:
                self.stale = True
                if not self.replicated:
                    assert frame is not None
                    payload = segments_payload(self.logs.stored[rewrite.log.queue])
                    frame.add_note(SEGMENTS, rewrite.log.queue, 0, payload)

    def take_inventory(self, job: Job) -> None:
        if job.inventory_written:
            self.inventory = job.inventory
            self.unnamed += self.leaving
        else:
            self.stale = True
            self.logs.dead = self.leaving + self.logs.dead
        self.leaving = []


def oldest(wals: list[WalFile], durable: int) -> WalFile:
    """Return the first WAL file that may hold needed blocks, by what is on the disk, or the last file."""
    for wal in wals[:-1]:
        if not 0 < wal.empty_lsn <= durable:
            return wal
    return wals[-1]


def settled_files(wals: list[WalFile], durable: int) -> int:
    """Return how many of the oldest WAL files hold no needed block, by what is on the disk."""
    count = 0
    while count < len(wals) - 1 and 0 < wals[count].empty_lsn <= durable:
        count += 1
    return count


def around(rewrite: Rewrite) -> Intervals:
    """Return a rewrite's needed offsets, and all outside its range, where other nodes may have more in this file."""
    before = [(0, rewrite.first)] if rewrite.first else []
    return [*before, *coarse(rewrite.wanted), (rewrite.end, NO_END)]


def noted_lsn(frame: GatheredFrame) -> int:
    """Return the lsn of the frame with the last note. An empty frame is skipped, as it may never be written."""
    return frame.lsn if frame.pieces else frame.lsn - 1


def required(wals: list[WalFile]) -> list[int]:
    """Return the numbers of the WAL files that must be there, without those about to be removed."""
    return [wal.head.number for wal in wals if not wal.empty_lsn]


def note_start(frame: GatheredFrame, log: QueueLog) -> None:
    """Note in the frame where a log starts, if that has changed."""
    if log.durable and (log.start != log.start_noted or log.kept != log.kept_noted):
        frame.add_note(START, log.queue, 0, encode_bounds(log))
        frame.urgent = frame.urgent or frame.hurried


def encode_bounds(log: QueueLog) -> bytes:
    """Return the payload of a log's START, and mark these bounds as noted."""
    log.start_noted = log.start
    log.kept_noted = log.kept
    return encode_start(log.kept, log.end, log.start)
