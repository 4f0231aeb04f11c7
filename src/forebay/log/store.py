"""The store: every queue's log over one write-ahead log and each queue's segments.

Written to by the loop alone. What takes long comes back as an object to run elsewhere: `Commit` (write and sync) on
the disk thread, `Job` (housekeeping) on a background thread; `synced` and `done` take their results in.

The store of a node that is alone commits what its disk has. A replicated one commits when it is told to: by then all
who are in sync have it (`written`, `commit_to`).

A record's way: appended to the WAL, durable by the sync of its frame; when its WAL file is full and something of it is
still wanted, copied to a segment of its queue; gone with its file once nobody wants anything of that.
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

OWN_KINDS: Final = (START, SEGMENTS, WALS, DROPPED)  # of notes; all others are the user's


@mypyc_attr(allow_interpreted_subclasses=True)
class Store:
    """See the contract of each method; in the order open, create_log ..., start, then everything else, then close.

    lsn      number of the frame being gathered: what is appended or noted now is durable when `durable` >= lsn
    durable  number of the last frame that cannot be lost: it is on the disk, of a replicated store committed
    on_disk  number of the last frame that is on this disk
    given_us  when the last commit was given out; `took_us`: how long the last that is back has taken
    no_answer  the disk has not answered for so long that the node has said so
    epoch    of what is gathered
    recovered  of a replicated store: what was there before `start` is committed once this frame is
    log_room  on the disk; `log_room.take_due` is to be asked once a turn where that is reserved ahead
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
        self.mirror: Mirror | None = None  # while it follows
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
        """Read what is there. CorruptFile if any of it is not as it was written and may have been confirmed.

        What of it is committed a replicated store does not know before it is told.
        """
        opening = Opening(self.disk, self.logs)
        recovery = opening.run()
        self.adopt(opening)
        self.durable = 0 if self.replicated else opening.lsn
        return recovery

    def adopt(self, opening: Opening) -> None:
        """Go on with what was found."""
        for wal in opening.wals:
            wal.full_us = self.clock.now_us()
        self.logs = opening.logs
        self.planner.adopt(opening)
        self.wals = opening.wals
        self.replay = opening.replay
        self.go_on_behind(opening.lsn)

    def go_on_behind(self, lsn: int) -> None:
        """The frame of this number is the last one there is."""
        self.lsn = lsn + 1
        self.on_disk = self.outgoing.last = lsn
        if self.wals:
            self.maker.next_number = self.wals[-1].head.number + 1
            self.epoch = self.wals[-1].epoch

    def start(self, checkpoint: list[FrameEntry], epoch: int = -1) -> None:
        """Begin a WAL file of this run with the user's state; from then on the store accepts writes.

        A log that was found but not created again is one that the user no longer knows: it is dropped.

        epoch  in which this node leads; by default, for a node that is alone, that of the last frame
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
            self.planner.dropped.append((queue, self.lsn))

    # ---- writing

    def room(self) -> int:
        """Octets of messages that may be accepted before `reserve` must be asked."""
        assert self.frame is not None
        return self.log_room.left(self.frame)

    def reserve(self, octets: int) -> bool:
        """Reserve room for so many octets of messages, and return False if the disk is full."""
        assert self.frame is not None
        return self.log_room.reserve(self.frame, octets)

    @property
    def full(self) -> bool:
        """True if the disk had no room when it was last asked."""
        return self.log_room.full

    def look_for_room(self) -> None:
        """Ask a disk that was full again, though nobody publishes."""
        if self.frame is not None:
            self.log_room.look_again(self.frame)

    def grown(self, growth: Growth, error: BaseException | None = None) -> None:
        """Take in that room was reserved for `log_room`, or that there is none; an error is raised again."""
        self.rotate_after_us = 0
        self.log_room.grown(growth, error)
        if self.log_room.full:
            self.rotate_after_us = self.clock.now_us() + RETRY_US

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
        """Make every note of this turn urgent from here on."""
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
        return job if job is not None and job.rewrites_log(queue) else None

    def pending(self) -> int:
        """Octets that are accepted but not durable yet."""
        running = self.commit_running
        octets = self.uncommitted.octets if self.frame is None else self.uncommitted.octets + self.frame.octets
        for frame in self.ready:
            octets += frame.octets
        return octets if running is None else octets + running.octets

    def in_flight(self) -> bool:
        """A commit has been given out and is not back."""
        return self.commit_running is not None

    def commit(self) -> Commit | None:
        """The commit to write and sync now, if somebody waits for it and the last one is back."""
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
        """The next commit as `commit`, also of what nobody waits for."""
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
        # The old file may be cut only when the new one has its name.
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
        """A commit is back from the disk of a node that is alone; the number of the last frame that is durable now."""
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
        """A commit is back from the disk of a replicated store, which may give out the next; the lsn of its last frame.

        Nothing is durable by that: `commit_to` says what is.
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
        """Frames from another node are on the disk, or the folder was read anew behind a cut."""
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
        """A follower's commit found the disk full: the frames of it, and those taken since, are not here."""
        assert commit is self.commit_running and isinstance(commit, MirrorCommit) and self.mirror is not None
        self.commit_running = None
        self.mirror.not_written(commit)
        self.on_disk = self.mirror.on_disk

    def commit_to(self, lsn: int) -> None:
        """The frames of a replicated store up to this one are committed: all who are in sync have them on the disk."""
        assert self.replicated and lsn <= self.on_disk, f"frame {lsn} of {self.on_disk} cannot be committed"
        if lsn <= self.durable:
            return
        self.durable = lsn
        if self.mirror is not None:
            self.mirror.commit_to(lsn)
            return
        self.uncommitted.commit_to(lsn)

    # ---- what others have and get

    def follow(self) -> None:
        """Take frames from the node that leads from here on. After `open`; ForeignLog if what is there is not of it."""
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
        """Take frames that stand behind this one at the node that leads; (0, 0) for the first of all.

        Those that are here are passed over; where this log has others they are cut away, as whoever leads is right.
        `commit` gives what is to be written. Once that is back, or if it gives nothing, `on_disk` says what of the
        leader's frames, without a gap, is here. None has been taken where it is refused, but maybe some before.
        """
        mirror = self.mirror
        assert mirror is not None
        refused = mirror.take(prev_lsn, prev_epoch, shipments)
        self.on_disk = mirror.on_disk
        return refused

    def recovery(self) -> Recovery:
        """All that is on the disk, committed or not, as `open` would give it: this node takes over, `start` is next.

        No commit may be on its way, nor a job, and `commit` gives nothing more.
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
        """Epoch and LSN of the last frame that was given to the disk, or taken; (0, 0) where there is none."""
        mirror = self.mirror
        if mirror is not None:
            return mirror.end_epoch, mirror.end
        lsn = self.outgoing.last
        return self.epoch_of(lsn) or 0, lsn

    def epoch_of(self, lsn: int) -> int | None:
        """The epoch of a frame; None where there is none of this number, or not any more."""
        wal = file_of(self.wals, lsn)
        return None if wal is None else wal.epoch

    def runs(self) -> list[tuple[int, int, int]]:
        """Epoch, first and last LSN of stretches of one epoch, newest first; of a follower as far as it could cut."""
        return runs_of(self.wals, 0) if self.mirror is None else self.mirror.runs()

    def frames_from(self, lsn: int, octets_max: int) -> list[Shipment] | None:
        """Frames that were given to the disk, beginning with this one; None: it is in no WAL file any more.

        At most so many octets, unless the first frame alone is longer; CorruptFile if a file is not as it was written.
        """
        return self.outgoing.frames_from(self.wals, lsn, octets_max)

    # ---- changing files

    def checkpoint_due(self) -> bool:
        """The active WAL file should be the last no longer: have the user's state and `rotate`."""
        frame = self.frame
        if frame is None or self.finished is not None or not frame.file.named:
            return False
        if self.clock.now_us() < self.rotate_after_us or self.log_room.growing is not None:
            return False
        # A file has room for as much again as its checkpoint: else a long one would be followed by the next at once.
        if frame.end() >= max(self.options.wal_octets_max, 2 * self.checkpoint_end):
            return True
        if not self.full or self.maker.spare is None:
            return False
        if frame.end() > frame.file.reserved:
            return True
        return frame.file.blocks.blocks == 0 and frame.file.reserved > 2 * self.maker.spare_octets

    def rotate(self, checkpoint: list[FrameEntry]) -> bool:
        """Begin a new WAL file with the user's state, all that was noted included; False if the disk is full."""
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
        # Without blocks the frame held only what the checkpoint says.
        old.full = True
        old.full_us = self.clock.now_us()
        self.finished = old
        self.begin_file(file, checkpoint)
        return True

    def begin_file(self, file: WalFile, checkpoint: list[FrameEntry]) -> None:
        """Gather the first frame of a file."""
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
        """The next work on files, if the last is back; all that this liveness does not want must have been noted."""
        if self.frame is None:
            return None
        self.planner.order_all(self.frame, liveness)
        if self.job_running is not None:
            return None
        if self.full:
            self.planner.give_up_copies()  # what they keep is what others need now
        return self.run_job(self.planner.plan(self.frame, self.wals, self.finished, self.durable, liveness, now_us))

    def note_starts(self) -> None:
        """Write down where logs start now, so that what was purged or expired does not come back."""
        assert self.frame is not None
        self.planner.note_starts(self.frame)

    def note_start(self, log: QueueLog) -> None:
        """Note where one log starts now: see `note_starts`."""
        assert self.frame is not None
        note_start(self.frame, log)

    def done(self, job: Job, error: BaseException | None = None) -> None:
        """A job is back. An error other than a full disk is raised again: the disk or a file on it is not sound."""
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
        """Keep WAL files from this frame on for members that catch up, within bounds; `is_copied`: one makes a copy."""
        self.planner.keep_lsn, self.planner.keep_all = lsn, is_copied

    def orders(self) -> list[FileOrder]:
        """The orders for followers to rewrite files that may go out since the last call."""
        return self.planner.take_orders(self.durable)

    def order_all(self) -> None:
        """Have an order among them, from the next `plan` on, that is about all files."""
        self.planner.order_all_due = True

    def snapshot(self) -> Snapshot | None:
        """The files as they are, none of which goes or changes until `release`; None while a job runs: try again."""
        if self.job_running is not None:
            return None
        frames = self.ready if self.commit_running is None else [*self.commit_running.frames, *self.ready]
        return self.planner.snapshot(self.wals, written_tails(self.wals, frames), self.on_disk, self.durable)

    def release(self, snapshot: Snapshot) -> None:
        """A copy of the files is done, or given up."""
        self.planner.release(snapshot)

    def plan_as_told(self, number: int, wanted: dict[int, Intervals]) -> Job | None:
        """A follower's work by an order; None: a job runs, or another file is older and the order is to be kept."""
        mirror = self.mirror
        if mirror is None or self.job_running is not None:
            return None
        order = ToldLiveness(number, wanted)
        return self.run_job(
            self.planner.plan_as_told(self.wals, self.durable, mirror.opened, order, self.clock.now_us())
        )

    def plan_following(self) -> Job | None:
        """A follower's work that needs no order: files that hold nothing any more, and what must be there."""
        mirror = self.mirror
        if mirror is None or self.job_running is not None:
            return None
        return self.run_job(self.planner.plan_following(self.wals, self.durable, mirror.opened, self.clock.now_us()))

    def run_job(self, job: Job | None) -> Job | None:
        self.job_running, self.replay.busy = job, [] if job is None else job.sources()
        return job

    # ---- the end

    def close(self) -> None:
        """Say that all is well, after the last commit is back, and close every file.

        A replicated store writes nothing more: frames that nobody else has would have to be cut one day.
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
        # Not if the disk is full: then the log ends as after a crash.
        if not frame.pieces and self.log_room.fits(frame):
            frame.flags = CLEAN
            Commit(self.disk, [frame], None).run()
            file.tail = frame.end()
            self.durable = self.on_disk = frame.lsn
        self.planner.end(file, self.durable)
