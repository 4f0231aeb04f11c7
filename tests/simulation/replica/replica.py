"""One simulated node: the real `Member`, a log, a disk, and a clock of its own rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from forebay.core.ports import LOST, WON
from forebay.replica.member import Member
from forebay.replica.outcome import LEADER, Change, Outcome
from forebay.replica.register import View
from forebay.replica.settings import ReplicaSettings
from tests.simulation.replica.logs import SimFrame, SimLog

if TYPE_CHECKING:
    from tests.simulation.replica.cluster import Cluster

Record = tuple[int, int]  # publisher and sequence number
US = 1_000_000


class Sync:
    """What one sync will have brought to the disk."""

    def __init__(self, replica: Replica) -> None:
        self.frames = list(replica.log.frames)
        self.promise = replica.promise
        self.taken = replica.taken
        self.appended = (replica.begun, len(replica.log.frames))


class Replica:
    """Process, folder and machine of one node. `name` stays; `store_id` is the folder's, `life` the process's."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster, self.number, self.name = cluster, number, chr(97 + number)
        self.store_id = cluster.new_store_id(number)
        self.life, self.is_up, self.has_host, self.is_paused = 0, False, True, False
        self.on_disk: list[SimFrame] = []
        self.gone = 0  # so many frames are in no WAL file any more
        self.promised_on_disk = 0
        self.rate, self.clock_at, self.clock_from, self.slow = 1.0, cluster.random.uniform(0, 100), 0.0, 1.0
        self.ghost: tuple[list[SimFrame], float] | None = None
        self.inbox: list[tuple[int | None, Callable[..., None], tuple[object, ...]]] = []
        self.reset()

    def reset(self) -> None:
        """What a process has in its memory."""
        self.log = SimLog(self.name, list(self.on_disk))
        self.log.gone = self.gone
        self.is_copying = False
        self.keep_from = 0
        self.promise = self.promised_on_disk
        self.taken: tuple[int, int] = (0, 0)  # epoch and LSN of the last taking
        self.begun, self.barrier, self.commit = 0, 0, 0
        self.is_draining, self.syncing, self.is_dirty = False, False, False
        self.running: Sync | None = None
        self.last: Counter[int] = Counter()
        self.settled: set[Record] = set()
        self.where: dict[Record, int] = {}
        self.delivered = 0
        self.lsn_given = 0

    # Time.

    def now(self) -> int:
        return int(self.local() * US)

    def local(self) -> float:
        return self.clock_at + (self.cluster.now - self.clock_from) * self.rate

    def set_rate(self, rate: float) -> None:
        self.clock_at, self.clock_from, self.rate = self.local(), self.cluster.now, rate

    def timer(self, local: float, call: Callable[..., None], *given: object) -> None:
        self.cluster.at(local / self.rate, self.cluster.fire, self, self.life, call, given)

    # Life.

    def start(self) -> None:
        self.life += 1
        self.is_up, self.has_host, self.is_paused, self.inbox = True, True, False, []
        self.reset()
        self.member = make_member(self, self.cluster.made)
        self.member.start(self.now())
        self.drain()
        self.timer(self.cluster.tick, self.tick)

    def crash(self) -> None:
        """What was not synced is lost; a sync that runs may have half happened."""
        chance = self.cluster.random
        if self.running is not None:
            new, same = self.running.frames, 0
            while same < min(len(new), len(self.on_disk)) and new[same] == self.on_disk[same]:
                same += 1
            if same == len(self.on_disk) or chance.random() < 0.5:
                self.on_disk = new[: chance.randint(same, len(new))]
        if self.ghost is not None and self.local() < self.ghost[1]:
            self.on_disk = self.ghost[0]  # planted: what was cut comes back
        self.ghost = None
        self.is_up, self.inbox, self.is_paused = False, [], False
        self.running = None

    def wipe(self) -> None:
        self.on_disk, self.promised_on_disk, self.ghost, self.gone = [], 0, None, 0
        self.store_id = self.cluster.store_id_of_wiped(self)

    def tick(self) -> None:
        self.timer(self.cluster.tick, self.tick)
        self.member.tick(self.now())
        self.drain()
        self.deliver()

    # What the member asks for.

    def drain(self) -> None:
        if self.is_draining:
            return
        self.is_draining = True
        while self.do(self.member.take()):
            pass
        self.is_draining = False

    def do(self, out: Outcome) -> bool:
        """Whether the member was told anything by that, and may ask for more."""
        told = False
        for taking in out.takings:
            if self.log.take(taking):
                self.taken = (int(taking.epoch), int(taking.last))
                self.sync()
            else:
                self.member.mismatched(taking.epoch, self.now())
                told = True
        if self.log.cuts:
            self.cluster.statistics["cuts"] += self.log.cuts
            self.log.cuts = 0
            if "trunc_not_durable" in self.cluster.plants and len(self.on_disk) > len(self.log.frames):
                self.ghost = (self.on_disk, self.local() + 1.0)
            self.cluster.hunt(self, 0.2)
        if out.promise > self.promise:
            self.promise = int(out.promise)
            self.sync()
        for peer, octets in out.messages:
            self.cluster.send(self, peer, octets)
        if out.read:
            self.cluster.call_register(self, None, self.on_read)
        if out.change is not None:
            self.cluster.call_register(self, out.change, self.on_change)
        self.keep_from = int(out.keep_from)
        if out.copy_from and not self.is_copying:
            self.is_copying = True
            self.timer(self.cluster.random.uniform(0.02, 0.5), self.copy, out.copy_from)
        for peer in out.probe:
            self.cluster.probe(self, peer)
        if out.role == LEADER and out.epoch != self.begun:
            self.begin(int(out.epoch))
            told = True
        elif out.commit > self.commit:
            self.committed(out)
        return told

    def committed(self, out: Outcome) -> None:
        before, self.commit = self.commit, int(out.commit)
        self.log.committed = self.commit
        if out.role == LEADER:
            self.cluster.on_commit(self, 0 if before < self.barrier else before, self.commit)
            self.deliver()
        else:
            self.cluster.check_follower(self, before, self.commit)

    def on_read(self, change: Change | None, is_won: bool, view: View) -> None:
        self.member.seen(view, self.now())
        self.drain()

    def on_change(self, change: Change | None, is_won: bool, view: View) -> None:
        assert change is not None
        self.member.outcome(change, WON if is_won else LOST, self.now())
        self.on_read(change, is_won, view)

    def on_view(self, view: View) -> None:
        self.on_read(None, False, view)

    def on_message(self, peer: str, octets: bytes) -> None:
        self.member.message(peer, octets, self.now())
        self.drain()

    def on_reset(self, peer: str) -> None:
        self.member.reset(peer, self.now())
        self.drain()

    def on_refused(self, peer: str, tried: int) -> None:
        self.member.refused(peer, tried, self.now())
        self.drain()

    def copy(self, peer: str) -> None:
        """The folder is that of the leader from now on, under an id of its own; as after a restart."""
        source = self.cluster.by_name[peer]
        if not source.is_leading() or self.cluster.is_blocked(self.name, peer):
            self.is_copying = False
            return
        self.cluster.statistics["copies"] += 1
        self.cluster.checks.on_replace(self)
        self.on_disk, self.gone = list(source.on_disk), source.gone
        self.promised_on_disk = self.promise
        self.store_id = self.cluster.new_store_id(self.number)
        self.start()

    def trim(self, is_kind: bool) -> None:
        """WAL files go; with `is_kind` none that others need."""
        least = min(self.keep_from, self.commit) if is_kind else self.commit
        self.gone = self.log.gone = max(self.gone, min(least, len(self.on_disk)) - 1)

    # The disk: one sync at a time, of all that is there when it begins.

    def sync(self) -> None:
        if self.syncing:
            self.is_dirty = True
            return
        self.syncing, self.is_dirty = True, False
        self.running = Sync(self)
        chance = self.cluster.random
        self.timer(chance.uniform(0.8, 1.2) * self.cluster.sync * self.slow, self.synced, self.running)

    def synced(self, done: Sync) -> None:
        self.syncing, self.running = False, None
        self.on_disk = done.frames
        self.promised_on_disk = self.cluster.promise_kept(self, done.promise)
        if self.is_dirty:
            self.sync()
        now = self.now()
        self.member.promised(done.promise, now)
        if done.taken[0]:
            self.member.written(*done.taken, now)
        if done.appended[0]:
            self.member.written(*done.appended, now)
        self.drain()

    # Leading.

    def is_leading(self) -> bool:
        """As this process believes."""
        return self.is_up and self.member.role() == LEADER

    def begin(self, epoch: int) -> None:
        self.begun = epoch
        self.cluster.on_begin(self)
        self.last, self.settled, self.where, self.delivered = Counter(), set(), {}, 0
        for lsn, frame in enumerate(self.log.frames, 1):
            self.note(lsn, frame)
        if "no_barrier" in self.cluster.plants:
            self.barrier = len(self.log.frames)
            self.sync()
        else:
            self.barrier = len(self.log.frames) + 1
            self.append(("B", epoch))

    def note(self, lsn: int, frame: SimFrame) -> None:
        kind, *rest = frame[1]
        if kind == "P":
            publisher, number = rest
            assert isinstance(publisher, int) and isinstance(number, int)
            self.last[publisher] = number
            self.where[publisher, number] = lsn
        elif kind == "S":
            publisher, number = rest
            assert isinstance(publisher, int) and isinstance(number, int)
            self.settled.add((publisher, number))

    def append(self, said: tuple[object, ...]) -> None:
        frame = (self.begun, said)
        self.log.frames.append(frame)
        self.note(len(self.log.frames), frame)
        self.sync()
        self.member.appended(len(self.log.frames), self.now())
        self.drain()

    def deliver(self) -> None:
        if self.delivered < self.commit and self.is_leading() and self.member.can_deliver(self.now()):
            while self.delivered < self.commit:
                kind, *rest = self.log.frames[self.delivered][1]
                self.delivered += 1
                if kind == "P":
                    publisher, number = rest
                    assert isinstance(publisher, int) and isinstance(number, int)
                    if (publisher, number) not in self.settled:
                        self.cluster.on_deliver(self, (publisher, number))

    def on_settle(self, record: Record) -> None:
        if self.is_leading() and record not in self.settled and record in self.where:
            self.append(("S", *record))

    def on_publish(self, publisher: int, first: int, last: int) -> None:
        if not self.is_leading():
            self.cluster.redirect(publisher, self)
            return
        for number in range(first, last + 1):
            if number == self.last[publisher] + 1:
                self.append(("P", publisher, number))
            elif number > self.last[publisher]:
                break
            elif self.barrier <= self.commit and self.where[publisher, number] <= self.commit:
                self.cluster.confirm(self, publisher, number)

    # What an operator asks for.

    def transfer(self) -> None:
        """To any follower that can."""
        view = self.member.standing.view
        if self.is_leading() and view is not None:
            others = [node for node in sorted(view.value.in_sync) if node != self.name]
            self.cluster.random.shuffle(others)
            for node in others:
                try:
                    self.member.transfer(node, self.now())
                except self.cluster.refusal:
                    continue
                break
            self.drain()

    def remove(self, node: str) -> None:
        try:
            self.member.remove(node, self.now())
        except self.cluster.refusal:
            self.cluster.statistics["refused"] += 1
        self.drain()


def make_settings() -> ReplicaSettings:
    """Those of the model: little is under way at a time."""
    settings = ReplicaSettings()
    settings.join_frames_max = 32
    return settings


def make_member(replica: Replica, made: type[Member] = Member) -> Member:
    """A member as the product has it, or one with a planted bug."""
    return made(replica.name, replica.store_id, replica.promised_on_disk, replica.log, make_settings())
