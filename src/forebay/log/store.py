"""The store: every queue's log over one write-ahead log and each queue's segments.

Only the event loop writes to the store. Slow work is returned as an object to run on another thread: `Commit` (write
and sync) on the disk thread, `Job` (housekeeping) on a background thread. `synced` and `done` take their results.

The store of a single node commits a frame once its own disk has it. A replicated store commits a frame when
`commit_to` says so: by then the disks of all in-sync replicas have it (`written`, `commit_to`).

A record is appended to the WAL and is durable once its frame is synced. When its WAL file is full and the record is
still needed, it is copied to a segment of its queue. A file is removed once nothing in it is needed.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from forebay.core.errors import DiskFull, StorageError
from forebay.core.ports import Clock, Disk
from forebay.core.stored.entry_kinds import START
from forebay.log.block import Block
from forebay.log.frame import CHECKPOINT, CLEAN, DROPPED, SEGMENTS, WALS, FrameEntry
from forebay.log.housekeeping import Job, Liveness
from forebay.log.logs import Logs
from forebay.log.planning import Planner, note_start
from forebay.log.queue_log import QueueLog
from forebay.log.recovery.opening import Opening
from forebay.log.recovery.replay import FrameReplay
from forebay.log.replication.copying import Snapshot, written_tails
from forebay.log.replication.mirror import ForeignLog, Mirror, MirrorCommit, Mismatch
from forebay.log.replication.outgoing import Outgoing, file_of, runs_of
from forebay.log.replication.told import FileOrder, Intervals, ToldLiveness
from forebay.log.replication.uncommitted import Uncommitted
from forebay.log.room import RETRY_US, Growth, LogRoom
from forebay.log.shipment import Shipment
from forebay.log.stored import Recovery, StoreOptions
from forebay.log.wal import FOLDER, Commit, GatheredFrame, WalFile
from forebay.log.wal_maker import WalMaker

__all__ = ["Commit", "FrameEntry", "Growth", "Job", "Liveness", "QueueLog", "Recovery", "Store", "StoreOptions"]

OWN_KINDS: Final = (START, SEGMENTS, WALS, DROPPED)  # the store's own notes; all other kinds are the user's


@mypyc_attr(allow_interpreted_subclasses=True)
class Store:
    """The logs of all queues of a broker. Call `open`, `create_log` and `start` in this order, before all else.

    lsn      number of the frame being gathered: what is appended or noted now is durable when `durable` >= lsn
    durable  number of the last frame that cannot be lost: on the disk, and of a replicated store committed
    on_disk  number of the last frame that is on this node's disk
    given_us  when the last commit was given out; `took_us`: how long the last finished commit took
    no_answer  the disk has been silent for so long that the node has reported it
    epoch    of the frame being gathered
    recovered  of a replicated store: once this frame is committed, so is all that the folder held before `start`
    log_room  room on the disk; where room is reserved ahead, call `log_room.take_due` once a turn
    """

    def __init__(self, disk: Disk, clock: Clock, options: StoreOptions, replicated: bool = False) -> None:
        self.disk = disk
        self.clock = clock
        self.options = options
        self.replicated = replicated
        self.logs = Logs(disk, options)
        self.maker = WalMaker(disk, clock, options, self.logs.files)
        self.planner = Planner(disk, clock, options, self.logs, self.maker, replicated)
        self.outgoing = Outgoing(disk, options.recent_octets_max)
        self.mirror: Mirror | None = None  # while this node follows a leader
        self.replay = FrameReplay(self.logs)
        self.wals: list[WalFile] = []  # oldest first, the active one last
        self.frame: GatheredFrame | None = None  # None until `start`
        self.ready: list[GatheredFrame] = []  # complete frames of a file that is full now
        self.finished: WalFile | None = None  # a file that the next commit is the last of
        self.commit_running: Commit | None = None
        self.job_running: Job | None = None
        self.lsn = 1
        self.durable = 0
        self.on_disk = 0
        self.given_us = 0
        self.took_us = 0
        self.no_answer = False
        self.epoch = 0
        self.uncommitted = Uncommitted()
        self.recovered = 0
        self.log_room = LogRoom(disk, clock, options, self.maker)
        self.checkpoint_end = 0  # where the active WAL file goes on behind its checkpoint
        self.rotate_after_us = 0

    # ---- opening

    def open(self) -> Recovery:
        """Read the store's folder. Raises CorruptFile if data that may have been confirmed is not as it was written.

        A replicated store does not know yet which of the frames are committed.
        """
        opening = Opening(self.disk, self.logs)
        recovery = opening.run()
        self.adopt(opening)
        self.durable = 0 if self.replicated else opening.lsn
        return recovery

    def adopt(self, opening: Opening) -> None:
        """Take over the logs, WAL files and position that `opening` found in the folder."""
        for wal in opening.wals:
            wal.full_us = self.clock.now_us()
        self.logs = opening.logs
        self.planner.adopt(opening)
        self.wals = opening.wals
        self.replay = opening.replay
        self.go_on_behind(opening.lsn)

    def go_on_behind(self, lsn: int) -> None:
        """Continue numbering after frame `lsn`, the last one in the log."""
        self.lsn = lsn + 1
        self.on_disk = self.outgoing.last = lsn
        if self.wals:
            self.maker.next_number = self.wals[-1].head.number + 1
            self.epoch = self.wals[-1].epoch

    def start(self, checkpoint: list[FrameEntry], epoch: int = -1) -> None:
        """Begin a WAL file with the user's state. From then on the store accepts writes.

        Drops every recovered log that `create_log` was not called for. Raises DiskFull if the file has no room.

        epoch  in which this node leads; a single node goes on with the epoch of the last frame by default
        """
        assert self.frame is None
        assert epoch == -1 if not self.replicated else epoch > self.epoch, f"epoch {epoch} after {self.epoch}"
        assert self.mirror is None, "a follower takes over by `recovery`"
        if self.replicated:
            self.epoch = epoch
            self.finished = self.wals[-1] if self.wals else None
        for queue in [queue for queue, stored in self.logs.stored.items() if not stored.claimed]:
            self.logs.forget(queue, [])
            self.planner.dropped.append((queue, self.lsn))
        self.disk.make_folder(FOLDER)
        self.planner.begin(self.wals)
        file = self.maker.make(self.planner.checkpoint_octets(checkpoint, self.wals), self.lsn, self.epoch, False)
        if file is None:
            raise DiskFull(f"{self.disk.path(FOLDER)}: no room to begin a WAL file")
        self.begin_file(file, checkpoint)
        commit = self.commit()
        assert commit is not None
        commit.run()
        if self.replicated:
            self.recovered = self.written(commit)
            return
        self.synced(commit)
        self.planner.begun(file)

    # ---- logs

    def create_log(self, queue: int, name: str, durable: bool) -> QueueLog:
        """Return the log of a queue, new or as recovered. A log that is not durable lives in memory only."""
        return self.logs.create(queue, name, durable)

    def drop_log(self, queue: int) -> None:
        """Drop a log and all its records. Its files are removed once that is on the disk."""
        stored = self.logs.stored.get(queue)
        if stored is None:
            return
        self.logs.forget(queue, self.job_running.sources() if self.job_running is not None else [])
        if stored.log.durable:
            if self.frame is not None:
                self.frame.add_note(DROPPED, queue, 0, b"")
            self.planner.dropped.append((queue, self.lsn))

    # ---- writing

    def room(self) -> int:
        """Return how many bytes of messages may be accepted before `reserve` must be called."""
        assert self.frame is not None
        return self.log_room.left(self.frame)

    def reserve(self, octets: int) -> bool:
        """Reserve room for `octets` bytes of messages, and return False if the disk is full."""
        assert self.frame is not None
        return self.log_room.reserve(self.frame, octets)

    @property
    def full(self) -> bool:
        """Return whether the disk had no room at the last request."""
        return self.log_room.full

    def look_for_room(self) -> None:
        """Retry a full disk, so that it counts as full no longer even if nobody publishes."""
        if self.frame is not None:
            self.log_room.look_again(self.frame)

    def grown(self, growth: Growth, error: BaseException | None = None) -> None:
        """Record the result of reserving room for `log_room`. Raises `error` again if there is one."""
        self.rotate_after_us = 0
        self.log_room.grown(growth, error)
        if self.log_room.full:
            self.rotate_after_us = self.clock.now_us() + RETRY_US

    def append(self, log: QueueLog, block: Block) -> None:
        """Append a sealed block of a durable log to the frame being gathered. Reserve room for it first."""
        frame = self.frame
        assert frame is not None
        frame.add_block(log, block)

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        """Add an entry for recovery to the WAL. If it is not urgent, it is written with the next urgent commit."""
        frame = self.frame
        assert frame is not None and kind not in OWN_KINDS
        frame.add_note(kind, queue, group, payload)
        if urgent or frame.hurried:
            frame.urgent = True

    def hurry(self) -> None:
        """Make every further note of this turn urgent."""
        frame = self.frame
        assert frame is not None
        frame.hurried = True

    def due_lsn(self) -> int:
        """Return the lsn at which all that was appended or urgently noted in this turn is durable."""
        frame = self.frame
        return self.lsn if frame is not None and frame.urgent else self.durable

    def settled_lsn(self) -> int:
        """Return the lsn at which every urgent note so far is durable, notes in commits under way included."""
        frame = self.frame
        return self.lsn if frame is not None and frame.urgent else self.lsn - 1

    def rewriting(self, queue: int) -> Job | None:
        """Return the running job if it rewrites a file of this queue's log, else None."""
        job = self.job_running
        return job if job is not None and job.rewrites_log(queue) else None

    def pending(self) -> int:
        """Return how many bytes are accepted but not durable yet."""
        running = self.commit_running
        octets = self.uncommitted.octets if self.frame is None else self.uncommitted.octets + self.frame.octets
        for frame in self.ready:
            octets += frame.octets
        return octets if running is None else octets + running.octets

    def in_flight(self) -> bool:
        """Return whether a commit has been given out and has not finished."""
        return self.commit_running is not None

    def commit(self) -> Commit | None:
        """Return the commit to write now, or None if nothing is urgent or the last commit is not finished."""
        if self.mirror is not None:
            if self.commit_running is not None:
                return None
            self.commit_running = self.mirror.flush()
            self.given_us = self.clock.now_us()
            return self.commit_running
        frame = self.frame
        if frame is None or self.commit_running is not None or not (frame.urgent or self.ready):
            return None
        return self.flush()

    def flush(self) -> Commit | None:
        """Return the next commit as `commit` does, but also if nothing in it is urgent."""
        if self.mirror is not None:
            return self.commit()
        frame = self.frame
        if frame is None or self.commit_running is not None:
            return None
        frames = self.ready
        if (frame.pieces or frame.flags) and self.log_room.fits(frame):
            frames = [*frames, frame]
            frame.file.tail = frame.end()
            self.lsn += 1
            self.frame = GatheredFrame(self.lsn, frame.file, 0)
        if not frames:
            return None
        self.ready = []
        # The old file may be truncated only once the new one has its lasting name.
        finished = self.finished if frames[-1].file is not self.finished else None
        if finished is not None:
            self.finished = None
        if self.replicated:
            for each in frames:
                self.outgoing.add(each)
        self.commit_running = Commit(self.disk, frames, finished)
        self.given_us = self.clock.now_us()
        return self.commit_running

    def synced(self, commit: Commit) -> int:
        """Record that a single node's commit is on the disk, and return the number of the last durable frame."""
        assert commit is self.commit_running and commit.ran and not self.replicated
        self.commit_running = None
        self.took_us = self.clock.now_us() - self.given_us
        self.durable = self.on_disk = commit.lsn
        for frame in commit.frames:
            ends = frame.ends
            for at, log in enumerate(frame.logs):
                log.durable_end = ends[at]
        return self.durable

    def written(self, commit: Commit) -> int:
        """Record that a replicated store's commit is on this disk, and return its last lsn. The next commit may follow.

        Nothing becomes durable by this call: `commit_to` says what is.
        """
        assert commit is self.commit_running and commit.ran and self.replicated
        self.commit_running = None
        self.took_us = self.clock.now_us() - self.given_us
        if isinstance(commit, MirrorCommit):
            self.take_mirrored(commit)
            return self.on_disk
        self.on_disk = commit.lsn
        self.uncommitted.add(commit)
        self.outgoing.trim(commit.lsn)
        return commit.lsn

    def take_mirrored(self, commit: MirrorCommit) -> None:
        """Record that a follower's frames are on the disk, or adopt the folder as read again after a truncation."""
        mirror = self.mirror
        assert mirror is not None
        if commit.opening is not None:
            for file in list(self.logs.files.files.values()):
                self.logs.files.forget(file)
            self.adopt(commit.opening)
            self.mirror = self.new_mirror()
            self.mirror.commit_to(self.durable)
        else:
            mirror.written(commit)
            self.on_disk = mirror.on_disk

    def not_written(self, commit: Commit) -> None:
        """Truncate the log after the last frame on the disk, because a follower's commit found the disk full."""
        assert commit is self.commit_running and isinstance(commit, MirrorCommit) and self.mirror is not None
        self.commit_running = None
        self.mirror.not_written(commit)
        self.on_disk = self.mirror.on_disk

    def commit_to(self, lsn: int) -> None:
        """Commit a replicated store's frames up to `lsn`, which all in-sync replicas have on their disks."""
        assert self.replicated and lsn <= self.on_disk, f"frame {lsn} of {self.on_disk} cannot be committed"
        if lsn <= self.durable:
            return
        self.durable = lsn
        if self.mirror is not None:
            self.mirror.commit_to(lsn)
            return
        self.uncommitted.commit_to(lsn)

    # ---- replication

    def follow(self) -> None:
        """Become a follower of the leader, after `open`. Raises ForeignLog if the folder holds another log."""
        assert self.replicated and self.frame is None and self.mirror is None
        if self.planner.inventory is None and (self.wals or self.logs.stored):
            text = "the folder was written by a node alone: what is in it is not the log of its cluster"
            raise ForeignLog(f"{self.disk.path(FOLDER)}: {text}")
        self.disk.make_folder(FOLDER)
        self.planner.begin(self.wals)
        self.mirror = self.new_mirror()

    def new_mirror(self) -> Mirror:
        return Mirror(self.disk, self.clock, self.options, self.planner, self.wals, self.replay)

    def take(self, prev_lsn: int, prev_epoch: int, shipments: list[Shipment]) -> Mismatch | None:
        """Append the leader's frames that follow frame `prev_lsn` of `prev_epoch`; (0, 0) for the first of all.

        Frames that are here are skipped. Where this log has other frames, these are truncated, as the leader is right.
        Write what `commit` returns. Once that has finished, or if it returns None, `on_disk` is the last of the
        leader's frames that is here without a gap. On a Mismatch earlier frames may have been taken.
        """
        mirror = self.mirror
        assert mirror is not None
        refused = mirror.take(prev_lsn, prev_epoch, shipments)
        self.on_disk = mirror.on_disk
        return refused

    def recovery(self) -> Recovery:
        """Return all that is on the disk, committed or not, as `open` does, to take over as leader. Call `start` next.

        No commit or job may be running, and `commit` returns nothing more until `start`.
        """
        mirror = self.mirror
        assert mirror is not None and self.commit_running is None and self.job_running is None
        mirror.finish()
        self.mirror = None
        self.go_on_behind(mirror.on_disk)
        for wal in self.wals:
            wal.full = True
        return Recovery(self.replay.entries, {queue: each.log for queue, each in self.logs.stored.items()}, [])

    def end(self) -> tuple[int, int]:
        """Return epoch and LSN of the last frame that was given to the disk or taken, or (0, 0) if there is none."""
        mirror = self.mirror
        if mirror is not None:
            return mirror.end_epoch, mirror.end
        lsn = self.outgoing.last
        return self.epoch_of(lsn) or 0, lsn

    def epoch_of(self, lsn: int) -> int | None:
        """Return the epoch of frame `lsn`, or None if no WAL file holds it."""
        wal = file_of(self.wals, lsn)
        return None if wal is None else wal.epoch

    def runs(self) -> list[tuple[int, int, int]]:
        """Return (epoch, first LSN, last LSN) of each epoch, newest first; a follower's where it can truncate."""
        return runs_of(self.wals, 0) if self.mirror is None else self.mirror.runs()

    def frames_from(self, lsn: int, octets_max: int) -> list[Shipment] | None:
        """Return the frames written since `lsn`, inclusive. Returns None if no WAL file holds that frame any more.

        At most `octets_max` bytes, unless the first frame alone is longer. Raises CorruptFile if a file is damaged.
        """
        return self.outgoing.frames_from(self.wals, lsn, octets_max)

    # ---- changing files

    def checkpoint_due(self) -> bool:
        """Return whether the active WAL file is full enough to begin another one with `rotate`."""
        frame = self.frame
        if frame is None or self.finished is not None or not frame.file.named:
            return False
        if self.clock.now_us() < self.rotate_after_us or self.log_room.growing is not None:
            return False
        # At least twice the checkpoint: a file with a long checkpoint would be full as soon as it is begun.
        if frame.end() >= max(self.options.wal_octets_max, 2 * self.checkpoint_end):
            return True
        if not self.full or self.maker.spare is None:
            return False
        if frame.end() > frame.file.reserved:
            return True
        return frame.file.blocks.blocks == 0 and frame.file.reserved > 2 * self.maker.spare_octets

    def rotate(self, checkpoint: list[FrameEntry]) -> bool:
        """Begin a new WAL file with the user's state, all notes so far included. Returns False if the disk is full."""
        frame = self.frame
        assert frame is not None and self.finished is None
        file = None
        if not frame.logs or self.log_room.fits(frame):
            first_lsn = self.lsn + 1 if frame.logs else self.lsn
            octets = self.planner.checkpoint_octets(checkpoint, self.wals)
            is_busy = self.job_running is not None and self.job_running.spare is not None
            if not self.log_room.is_ahead or self.log_room.ask_for_file(octets, is_busy):
                file = self.maker.make(octets, first_lsn, self.epoch, is_busy)
        if file is None:
            self.rotate_after_us = self.clock.now_us() + RETRY_US
            return False
        old = frame.file
        if frame.logs:
            old.tail = frame.end()
            self.ready.append(frame)
            self.lsn += 1
        # A frame without blocks is discarded, because the checkpoint says all that it held.
        old.full = True
        old.full_us = self.clock.now_us()
        self.finished = old
        self.begin_file(file, checkpoint)
        return True

    def begin_file(self, file: WalFile, checkpoint: list[FrameEntry]) -> None:
        """Start the first frame of a WAL file with the checkpoint."""
        frame = GatheredFrame(self.lsn, file, CHECKPOINT)
        self.wals.append(file)
        self.planner.note_files(frame, self.wals)
        for entry in checkpoint:
            frame.add_note(entry.kind, entry.queue, entry.group, entry.payload)
        frame.urgent = True
        self.frame = frame
        self.checkpoint_end = frame.end()

    # ---- housekeeping

    def plan(self, liveness: Liveness, now_us: int) -> Job | None:
        """Return the next job, or None if there is none or one runs. Note first all that `liveness` no longer needs."""
        if self.frame is None:
            return None
        self.planner.order_all(self.frame, liveness)
        if self.job_running is not None:
            return None
        if self.full:
            self.planner.give_up_copies()  # the files that a snapshot keeps take the room that messages need
        return self.run_job(self.planner.plan(self.frame, self.wals, self.finished, self.durable, liveness, now_us))

    def note_starts(self) -> None:
        """Note in the WAL where logs start now, so that purged or expired records do not come back."""
        assert self.frame is not None
        self.planner.note_starts(self.frame)

    def note_start(self, log: QueueLog) -> None:
        """Note in the WAL where one log starts now: see `note_starts`."""
        assert self.frame is not None
        note_start(self.frame, log)

    def done(self, job: Job, error: BaseException | None = None) -> None:
        """Take over the result of a finished job. Raises `error` again: anything but a full disk means a disk fault."""
        assert job is self.job_running
        self.job_running = None
        if job.spare_handle >= 0:
            assert job.spare is not None
            self.maker.take_spare(job.spare[0], job.spare_handle, job.spare[1])
            self.rotate_after_us = 0
        if error is not None:
            raise error
        self.replay.busy = []
        self.planner.done(job, self.frame, self.durable)

    def keep_from(self, lsn: int, is_copied: bool = False) -> None:
        """Keep WAL files from frame `lsn` on, within bounds, for members that catch up or (`is_copied`) copy."""
        self.planner.keep_lsn, self.planner.keep_all = lsn, is_copied

    def orders(self) -> list[FileOrder]:
        """Return the rewrite orders for followers that have become committed since the last call."""
        return self.planner.take_orders(self.durable)

    def order_all(self) -> None:
        """Request an order about all files; the next `plan` makes it."""
        self.planner.order_all_due = True

    def snapshot(self) -> Snapshot | None:
        """Return the files as they are, unchanged until `release`. Returns None while a job runs: try again."""
        if self.job_running is not None:
            return None
        frames = self.ready if self.commit_running is None else [*self.commit_running.frames, *self.ready]
        return self.planner.snapshot(self.wals, written_tails(self.wals, frames), self.on_disk, self.durable)

    def release(self, snapshot: Snapshot) -> None:
        """End a snapshot whose copy is done or given up: its files may change again."""
        self.planner.release(snapshot)

    def plan_as_told(self, number: int, wanted: dict[int, Intervals]) -> Job | None:
        """Return a follower's job for an order, or None if the order has to wait for a job or an older file."""
        mirror = self.mirror
        if mirror is None or self.job_running is not None:
            return None
        order = ToldLiveness(number, wanted)
        return self.run_job(
            self.planner.plan_as_told(self.wals, self.durable, mirror.opened, order, self.clock.now_us())
        )

    def plan_following(self) -> Job | None:
        """Return a follower's job that needs no order: remove empty files, write the inventory. None if one runs."""
        mirror = self.mirror
        if mirror is None or self.job_running is not None:
            return None
        return self.run_job(self.planner.plan_following(self.wals, self.durable, mirror.opened, self.clock.now_us()))

    def run_job(self, job: Job | None) -> Job | None:
        self.job_running, self.replay.busy = job, [] if job is None else job.sources()
        return job

    # ---- the end

    def close(self) -> None:
        """Mark the log as cleanly stopped and close every file. Call it after the last commit has finished.

        A replicated store writes nothing more: frames that no other node has would have to be truncated one day.
        """
        frame = self.frame
        if self.commit_running is not None:
            raise StorageError("the store is closed while a commit is on its way to the disk")
        if frame is not None and not self.replicated:
            if self.job_running is None:
                self.planner.drop_segments(frame, self.lsn)
            while (commit := self.flush()) is not None:
                commit.run()
                self.synced(commit)
            for path in self.logs.dead_segments(self.durable):
                self.disk.remove(path)
            self.write_clean()
        for file in list(self.logs.files.files.values()):
            self.logs.files.forget(file)
        self.maker.drop_spare()
        self.frame = None

    def write_clean(self) -> None:
        frame = self.frame
        assert frame is not None
        file = frame.file
        # Skipped if the disk is full: the log then ends as after a crash.
        if not frame.pieces and self.log_room.fits(frame):
            frame.flags = CLEAN
            Commit(self.disk, [frame], None).run()
            file.tail = frame.end()
            self.durable = self.on_disk = frame.lsn
        self.planner.end(file, self.durable)
