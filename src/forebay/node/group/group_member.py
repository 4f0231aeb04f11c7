"""A node's part in a group of several: the store, the member that decides, and what must be done for both.

    member = GroupMember(name, disk, clock, chance, options, settings, monotonic)
    member.open()                      # what the disk holds; a follower from here on
    member.replica.start(now)
    member.replica.message(…), seen(…), tick(…), refused(…), …   # what comes in; see replica/member.py

A `Node` has it, and hands on what comes back from the disk. While the member leads, the node's broker writes to the
store: `take` ships what that has given to the disk. A member that has led and does so no longer is at its end: what it
has in memory may be what nobody else ever had. Its process begins anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from forebay.core.errors import DiskFull
from forebay.core.options import Options
from forebay.core.ports import Clock, Disk, MonotonicClock, Random
from forebay.log.folder.identity import (
    ID_OCTETS,
    StoreIdentity,
    UnfinishedCopy,
    join_group,
    keep_room,
    own_identity,
    promise,
)
from forebay.log.replication.copying import begin_empty
from forebay.log.replication.mirror import ForeignLog
from forebay.log.shipment import Shipment
from forebay.log.store import Job, Recovery, Store
from forebay.log.wal import Commit
from forebay.node.back_pressure.disk_room import DiskRoom, RoomTrial
from forebay.node.group.lone_member import NodeMember
from forebay.node.ready import Ready
from forebay.node.telemetry.journal import ERROR, INFO
from forebay.node.wanted import store_options
from forebay.replica.member import Member
from forebay.replica.messages import Run
from forebay.replica.outcome import FOLLOWER, LEADER, Outcome, Taking
from forebay.replica.replica_log import ReplicaLog
from forebay.replica.settings import ReplicaSettings

ORDER_ALL_S: Final = 60
CANNOT_LEAD: Final = "cluster: the disk is full, so this node cannot lead: %s"
NO_ROOM_TO_LEAD: Final = "another is to lead, or this node once its disk has room"
ORDERS_MAX: Final = 1000  # the oldest are dropped, so such files stay until an order covers all files


class StoreLog(ReplicaLog):
    """A store as replication sees it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def end(self) -> tuple[int, int]:
        return self.store.end()

    def runs(self) -> list[Run]:
        return self.store.runs()

    def epoch_of(self, lsn: int) -> int | None:
        return self.store.epoch_of(lsn)

    def frames_from(self, lsn: int, octets_max: int) -> list[Shipment] | None:
        return self.store.frames_from(lsn, octets_max)


