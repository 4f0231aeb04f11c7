"""The process of one node: what `server/node_process.py` and its peers do around a `Node`, without sockets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forebay.core.errors import DiskFull, RequestError
from forebay.core.options import Options
from forebay.core.ports import Clock, Disk, MonotonicClock, Random
from forebay.log.replication.copying import FolderCopy, Snapshot, SnapshotEnded, begin_copy, begin_empty, clear
from forebay.node.back_pressure.disk_silence import DiskSilence
from forebay.node.group.group_member import GroupMember
from forebay.node.ready import Ready
from forebay.replica.outcome import LEADER
from forebay.replica.register import View
from forebay.replica.settings import ReplicaSettings
from tests.simulation.broker import SimNode, SimStore
from tests.simulation.model.promises import check
from tests.stores import SMALL

if TYPE_CHECKING:
    from tests.simulation.group.group import Group
    from tests.simulation.group.leader import LeaderBroker
    from tests.simulation.group.machine import Machine

STORE_OPTIONS: Final = replace(SMALL, catch_up_octets_max=8192)
SECOND_US: Final = 1_000_000


class SimGroupMember(GroupMember):
    """One whose files are small; planted bugs are others."""

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
        super().__init__(name, disk, clock, chance, options, settings, monotonic)
        self.store = self.make_store()

    def make_store(self) -> SimStore:
        return SimStore(self.disk, self.clock, STORE_OPTIONS, True)


class Process(MonotonicClock):
    """One process, from its start until it dies or is to begin anew.

    broker    while it leads
    is_over   it has died, or is to begin anew
    is_anew   it is to begin anew
    copying   the folder is being filled from the node that leads; `source` are the files there
    lacking   octets of such a copy that the disk has no room for
    silence   of its disk
    drain_us  when it tries again to hand over, if it is drained
    """

    def __init__(self, machine: Machine, group: Group) -> None:
        self.machine = machine
        self.group = group
        self.name: Final = machine.name
        self.broker: LeaderBroker | None = None
        self.is_over = False
        self.is_anew = False
        self.copying: FolderCopy | None = None
        self.source: tuple[Process, Snapshot] | None = None
        self.copied = 0
        self.lacking = 0
        self.drain_us = 0
        self.second_us = machine.now()
        self.member = group.setup.member(
            machine.name, machine.disk, machine.clock, group.chance, group.options, group.settings, self
        )
        self.node = SimNode(group.setup.kind, self.member, machine.clock, group.chance)
        self.silence = DiskSilence(self.member, int(group.settings.silence_us))
        self.node.open()
        self.member.look_whether_it_can_lead()
        self.member.replica.start(machine.now())

    def __str__(self) -> str:
        member = self.member
        state = f"{self.name}: {member.role} in epoch {member.epoch} at {member.store.end()}"
        jobs = [member.store.job_running, self.machine.job, self.machine.commit, self.copying]
        return f"{state}, busy: {[type(each).__name__ for each in jobs if each is not None]}"

    def now(self) -> int:
        return self.machine.now()

    def now_us(self) -> int:
        return self.now()

    def can_deliver(self) -> bool:
        return not self.is_over and self.member.can_deliver()

    # ---- what comes in

    def seen(self, view: View) -> None:
        own = view.value.in_sync.get(self.name)
        is_of_it = self.member.join(view.value.group, own == self.member.identity.store)
        check(is_of_it, f"the store of {self.name} is not of the group")
        self.member.replica.seen(view, self.now())

    def message(self, peer: str, octets: bytes) -> None:
        if self.copying is None and self.member.may_hear():
            self.member.replica.message(peer, octets, self.now())

    def run_commit(self) -> bool:
        """Have the disk do what a follower has for it; whether there was anything."""
        commit, self.machine.commit = self.machine.commit, None
        if commit is None:
            return False
        try:
            commit.run()
        except DiskFull as error:
            self.group.told.append(f"{self.name} has no room: {error}")
            self.node.synced(commit, error)
        else:
            self.node.synced(commit)
        return True

    def tick(self) -> None:
        """Look at the clock."""
        now = self.now()
        if self.copying is not None:
            self.copy_on(self.copying)
            return
        if self.broker is None:
            self.member.look_for_room(now)
        words = self.silence.look(self.broker is not None, now)
        if words:
            self.group.told.append(f"{self.name}: {words}")
        if now >= self.second_us:
            self.second_us = now + SECOND_US
            self.every_second(now)
        self.look_whether_drained(now)
        self.member.replica.tick(now)
        self.member.replica.admit(self.group.present(), now)
        self.step()
        if self.broker is not None and not self.is_over:
            self.broker.check_lease()

    def every_second(self, now: int) -> None:
        if self.broker is not None:
            self.member.every_second(now)
            return
        if not self.member.replica.standing.can_lead or self.machine.is_full():
            self.member.look_whether_it_can_lead()
        self.end_job()
        self.member.every_second(now)

    def look_whether_drained(self, now: int) -> None:
        """As `server/cluster/draining.py`: hand over what has come to this node all the same."""
        replica = self.member.replica
        replica.avoided = self.group.drained()
        if self.machine.is_drained and self.member.role == LEADER and now >= self.drain_us:
            self.drain_us = now + SECOND_US
            with suppress(RequestError):
                replica.drain(now)

    def end_job(self) -> None:
        """The work on files that a follower has begun is done."""
        job, self.machine.job = self.machine.job, None
        if job is not None:
            job.run()
            self.node.job_done(job)

    # ---- what is to be done

    def step(self) -> None:
        """Do all that the member asks for."""
        if self.is_over or self.copying is not None:
            return
        if self.broker is not None:
            self.broker.step()
            return
        if self.member.is_to_lead:
            self.end_job()
        ready = self.node.take()
        if ready.commit is not None:
            assert self.machine.commit is None
            self.machine.commit = ready.commit
        self.machine.job = ready.job or self.machine.job
        if self.obey(ready) and ready.leads:
            self.lead()
        elif self.member.is_to_lead and self.machine.job is not None:
            self.step()

    def obey(self, ready: Ready) -> bool:
        """Do what the node asks for; whether the process goes on with the files that it has."""
        self.group.told += [f"{self.name}: {words % given}" for _, words, given in ready.lines]
        if ready.anew:
            self.begin_anew()
            return False
        self.pass_on(ready)
        if ready.copy_from:
            self.begin_copying(ready.copy_from)
        elif ready.needs_copy:
            self.begin_empty(ready.needs_copy)
        return not ready.copy_from and not ready.needs_copy

    def pass_on(self, ready: Ready) -> None:
        group = self.group
        for peer, octets in ready.messages:
            group.network.send((self.name, peer), octets, group.now_us)
        if ready.read:
            group.register.read(self, group.now_us)
        if ready.change is not None:
            group.ask(self, ready.change)

    def lead(self) -> None:
        self.group.told.append(f"{self.name} leads in epoch {self.member.epoch}")
        try:
            self.broker = self.group.setup.broker(self)
        except DiskFull as error:
            self.cannot_lead(error)
            return
        self.step()

    def cannot_lead(self, error: DiskFull) -> None:
        """There is no room for what a leader begins with: another is to lead."""
        self.group.told.append(f"{self.name} cannot lead: {error}")
        self.begin_anew()

    def begin_anew(self) -> None:
        self.is_anew = True
        self.end()
        if self.machine.is_drained and self.broker is not None:
            self.broker.part()

    def end(self) -> None:
        self.is_over = True
        self.release()
        if self.broker is not None:
            self.broker.abandon()

    # ---- a copy of the files of the leader

    def is_busy(self) -> bool:
        return self.member.under_way or self.member.store.job_running is not None

    def begin_copying(self, node: str) -> None:
        if self.is_busy():
            return  # it is said again until it is done
        self.group.told.append(f"{self.name} copies the files of {node}")
        self.group.copies += 1
        self.member.store.close()
        self.copying = begin_copy(self.machine.disk, self.group.chance)
        self.copied = -1

    def begin_empty(self, why: str) -> None:
        if self.is_busy():
            return
        check(not self.member.is_in_sync(), f"{self.name} is in sync, and yet has another log than the leader: {why}")
        self.member.store.close()
        begin_empty(self.machine.disk, self.group.chance)
        self.begin_anew()

    def copy_on(self, copy: FolderCopy) -> None:
        """Take one more file; with the last the process begins anew, as when nothing more comes."""
        if self.lacking:
            if self.machine.disk.used() + self.lacking <= self.machine.disk.octets_max:
                self.begin_anew()
            return
        if self.source is None:
            leader = self.group.leader_at(self.member.leader)
            if leader is not None and self.group.is_linked(self.name, leader.name):
                snapshot = self.group.setup.snapshot(leader.member.store)
                if snapshot is not None:
                    self.source = leader, snapshot
                    self.copied = 0
                return
            self.begin_anew()
            return
        leader, snapshot = self.source
        if leader.is_over or not self.group.is_linked(self.name, leader.name):
            self.begin_anew()
        elif self.copied < len(snapshot.files):
            file = snapshot.files[self.copied]
            try:
                copy.copy(file.path, 0, snapshot.read(file.path, 0, file.octets))
            except SnapshotEnded:
                self.begin_anew()
            except DiskFull:
                self.await_room(sum(each.octets for each in snapshot.files))
            self.copied += 1
        else:
            copy.finish(snapshot.inventory, snapshot.files)
            self.begin_anew()

    def await_room(self, octets: int) -> None:
        """Half a copy is of no use: ask for one once the disk has room for it."""
        self.group.told.append(f"{self.name} has no room for a copy")
        clear(self.machine.disk)
        self.lacking = octets
        self.release()

    def release(self) -> None:
        """The leader's files may go and change again."""
        if self.source is not None and not self.source[0].is_over:
            self.source[0].member.store.release(self.source[1])
        self.source = None
