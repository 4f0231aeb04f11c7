"""The store: every queue's log over one write-ahead log and each queue's segments.

Written to by the loop alone. What takes long comes back as an object to run elsewhere: `Commit` (write and sync) on
the disk thread, `Job` (housekeeping) on a background thread; `synced` and `done` take their results in.

A record's way: appended to the WAL, durable by the sync of its frame; when its WAL file is full and something of it is
still wanted, copied to a segment of its queue; gone with its file once nobody wants anything of that.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c
from mypy_extensions import mypyc_attr

from forebay.core.errors import DiskFull, StorageError
from forebay.core.ports import Clock, Disk
from forebay.log.block import Block
from forebay.log.block_files import BlockFile
from forebay.log.frame import (
    CHECKPOINT,
    CLEAN,
    DROPPED,
    FILE_HEAD_OCTETS,
    FRAME_HEAD_OCTETS,
    PIECE_OCTETS,
    SEGMENTS,
    START,
    START_OCTETS_MAX,
    WALS,
    FileHead,
    FrameEntry,
    encode_start,
)
from forebay.log.housekeeping import Job, Liveness, Rewrite
from forebay.log.logs import Logs
from forebay.log.manifest import Manifest, write_manifest
from forebay.log.opening import Opening
from forebay.log.queue_log import QueueLog
from forebay.log.required import (
    NUMBER_OCTETS,
    SPAN_OCTETS,
    segments_payload,
    wals_payload,
)
from forebay.log.stored import Recovery, StoreOptions
from forebay.log.stored_log import moved_logs
from forebay.log.wal import FOLDER, Commit, GatheredFrame, WalFile, spare_path, wal_path

__all__ = ["Commit", "FrameEntry", "Job", "Liveness", "QueueLog", "Recovery", "Store", "StoreOptions"]

RETRY_US: Final = 1_000_000  # a full disk is asked again for room at most this often
JOB_RETRY_US: Final = 10_000_000  # so is one on which a rewrite found no room
NAMES_MAX: Final = 100  # folders that one job gives their names: a stop waits for the job that runs
ROOM_SLACK_OCTETS: Final = 4096  # heads and padding of the frame that takes what `room` promised
OWN_KINDS: Final = (START, SEGMENTS, WALS, DROPPED)  # of notes; all others are the user's


@mypyc_attr(allow_interpreted_subclasses=True)
class Store:
    """See the contract of each method; in the order open, create_log ..., start, then everything else, then close.

    lsn      number of the frame being gathered: what is appended or noted now is durable when `durable` >= lsn
    durable  number of the last frame on the disk
    full     the disk had no room when it was last asked
    """

    def __init__(self, disk: Disk, clock: Clock, options: StoreOptions) -> None:
        self.disk = disk
        self.clock = clock
        self.options = options
        self.logs = Logs(disk, options)
        self.wals: list[WalFile] = []  # oldest first, the active one last
        self.frame: GatheredFrame | None = None  # None until `start`
        self.ready: list[GatheredFrame] = []  # complete frames of a file that is full now
        self.finished: WalFile | None = None  # a file that the next commit is the last of
        self.commit_running: Commit | None = None
        self.job_running: Job | None = None
        self.lsn = 1
        self.durable = 0
        self.full = False
        self.asked_us = 0
        self.checkpoint_end = 0  # where the active WAL file goes on behind its checkpoint
        self.rotate_after_us = 0
        self.job_after_us = 0
        self.next_wal = 1
        self.spare: tuple[int, int, int] | None = None  # number, handle and length of a WAL file made ahead
        self.manifest: Manifest | None = None  # as it is on the disk
        self.dropped: list[tuple[int, int]] = []  # queue, and the frame that says so
        self.spare_octets = 2 * options.settle_margin_octets + 2 * ROOM_SLACK_OCTETS

    # ---- opening

    def open(self) -> Recovery:
        """Read what is there. CorruptFile if any of it is not as it was written and may have been confirmed."""
        opening = Opening(self.disk, self.logs)
        recovery = opening.run()
        for wal in opening.wals:
            wal.full_us = self.clock.now_us()
        self.wals = opening.wals
        self.manifest = opening.manifest
        self.lsn = opening.lsn + 1
        self.durable = opening.lsn
        if self.wals:
            self.next_wal = self.wals[-1].head.number + 1
        return recovery

    def start(self, checkpoint: list[FrameEntry]) -> None:
        """Begin a WAL file of this run with the user's state; from then on the store accepts writes.

        A log that was found but not created again is one that the user no longer knows: it is dropped.
        """
        assert self.frame is None
        for queue in [queue for queue, stored in self.logs.stored.items() if not stored.claimed]:
            self.logs.forget(queue, [])
            self.dropped.append((queue, self.lsn))
        self.disk.make_folder(FOLDER)
        if self.manifest is None:
            self.write_manifest(Manifest(0, 0, False))  # before any file that would be missed without it
        file = self.make_wal(self.checkpoint_octets(checkpoint), self.lsn)
        if file is None:
            raise DiskFull(f"{self.disk.path(FOLDER)}: no room to begin a WAL file")
        self.begin_file(file, checkpoint)
        commit = self.commit()
        assert commit is not None
        commit.run()
        self.synced(commit)
        self.write_manifest(Manifest(file.head.number, file.head.first_lsn, False))

    def write_manifest(self, manifest: Manifest) -> None:
        """Have the manifest say this. Where the disk is full it says what it said: that is less, and true."""
        try:
            write_manifest(self.disk, manifest)
        except DiskFull:
            if self.manifest is None:
                raise
        else:
            self.manifest = manifest

    # ---- logs

    def create_log(self, queue: int, name: str, durable: bool) -> QueueLog:
        """The log of a queue, new or as recovered. One that is not durable lives in memory only."""
        return self.logs.create(queue, name, durable)

    def drop_log(self, queue: int) -> None:
        """Forget a log and all in it; its files go once that is on the disk."""
        stored = self.logs.stored.get(queue)
        if stored is None:
            return
        self.logs.forget(queue, self.job_running.sources() if self.job_running is not None else [])
        if stored.log.durable:
            if self.frame is not None:
                self.frame.add_note(DROPPED, queue, 0, b"")
            self.dropped.append((queue, self.lsn))

    # ---- writing

    def room(self) -> int:
        """Octets of messages that may be accepted before `reserve` must be asked."""
        frame = self.frame
        assert frame is not None
        return frame.file.reserved - frame.end() - self.options.settle_margin_octets - ROOM_SLACK_OCTETS

    def reserve(self, octets: int) -> bool:
        """Have room for so many octets of messages; False if the disk is full."""
        if self.room() >= octets:
            return True
        frame = self.frame
        assert frame is not None
        need = frame.end() + octets + self.options.settle_margin_octets + ROOM_SLACK_OCTETS
        return self.grow(frame.file, need)

    def grow(self, file: WalFile, need: int) -> bool:
        """Reserve a file to this length, or better to the next whole step."""
        now_us = self.clock.now_us()
        if self.full and now_us - self.asked_us < RETRY_US:
            return False
        step = self.options.wal_chunk_octets
        for octets in (-(-need // step) * step, need):
            try:
                self.disk.reserve(file.blocks.handle, octets)
            except DiskFull:
                continue
            file.reserved = octets
            self.full = False
            return True
        self.full = True
        self.asked_us = now_us
        return False

    def look_for_room(self) -> None:
        """Ask a disk that was full again, though nobody publishes: who would may be waiting to hear that it can.

        Where there is room for a whole step it is full no longer; less would be gone at once.
        """
        frame = self.frame
        if frame is None or not self.full:
            return
        step = self.options.wal_chunk_octets
        if self.room() >= step:
            self.full = False
        else:
            self.grow(frame.file, frame.file.reserved + step)

    def append(self, log: QueueLog, block: Block) -> None:
        """Take a sealed block of a durable log; there must have been room for it."""
        frame = self.frame
        assert frame is not None
        frame.add_block(log, block)

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        """Write something down for recovery to give back; if not urgent, with the next commit that is."""
        frame = self.frame
        assert frame is not None and kind not in OWN_KINDS
        frame.add_note(kind, queue, group, payload)
        if urgent or frame.hurried:
            frame.urgent = True

    def hurry(self) -> None:
        """From here on every note of this turn is urgent."""
        frame = self.frame
        assert frame is not None
        frame.hurried = True

    def due_lsn(self) -> int:
        """The lsn at which all that was appended or urgently noted in this turn is durable."""
        frame = self.frame
        return self.lsn if frame is not None and frame.urgent else self.durable

    def settled_lsn(self) -> int:
        """The lsn at which every urgent note so far is durable, those under way included."""
        frame = self.frame
        return self.lsn if frame is not None and frame.urgent else self.lsn - 1

    def rewriting(self, queue: int) -> Job | None:
        """The background work that rewrites a file of this log just now, if any does."""
        job = self.job_running
        if job is not None:
            for rewrite in job.rewrites:
                if rewrite.log.queue == queue:
                    return job
        return None

    def pending(self) -> int:
        """Octets that are accepted but not on the disk yet."""
        running = self.commit_running
        octets = 0 if self.frame is None else self.frame.octets
        for frame in self.ready:
            octets += frame.octets
        return octets if running is None else octets + running.octets

    def in_flight(self) -> bool:
        """A commit has been given out and is not back."""
        return self.commit_running is not None

    def commit(self) -> Commit | None:
        """The commit to write and sync now, if somebody waits for it and the last one is back."""
        frame = self.frame
        if frame is None or self.commit_running is not None or not (frame.urgent or self.ready):
            return None
        return self.flush()

    def flush(self) -> Commit | None:
        """As `commit`, also for what nobody waits for."""
        frame = self.frame
        if frame is None or self.commit_running is not None:
            return None
        frames = self.ready
        if (frame.pieces or frame.flags) and self.fits(frame):
            frames = [*frames, frame]
            frame.file.tail = frame.end()
            self.lsn += 1
            self.frame = GatheredFrame(self.lsn, frame.file, 0)
        if not frames:
            return None
        self.ready = []
        # The old file may be cut only when the new one has its name.
        finished = self.finished if frames[-1].file is not self.finished else None
        if finished is not None:
            self.finished = None
        self.commit_running = Commit(self.disk, frames, finished)
        return self.commit_running

    def fits(self, frame: GatheredFrame) -> bool:
        """True if the file has room for a frame. Notes beyond all margins wait in memory, whole frames at a time."""
        return frame.end() <= frame.file.reserved or self.grow(frame.file, frame.end())

    def synced(self, commit: Commit) -> int:
        """A commit is back from the disk; the number of the last frame that is durable now."""
        assert commit is self.commit_running and commit.ran
        self.commit_running = None
        self.durable = commit.lsn
        for frame in commit.frames:
            ends = frame.ends
            for at, log in enumerate(frame.logs):
                log.durable_end = ends[at]
        return self.durable

    # ---- changing files

    def checkpoint_due(self) -> bool:
        """The active WAL file should be the last no longer: have the user's state and `rotate`."""
        frame = self.frame
        if frame is None or self.finished is not None or not frame.file.named:
            return False
        if self.clock.now_us() < self.rotate_after_us:
            return False
        # A file has room for as much again as its checkpoint: else a long one would be followed by the next at once.
        if frame.end() >= max(self.options.wal_octets_max, 2 * self.checkpoint_end):
            return True
        if not self.full or self.spare is None:
            return False
        if frame.end() > frame.file.reserved:
            return True
        return frame.file.blocks.blocks == 0 and frame.file.reserved > 2 * self.spare_octets

    def rotate(self, checkpoint: list[FrameEntry]) -> bool:
        """Begin a new WAL file with the user's state, all that was noted included; False if the disk is full."""
        frame = self.frame
        assert frame is not None and self.finished is None
        file = None
        if not frame.logs or self.fits(frame):
            first_lsn = self.lsn + 1 if frame.logs else self.lsn
            file = self.make_wal(self.checkpoint_octets(checkpoint), first_lsn)
        if file is None:
            self.rotate_after_us = self.clock.now_us() + RETRY_US
            return False
        old = frame.file
        if frame.logs:
            old.tail = frame.end()
            self.ready.append(frame)
            self.lsn += 1
        # Without blocks the frame held only what the checkpoint says.
        old.full = True
        old.full_us = self.clock.now_us()
        self.finished = old
        self.begin_file(file, checkpoint)
        return True

    def checkpoint_octets(self, checkpoint: list[FrameEntry]) -> int:
        entries = 0
        for entry in checkpoint:
            entries += PIECE_OCTETS + len(entry.payload) + 8
        starts = len(self.logs.stored) * (2 * PIECE_OCTETS + START_OCTETS_MAX)
        files = SPAN_OCTETS * self.logs.segment_totals()[0] + PIECE_OCTETS + NUMBER_OCTETS * (len(self.wals) + 1)
        octets = FILE_HEAD_OCTETS + FRAME_HEAD_OCTETS + entries + starts + files
        # The next file made ahead must take a checkpoint even if there is no more room than that.
        self.spare_octets = 2 * (octets + self.options.settle_margin_octets + ROOM_SLACK_OCTETS)
        return octets

    def make_wal(self, octets: int, first_lsn: int) -> WalFile | None:
        """A new WAL file with room for so many octets, the spare one if there is one; None if the disk is full."""
        number = self.next_wal
        if self.spare is not None:
            _, handle, reserved = self.spare
            if reserved < octets:
                try:
                    self.disk.reserve(handle, octets)
                except DiskFull:
                    return None
                reserved = octets
            self.spare = None
        else:
            reserved = max(octets + self.options.settle_margin_octets, self.spare_octets)
            job = self.job_running
            if job is not None and job.spare is not None:
                number = self.next_wal = number + 1  # the job is making the one of this number
            handle = self.disk.open(spare_path(number), True)
            try:
                self.disk.reserve(handle, reserved)
            except DiskFull:
                self.disk.close(handle)
                self.disk.remove(spare_path(number))
                return None
        self.next_wal = number + 1
        file = BlockFile(number, wal_path(number), handle, True)
        self.logs.files.add(file)
        salt = crc32c(b"%d %d" % (number, self.clock.now_us()))
        return WalFile(FileHead(number, salt, first_lsn), file, FILE_HEAD_OCTETS, reserved, False)

    def begin_file(self, file: WalFile, checkpoint: list[FrameEntry]) -> None:
        """Gather the first frame of a file."""
        frame = GatheredFrame(self.lsn, file, CHECKPOINT)
        self.wals.append(file)
        frame.add_note(WALS, 0, 0, wals_payload(self.required_wals()))
        for queue, stored in self.logs.stored.items():
            log = stored.log
            if log.durable:
                # Blocks before `end` are in frames before this one, or in it: none is missing once this one is there.
                frame.add_note(START, queue, 0, encode_bounds(log))
            if stored.segments:
                frame.add_note(SEGMENTS, queue, 0, segments_payload(stored))
        for entry in checkpoint:
            frame.add_note(entry.kind, entry.queue, entry.group, entry.payload)
        frame.urgent = True
        self.frame = frame
        self.checkpoint_end = frame.end()

    def required_wals(self) -> list[int]:
        """Numbers of the WAL files that must be there: of all but those about to be removed."""
        return [wal.head.number for wal in self.wals if not wal.empty_lsn]

    # ---- housekeeping

    def plan(self, liveness: Liveness, now_us: int) -> Job | None:
        """The next piece of background work, if there is any and the last one is back."""
        if self.frame is None or self.job_running is not None:
            return None
        self.note_starts()
        job = Job(self.disk, self.options.segment_octets_max)
        if now_us >= self.job_after_us:
            job.manifest = self.plan_manifest()
        self.plan_removals(job)
        job.name = self.logs.unnamed()[:NAMES_MAX]
        if self.spare is None:
            job.spare = (spare_path(self.next_wal), self.spare_octets)
        if now_us >= self.job_after_us:
            self.plan_wal(job, liveness, now_us)
            if not job.rewrites:
                self.logs.plan_segments(job, liveness)
            job.name += self.logs.unnamed_of(job, len(job.name))
        if not (job.manifest or job.remove or job.drop or job.name or job.spare or job.rewrites):
            return None
        self.job_running = job
        return job

    def plan_manifest(self) -> Manifest | None:
        """The manifest's new content since the last change of files; None if that is in it."""
        head = self.wals[-1].head
        if self.durable < head.first_lsn or (self.manifest is not None and self.manifest.wal == head.number):
            return None
        return Manifest(head.number, head.first_lsn, False)

    def note_starts(self) -> None:
        """Write down where logs start now, so that what was purged or expired does not come back."""
        for log in moved_logs(self.logs.stored):
            self.note_start(log)

    def note_start(self, log: QueueLog) -> None:
        """As `note_starts`, of one log."""
        frame = self.frame
        assert frame is not None
        if log.durable and (log.start != log.start_noted or log.kept != log.kept_noted):
            frame.add_note(START, log.queue, 0, encode_bounds(log))
            frame.urgent = frame.urgent or frame.hurried

    def plan_removals(self, job: Job) -> None:
        """Files of which no log holds a block any more; where that came of a note, once the note is on the disk."""
        active = self.wals[-1]
        frame = self.frame
        assert frame is not None
        if self.durable >= active.head.first_lsn:
            empty = [wal for wal in self.wals[:-1] if wal.blocks.blocks == 0 and wal is not self.finished]
            named = [wal for wal in empty if not wal.empty_lsn]
            for wal in named:
                wal.empty_lsn = self.lsn
            if named:
                frame.add_note(WALS, 0, 0, wals_payload(self.required_wals()))
            for wal in empty:
                if wal.empty_lsn <= self.durable:
                    self.wals.remove(wal)
                    self.logs.files.forget(wal.blocks)
                    job.remove.append(wal.blocks.path)
        job.remove += self.logs.dead_segments(self.durable)
        self.bury_segments(frame)
        job.drop = [queue for queue, lsn in self.dropped if lsn <= self.durable]
        self.dropped = [(queue, lsn) for queue, lsn in self.dropped if lsn > self.durable]

    def bury_segments(self, frame: GatheredFrame) -> None:
        """Note that the segments which hold nothing any more need not be there."""
        for stored in self.logs.bury_segments(self.lsn):
            frame.add_note(SEGMENTS, int(stored.log.queue), 0, segments_payload(stored))

    def plan_wal(self, job: Job, liveness: Liveness, now_us: int) -> None:
        """Copy what is wanted of the oldest full WAL file."""
        wal = self.wals[0]
        age_us = self.options.rewrite_age_us
        if not wal.full or wal is self.finished or self.durable < self.wals[-1].head.first_lsn:
            return
        if now_us - wal.full_us < age_us:
            return
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
                job.rewrites.append(Rewrite(stored.log, entries, files, wanted, first, end, False))

    def done(self, job: Job, error: BaseException | None = None) -> None:
        """A job is back. An error other than a full disk is raised again: the disk or a file on it is not sound."""
        assert job is self.job_running
        self.job_running = None
        if job.spare_handle >= 0:
            assert job.spare is not None
            self.take_spare(job.spare[0], job.spare_handle, job.spare[1])
        if error is not None:
            raise error
        for log in job.name:
            self.logs.named(log)
        if job.manifest is not None and not job.full:
            self.manifest = job.manifest
        if job.full:
            self.job_after_us = self.clock.now_us() + JOB_RETRY_US
        for rewrite in job.rewrites:
            if not self.logs.take_rewrite(rewrite):
                # Its folder went while the job was on its way, which has made it anew.
                self.dropped.append((rewrite.log.queue, self.durable))
            elif rewrite.made:
                assert self.frame is not None
                payload = segments_payload(self.logs.stored[rewrite.log.queue])
                self.frame.add_note(SEGMENTS, rewrite.log.queue, 0, payload)

    def take_spare(self, path: str, handle: int, octets: int) -> None:
        number = self.next_wal
        if path == spare_path(number):
            self.spare = (number, handle, octets)
        else:  # a change of files overtook it
            self.disk.close(handle)
            self.disk.remove(path)

    # ---- the end

    def close(self) -> None:
        """Say that all is well, after the last commit is back, and close every file."""
        frame = self.frame
        if frame is not None:
            if self.commit_running is not None:
                raise StorageError("the store is closed while a commit is on its way to the disk")
            if self.job_running is None:
                self.bury_segments(frame)
            while (commit := self.flush()) is not None:
                commit.run()
                self.synced(commit)
            for path in self.logs.dead_segments(self.durable):
                self.disk.remove(path)
            self.write_clean()
        for file in list(self.logs.files.files.values()):
            self.logs.files.forget(file)
        if self.spare is not None:
            number, handle, _ = self.spare
            self.disk.close(handle)
            self.disk.remove(spare_path(number))
        self.frame = None

    def write_clean(self) -> None:
        frame = self.frame
        assert frame is not None
        file = frame.file
        if not frame.pieces and self.fits(frame):  # not if the disk is full: then the log ends as after a crash
            frame.flags = CLEAN
            Commit(self.disk, [frame], None).run()
            file.tail = frame.end()
            self.durable = frame.lsn
        self.disk.truncate(file.blocks.handle, file.tail)
        self.disk.sync(file.blocks.handle)
        self.write_manifest(Manifest(file.head.number, self.durable, True))


def encode_bounds(log: QueueLog) -> bytes:
    """The payload of a log's START; from here on the log counts as noted so."""
    log.start_noted = log.start
    log.kept_noted = log.kept
    return encode_start(log.kept, log.end, log.start)