class GroupMember(NodeMember):
    """One member of one group.

    monotonic  the clock of time-outs and of the leader's lease
    role       as replica/outcome.py names it
    leader     the name of who leads, "" where that is not known
    commit     all frames up to here are committed; of a group that does not wait for others, on the leader's disk
    found      when the folder was opened
    is_foreign  what is in the folder is not of this group: it can begin a group with it, and follow nobody
    room       on the disk, while it follows
    promiser   writes a promise elsewhere, and has `promised` called then; None: `take` writes it
    taken      epoch and last frame of what the store was given to take, and the disk does not have yet
    under_way  a commit of these is being run
    is_to_lead  the node leads as soon as what the last leader sent is written
    no_room    the reason why the disk takes nothing more of what the node would begin to lead with; "" for none
    has_begun  the node leads, and its broker writes to the store
    shipped    the last frame of the node that leads that was sent to other members
    job        work on files that the node has to do as a follower, for the next `take`
    seconds    in which this member has led
    orders     of the leader, by file: the offsets of it that are still wanted
    """

    def __init__(
        self,
        name: str,
        disk: Disk,
        clock: Clock,
        chance: Random,
        options: Options,
        settings: ReplicaSettings,
        monotonic: MonotonicClock,
    ) -> None:
        super().__init__(Store(disk, clock, store_options(options), replicated=True), 0)
        self.name = name
        self.disk = disk
        self.clock = clock
        self.chance = chance
        self.settings = settings
        self.monotonic = monotonic
        self.room = DiskRoom(disk, self.store)
        self.identity = own_identity(disk, chance)
        self.found = Recovery([], {}, [])
        self.is_foreign = False
        self.replica: Member
        self.role = FOLLOWER
        self.leader = ""
        self.commit = 0
        self.promiser: Callable[[int], None] | None = None
        self.taken: deque[tuple[int, int]] = deque()
        self.under_way = False
        self.is_to_lead = False
        self.no_room = ""
        self.has_begun = False
        self.shipped = 0
        self.job: Job | None = None
        self.seconds = 0
        self.orders: dict[int, dict[int, list[tuple[int, int]]]] = {}

    def open(self) -> list[str]:
        """Read the data folder, begin to follow, and return messages about the folder for the log."""
        try:
            self.found = self.store.open()
        except UnfinishedCopy as error:
            self.identity = begin_empty(self.disk, self.chance)
            self.found = self.store.open()
            self.found.report.append(str(error))
        keep_room(self.disk)
        try:
            self.store.follow()
        except ForeignLog:
            self.is_foreign = True
        self.replica = Member(
            self.name, self.identity.store, self.identity.promised, StoreLog(self.store), self.settings
        )
        return self.found.report

    def found_group(self) -> str:
        """Found a group and return its id, which is on the disk on return."""
        group = self.identity.group or self.chance.octets(ID_OCTETS).hex()
        self.identity = join_group(self.disk, self.identity, group)
        return group

    def join(self, group: str, is_in_sync: bool) -> bool:
        """Join the group that the register names. Return False if the store belongs to another one.

        is_in_sync  the register names this store: it has been of the group, and must know it
        """
        if not group or self.identity.group == group:
            return True
        if is_in_sync or self.identity.promised or self.is_foreign:
            return False
        self.identity = join_group(self.disk, self.identity, group)  # it is empty, or wanted to found a group itself
        return True

    def may_hear(self) -> bool:
        """Return whether the group is known. A new folder that makes a promise before that could join none."""
        return bool(self.identity.group) or self.replica.standing.view is not None

    def recovery(self) -> Recovery:
        """Write pending frames and return the state of the log for a new leader. No write may be running.

        What was taken and not yet written is written now: the barrier stands behind it.
        """
        assert not self.under_way
        if self.is_foreign:
            return self.found
        while (commit := self.store.commit()) is not None:
            commit.run()
            self.store.written(commit)
        return self.store.recovery()

    def status(self, now: int) -> dict[str, object]:
        """Return the status of the member and, while it leads, of all others, for people."""
        found = self.replica.status(now)
        view = self.replica.standing.view
        members = {} if view is None else view.value.members
        own: dict[str, object] = {"node": self.name, "role": found.role, "frames_behind": 0, "behind_ms": 0, "why": ""}
        listed = [own]
        for other in found.others:
            listed.append(
                {
                    "node": other.name,
                    "role": other.role,
                    "frames_behind": None if other.frames_behind < 0 else int(other.frames_behind),
                    "behind_ms": int(other.ms_behind),
                    "silent_ms": int(other.silent_ms),
                    "why": other.why,
                }
            )
        for each in listed:
            name = str(each["node"])
            each["in_sync"] = name in found.in_sync
            each["peer"] = members[name].peer if name in members else ""
        return {
            "epoch": int(found.epoch),
            "leader": found.leader,
            "frame": int(found.end),
            "committed": int(found.commit),
            "in_sync": found.in_sync,
            "min_in_sync": found.min_in_sync,
            "waits": found.waits,
            "members": sorted(listed, key=lambda each: str(each["node"])),
        }

    def is_in_sync(self) -> bool:
        """Return whether this store is in sync, so that it holds all committed frames, as the register last said."""
        return self.replica.standing.is_in_sync()

    def can_deliver(self) -> bool:
        return self.replica.can_deliver(self.monotonic.now_us())

    # ---- what has happened

    def followed(self, commit: Commit, error: BaseException | None) -> None:
        now = self.monotonic.now_us()
        if isinstance(error, DiskFull) and self.is_to_lead:
            self.no_room = str(error)
        elif isinstance(error, DiskFull):
            self.not_written(commit, now)
        elif error is not None:
            raise error
        else:
            self.under_way = False
            self.store.written(commit)
            self.room.taken()
            self.tell_written(now)

    def not_written(self, commit: Commit, now: int) -> None:
        """Record that a commit found no room on the disk. Its frames are requested again once there is room."""
        self.under_way = False
        self.store.not_written(commit)
        self.taken.clear()
        self.room.lack(commit.octets, now)
        self.replica.no_room()

    def look_for_room(self, now: int) -> None:
        """Resume a follower once its full disk has room. Call several times a second."""
        if self.room.comes(now):
            self.replica.has_room()

    def tried(self, trial: RoomTrial, now: int) -> None:
        """Resume a follower if a trial run elsewhere found room on its full disk. Replaces `look_for_room`."""
        if self.room.tried(trial, now):
            self.replica.has_room()

    def trial_to_lead(self) -> RoomTrial | None:
        """Return a trial whether the disk has room for a new leader's first file. Returns None for a foreign store."""
        return None if self.is_foreign else self.room.trial_to_lead()

    def look_whether_it_can_lead(self) -> bool:
        """Record and return whether the disk has room for a new leader's first file. Without room it cannot lead."""
        trial = self.trial_to_lead()
        if trial is not None:
            trial.run()
        standing = self.replica.standing
        standing.can_lead = trial is None or trial.fits
        return standing.can_lead

    def tell_written(self, now: int) -> None:
        """Report to the replica which of the frames it gave to the store are on the disk."""
        while self.taken and self.taken[0][1] <= self.store.on_disk:
            epoch, last = self.taken.popleft()
            self.replica.written(epoch, last, now)

    def begin(self) -> None:
        now = self.monotonic.now_us()
        self.has_begun = True
        self.shipped = self.store.lsn - 1
        self.replica.appended(self.shipped, now)
        self.replica.written(self.epoch, self.shipped, now)

    def written(self, commit: Commit) -> None:
        self.ship()
        self.store.written(commit)
        self.replica.written(self.epoch, commit.lsn, self.monotonic.now_us())

    def ship(self) -> None:
        """Replicate frames that this leader has given to its disk to the other members."""
        last = self.store.outgoing.last
        if last > self.shipped:
            self.shipped = last
            self.replica.appended(last, self.monotonic.now_us())

    # ---- what is to be done

    def take(self, out: Ready) -> int:
        if self.has_begun:
            self.ship()
        now = self.monotonic.now_us()
        before = self.commit
        again = True
        while again:
            outcome = self.replica.take()
            self.stand(outcome, out)
            if out.anew:
                return 0
            again = self.obey(outcome, out, now)
        if not self.has_begun:
            self.follow(out)
        elif self.commit > before:
            self.store.commit_to(self.commit)
            return self.commit
        return 0

    def obey(self, out: Outcome, ready: Ready, now: int) -> bool:
        """Carry out an outcome in the store, the rest through `ready`. Return whether the replica may have more."""
        for taking in out.takings:
            self.take_frames(taking, ready, now)
        if out.promise and self.promiser is not None:
            self.promiser(int(out.promise))
        elif out.promise:
            self.promised(promise(self.disk, self.identity, int(out.promise)), int(out.promise), now)
        if out.messages:  # links reconnect by themselves, so `probe` needs no action
            ready.messages = [*ready.messages, *out.messages]
        ready.read = ready.read or out.read
        ready.change = out.change or ready.change
        self.tell(out.events, ready)
        ready.copy_from = out.copy_from or ready.copy_from
        for order in out.rewrites:
            self.orders[int(order.number)] = order.wanted
        self.store.keep_from(int(out.keep_from), out.is_copied)
        return bool(out.takings) or (out.promise > 0 and self.promiser is None)

    def tell(self, lines: list[str], ready: Ready) -> None:
        """Add lines about the group to the log."""
        if lines:
            ready.lines = [*ready.lines, *[(INFO, "cluster: %s", (line,)) for line in lines]]

    def promised(self, identity: StoreIdentity, epoch: int, now: int) -> None:
        """Record that a promise of an epoch is on the disk."""
        self.identity = identity
        self.replica.promised(epoch, now)

    def take_frames(self, taking: Taking, ready: Ready, now: int) -> None:
        """Write frames of the leader to the store, or handle the store's refusal."""
        refused = self.store.take(int(taking.prev_lsn), int(taking.prev_epoch), taking.shipments)
        if refused is None:
            if self.taken and self.taken[-1][0] != taking.epoch:
                # Report nothing to an earlier leader. Frames of it that are truncated will never be on a disk.
                self.taken.clear()
            self.taken.append((int(taking.epoch), int(taking.last)))
            self.tell_written(now)
            return
        self.tell([f"frames are not taken: {refused.why}"], ready)
        if refused.needs_copy:
            ready.needs_copy = refused.why
        else:
            self.replica.mismatched(taking.epoch, now)

    def every_second(self, now: int) -> None:
        """Order file rewrites of followers if this member leads, else plan the rewrites its leader ordered."""
        if self.has_begun:
            self.tell_orders(now)
        else:
            self.job = self.housekeep(now) or self.job

    def housekeep(self, now: int) -> Job | None:
        """Return the next file job of a follower. Call once a second, and again after `Store.done` of the job."""
        if self.role == LEADER or self.is_foreign:
            return None
        for number in sorted(self.orders):
            job = self.store.plan_as_told(number, self.orders[number])
            if job is not None:
                del self.orders[number]
                return job
        while len(self.orders) > ORDERS_MAX:
            del self.orders[min(self.orders)]
        return self.store.plan_following()

    def tell_orders(self, now: int) -> None:
        """Send followers the offsets still needed of rewritten files. The leader calls this about once a second.

        Now and then of all files, for followers that were away when it was said of one.
        """
        self.seconds += 1
        if self.seconds % ORDER_ALL_S == 0:
            self.store.order_all()
        for order in self.store.orders():
            self.replica.rewritten(order.number, order.lsn, order.wanted, now)

    def follow(self, ready: Ready) -> None:
        """Give the disk what was taken, and the logs what is committed. Lead, once what was taken is written."""
        if self.is_to_lead:
            self.prepare_to_lead(ready)
            return
        if self.role == LEADER:
            return  # the node is about to make its broker
        if not self.under_way:
            commit = self.store.commit()
            if commit is not None:
                self.under_way = True
                ready.commit = commit
        ready.job, self.job = self.job, None
        lsn = min(self.commit, self.store.on_disk)
        if lsn > self.store.durable:
            self.store.commit_to(lsn)

    def prepare_to_lead(self, ready: Ready) -> None:
        """Make the node lead once no job or commit uses the store's files."""
        job = self.store.job_running
        if self.no_room:
            ready.lines = [*ready.lines, (ERROR, CANNOT_LEAD, (self.no_room,))]
            ready.anew = NO_ROOM_TO_LEAD
        elif job is not None:
            job.stop()
        elif not self.under_way:
            self.is_to_lead = False
            ready.leads = True

    def stand(self, out: Outcome, ready: Ready) -> None:
        """Record the member's role, epoch and commit, and start or end leading."""
        led = self.role == LEADER
        leads = out.role == LEADER
        self.role = out.role
        if led and (not leads or out.epoch != self.epoch):
            ready.anew = f"{out.leader or 'another node'} leads in epoch {int(out.epoch)}"
        elif leads and not led:
            self.is_to_lead = True
        self.epoch = int(out.epoch)
        self.leader = out.leader
        self.commit = max(self.commit, int(out.confirmed))
