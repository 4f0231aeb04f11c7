"""Bugs that somebody might make in a group, planted: the simulation has to find each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mypy_extensions import i64

from forebay.broker.internal_log import SESSIONS_LOG
from forebay.core.stored.entry_kinds import INTERNAL, SETTLED
from forebay.log.block import Block
from forebay.log.folder.inventory import Inventory
from forebay.log.queue_log import QueueLog
from forebay.log.replication.copying import Snapshot
from forebay.log.store import Commit, Job, Recovery, Store
from forebay.log.wal import wal_path
from forebay.node.commit_gate import CommitGate
from forebay.node.ready import Ready
from forebay.replica.member import Member
from forebay.replica.outcome import LEADER, Change, Outcome, Taking
from tests.simulation.broker import Line, SimStore
from tests.simulation.group.group import GroupSetup
from tests.simulation.group.leader import LeaderBroker
from tests.simulation.group.process import STORE_OPTIONS, Process, SimGroupMember
from tests.simulation.group.register import SimRegister
from tests.simulation.kinds import DEAD, OVER_ONE_LOG
from tests.simulation.plants import ForgetsInputFilters, SendsFirst


class ConfirmsAlone(SimGroupMember):
    """Takes for committed what the leader's own disk has."""

    def stand(self, out: Outcome, ready: Ready) -> None:
        if out.role == LEADER:
            out.confirmed = max(out.confirmed, self.store.on_disk)
        super().stand(out, ready)


def no_gate() -> CommitGate | None:
    """Deliveries leave as they do from a node that is alone."""
    return None


class AcknowledgesEarly(SimGroupMember):
    """Acknowledges frames that it has and did not sync."""

    def take_frames(self, taking: Taking, ready: Ready, now: int) -> None:
        super().take_frames(taking, ready, now)
        self.replica.written(taking.epoch, taking.last, now)


class CutsCommitted(SimGroupMember):
    """Cuts away, as another leader comes, all of which it does not know that it is committed."""

    heard = 0

    def take_frames(self, taking: Taking, ready: Ready, now: int) -> None:
        mirror = self.store.mirror
        if taking.epoch > self.heard and mirror is not None and mirror.end > self.store.durable >= mirror.applied:
            self.heard = int(taking.epoch)
            mirror.cut_behind(self.store.durable)
        super().take_frames(taking, ready, now)


class ForgetsTail(SimGroupMember):
    """Begins to lead without the frames of which it does not know that they are committed."""

    def recovery(self) -> Recovery:
        mirror = self.store.mirror
        if mirror is not None and mirror.end > self.store.durable >= mirror.applied:
            mirror.cut_behind(self.store.durable)
        return super().recovery()


class CarelessRegister(SimRegister):
    """Takes any change, whatever the record was that it is a change of."""

    def ask(self, process: Process, change: Change, now_us: int, is_made: bool) -> None:
        super().ask(process, Change(self.revision, change.value), now_us, is_made)


class NoLease(SimGroupMember):
    """Delivers as long as it believes to lead."""

    def can_deliver(self) -> bool:
        return self.role == LEADER


class TakesAnyEpoch(Member):
    """Takes frames of a leader that another has followed."""

    def is_current(self, peer: str, epoch: i64, now: i64) -> bool:
        return epoch <= self.standing.promised or super().is_current(peer, epoch, now)


class HeedsOldLeaders(SimGroupMember):
    """Has such a member."""

    def open(self) -> list[str]:
        report = super().open()
        old = self.replica
        self.replica = TakesAnyEpoch(
            old.standing.name, old.standing.store_id, old.standing.promised, old.standing.log, self.settings
        )
        return report


def partial_copy(store: Store) -> Snapshot | None:
    """A copy of the files without segments, and without the oldest file of the log where there are more."""
    snapshot = store.snapshot()
    if snapshot is None:
        return None
    before = snapshot.inventory
    wals = [file for file in snapshot.files if not file.path.startswith("queues/")]
    gone = min(before.wals, default=0) if len(before.wals) > 1 else 0
    snapshot.files = [file for file in wals if file.path != wal_path(gone)]
    snapshot.inventory = Inventory(before.floor, tuple(each for each in before.wals if each != gone), ())
    return snapshot


class ForgetsSettled(SimGroupMember):
    """Takes over without what was settled."""

    def recovery(self) -> Recovery:
        found = super().recovery()
        return replace(found, entries=[entry for entry in found.entries if entry.kind != SETTLED])


class ForgetsSessions(SimGroupMember):
    """Takes over without the sessions of MQTT."""

    def recovery(self) -> Recovery:
        found = super().recovery()
        kept = [entry for entry in found.entries if (entry.kind, entry.queue) != (INTERNAL, SESSIONS_LOG)]
        return replace(found, entries=kept)


class LateStore(SimStore):
    """Writes dead letters behind the commit of what settles them."""

    late: tuple[tuple[QueueLog, Block], ...] = ()

    def append(self, log: QueueLog, block: Block) -> None:
        if log.name.startswith(DEAD):
            self.late += ((log, block),)
        else:
            super().append(log, block)

    def flush(self) -> Commit | None:
        commit = super().flush()
        late, self.late = self.late, ()
        for log, block in late:
            super().append(log, block)
        return commit


class SettlesFirst(SimGroupMember):
    """Settles what has died in a commit before that of the dead letter."""

    def make_store(self) -> SimStore:
        return LateStore(self.disk, self.clock, STORE_OPTIONS, True)


class ForgetsBegun(SimGroupMember):
    """Takes over without the logs that its last checkpoint does not name."""

    def recovery(self) -> Recovery:
        found = super().recovery()
        bounds = self.store.replay.bounds
        for queue, log in found.logs.items():
            if queue not in bounds:
                log.clear()
        return found


class KeepsWhatHadNoRoom(SimGroupMember):
    """Takes for written what its disk had no room for."""

    def not_written(self, commit: Commit, now: int) -> None:
        taken = list(self.taken)
        super().not_written(commit, now)
        for epoch, last in taken:
            self.replica.written(epoch, last, now)


class IgnoresOrders(SimGroupMember):
    """Rewrites no files as the leader tells it to."""

    def housekeep(self, now: int) -> Job | None:
        self.orders.clear()
        return super().housekeep(now)


class SendsAllAtLast(LeaderBroker):
    """Tells clients to go, as it is drained, behind all else that was written for them."""

    def forget(self, line: Line) -> None:
        pass


GROUPS: Final[dict[str, GroupSetup]] = {
    "a confirm before all in sync have it": GroupSetup(member=ConfirmsAlone, is_stormy=True),
    "a delivery before its commit": GroupSetup(gate=no_gate, kinds=("classic", "quorum"), is_stormy=True),
    "an acknowledgement before the sync": GroupSetup(member=AcknowledgesEarly, is_stormy=True),
    "a cut of what is committed": GroupSetup(member=CutsCommitted, is_stormy=True),
    "a new leader without the committed tail": GroupSetup(member=ForgetsTail, is_stormy=True),
    "a take-over without compare-and-set": GroupSetup(register=CarelessRegister, is_parted=True),
    "a lease that nobody checks": GroupSetup(member=NoLease, kinds=("classic", "quorum"), is_parted=True),
    "frames of a deposed leader that are taken": GroupSetup(member=HeedsOldLeaders, is_parted=True),
    "a copy without all files": GroupSetup(snapshot=partial_copy, is_stormy=True),
    "what was settled forgotten at a take-over": GroupSetup(member=ForgetsSettled, is_stormy=True),
    "sessions that are not taken over": GroupSetup(member=ForgetsSessions, is_stormy=True),
    "a dead letter behind the frame that settles it": GroupSetup(
        member=SettlesFirst, kinds=("letters", "limited"), is_stormy=True
    ),
    "frames acknowledged that a full disk has not taken": GroupSetup(member=KeepsWhatHadNoRoom, is_stormy=True),
    "files that followers never rewrite": GroupSetup(member=IgnoresOrders),
    "a farewell of a drained leader behind what waits": GroupSetup(broker=SendsAllAtLast, is_parted=True),
    "a filter of a view lost at a take-over": GroupSetup(kind=ForgetsInputFilters, kinds=OVER_ONE_LOG, is_stormy=True),
    "a delivery at most once before its settlement is committed": GroupSetup(
        kind=SendsFirst, kinds=("once",), is_stormy=True
    ),
    "a log forgotten that its checkpoint does not name": GroupSetup(member=ForgetsBegun, is_stormy=True),
}
