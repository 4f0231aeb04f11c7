"""Three stores that lead and follow in turn, with power cuts between any two writes: the logs are what they must be."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from forebay.core.errors import DiskFull
from forebay.log.store import Store
from tests.replicated import Following, Leading, last_common, state_of
from tests.stores import Everything, PowerCut, bodies, copied

NOTE = 3
QUEUES = [1, 2]
NO_LIMIT = 1 << 60


class Site:
    """A folder, and the store that is open on it; of one that has lost its power neither leads nor follows.

    durable  the highest lsn that it may have acknowledged
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.leading: Leading | None = None
        self.following: Following | None = Following(folder)

    @property
    def store(self) -> Store:
        opened = self.leading or self.following
        assert opened is not None
        return opened.store

    def stop(self) -> None:
        for opened in (self.leading, self.following):
            if opened is not None:
                opened.disk.close_all()
        self.leading = None
        self.following = None

    def restart(self) -> None:
        self.stop()
        self.following = Following(self.folder)


class GroupMachine(RuleBasedStateMachine):
    """Whoever leads has all that is committed: the one rule of a cluster that the log relies on."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="forebay-group-"))
        self.sites = [Site(self.root / name) for name in "abc"]
        self.epoch = 0
        self.leader: Site | None = None
        self.committed = 0
        self.notes = 0
        self.wanted = Everything()
        self.epochs = [0]  # of each frame that is committed
        self.frames: dict[tuple[int, int], bytes] = {}  # by epoch and lsn, as its leader wrote it
        self.seen: set[tuple[Path, int, int]] = set()
        self.take_over(0)

    def teardown(self) -> None:
        for site in self.sites:
            site.stop()
        shutil.rmtree(self.root)

    def take_over(self, at: int) -> None:
        site = self.sites[at]
        self.epoch += 1
        assert site.following is not None
        site.following.write()
        expected = state_of(copied(site.folder, self.root / f"epoch {self.epoch}"))
        site.leading = site.following.lead(QUEUES, self.epoch)
        found = {queue: bodies(log) for queue, log in site.leading.recovery.logs.items() if log.end}
        assert (found, site.leading.recovery.entries) == expected
        site.following = None
        self.leader = site

    # ---- the leader

    def leading(self) -> Leading:
        assert self.leader is not None and self.leader.leading is not None
        return self.leader.leading

    @precondition(lambda self: self.leader is not None)
    @rule(queue=st.sampled_from(QUEUES), records=st.lists(st.binary(max_size=30), min_size=1, max_size=4))
    def publish(self, queue: int, records: list[bytes]) -> None:
        self.leading().publish(queue, *records)
        self.leading().write()

    @precondition(lambda self: self.leader is not None)
    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 3))
    def publish_long(self, queue: int, count: int) -> None:
        for _ in range(count):
            self.leading().publish(queue, b"L" * 3000)
        self.leading().write()

    @precondition(lambda self: self.leader is not None)
    @rule()
    def note(self) -> None:
        self.notes += 1
        self.leading().store.note(NOTE, 1, self.notes, b"%d" % self.notes, True)
        self.leading().write()

    @precondition(lambda self: self.leader is not None)
    @rule(keeps=st.booleans())
    def rotate(self, keeps: bool) -> None:
        kept = self.leading().recovery.entries if keeps else []
        assert self.leading().store.rotate(list(kept))
        self.leading().write()

    @precondition(lambda self: self.leader is not None)
    @rule(queue=st.sampled_from(QUEUES), part=st.floats(0, 1))
    def truncate(self, queue: int, part: float) -> None:
        log = self.leading().logs[queue]
        log.truncate(int(int(log.durable_end) * part))
        self.leading().store.note_starts()
        self.leading().write()

    @precondition(lambda self: self.leader is not None)
    @rule(rounds=st.integers(1, 4))
    def housekeep(self, rounds: int) -> None:
        leading = self.leading()
        for _ in range(rounds):
            leading.write()
            job = leading.store.plan(self.wanted, leading.clock.now_us())
            if job is not None:
                job.run()
                leading.store.done(job)

    # ---- the followers

    @precondition(lambda self: self.leader is not None)
    @rule(
        at=st.integers(0, 2),
        octets_max=st.sampled_from([1, 300, 5000, 1 << 20]),
        times=st.integers(1, 20),
        writes=st.booleans(),
    )
    def ship(self, at: int, octets_max: int, times: int, writes: bool) -> None:
        following = self.sites[at].following
        if following is None:
            return
        leader = self.leading().store
        for _ in range(times):
            lsn = min(last_common(leader.runs(), following.store.runs()), following.store.end()[1])
            shipments = leader.frames_from(lsn + 1, octets_max)
            if shipments is None or not shipments:
                break
            refused = following.take((leader.epoch_of(lsn) or 0, lsn), shipments)
            if refused is not None:
                assert not refused.needs_copy
                following.write()
        if writes:
            following.write()

    @precondition(lambda self: self.leader is not None)
    @rule(at=st.integers(0, 2), octets=st.integers(0, 9000))
    def ship_to_a_small_disk(self, at: int, octets: int) -> None:
        following = self.sites[at].following
        if following is None:
            return
        following.disk.octets_max = following.disk.used() + octets
        before = following.store.on_disk
        try:
            following.fetch(self.leading().store, 2000)
        except DiskFull:
            assert following.store.end()[1] == following.store.on_disk
            assert following.store.on_disk >= min(before, self.committed)
        following.disk.octets_max = NO_LIMIT

    @precondition(lambda self: self.leader is not None)
    @rule()
    def commit(self) -> None:
        """What the leader and one other have, verified, is committed."""
        leader = self.leading().store
        others = [site.following.store for site in self.sites if site.following is not None]
        verified = [min(last_common(leader.runs(), store.runs()), store.on_disk) for store in others]
        lsn = min(leader.on_disk, max(verified, default=0))
        first = next(first for epoch, first, _ in leader.runs() if epoch == self.epoch)
        if lsn < first:
            return
        self.committed = max(self.committed, lsn)
        self.epochs += [leader.epoch_of(each) or 0 for each in range(len(self.epochs), lsn + 1)]
        leader.commit_to(lsn)
        for store, has in zip(others, verified, strict=True):
            store.commit_to(max(store.durable, min(has, lsn)))

    # ---- ends

    @rule(at=st.integers(0, 2))
    def crash(self, at: int) -> None:
        site = self.sites[at]
        if site is self.leader:
            self.leader = None
        site.restart()

    @precondition(lambda self: self.leader is not None)
    @rule(at=st.integers(0, 2), changes=st.integers(0, 12), octets_max=st.sampled_from([300, 5000, 1 << 20]))
    def cut_power_while_it_takes(self, at: int, changes: int, octets_max: int) -> None:
        site = self.sites[at]
        if site.following is None:
            return
        site.following.disk.changes_max = changes
        with suppress(PowerCut):
            if site.following.fetch(self.leading().store, octets_max) is not None:
                site.following.write()
        site.following.disk.changes_max = NO_LIMIT
        acknowledged = min(self.committed, site.following.store.durable)
        site.restart()
        assert site.store.on_disk >= acknowledged

    @rule(at=st.integers(0, 2))
    def change_leader(self, at: int) -> None:
        """Somebody who has all that is committed takes over; who led begins anew."""
        new = self.sites[at]
        if new.following is None:
            return
        new.following.write()
        if not self.has_committed(new.store):
            return
        if self.leader is not None:
            self.leader.restart()
        self.take_over(at)

    def has_committed(self, store: Store) -> bool:
        """Its log is the one up to what is committed, as far back as it has files."""
        first = store.wals[0].head.first_lsn if store.wals else 1
        if store.on_disk < self.committed or (not store.wals and self.committed):
            return False
        return all(store.epoch_of(lsn) == self.epochs[lsn] for lsn in range(first, self.committed + 1))

    # ---- the checks

    @invariant()
    def frames_are_as_their_leader_wrote_them(self) -> None:
        if self.leader is not None:
            self.note_frames(self.leading().store)
        for site in self.sites:
            for wal in site.store.wals:
                for lsn in range(wal.head.first_lsn, min(wal.last, site.store.on_disk) + 1):
                    if (site.folder, wal.epoch, lsn) not in self.seen:
                        frame = site.store.outgoing.from_file(wal, lsn, lsn, 1)
                        assert frame.octets == self.frames[wal.epoch, lsn]
                        self.seen.add((site.folder, wal.epoch, lsn))

    def note_frames(self, leader: Store) -> None:
        """Remember all frames that were written in this epoch."""
        end = leader.end()[1]
        lsn = next(first for epoch, first, _ in leader.runs() if epoch == self.epoch)
        while (self.epoch, lsn) in self.frames:
            lsn += 1
        for each in range(lsn, end + 1):
            shipments = leader.frames_from(each, 1)
            assert shipments is not None and len(shipments) == 1
            self.frames[self.epoch, each] = shipments[0].octets


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(deadline=None, stateful_step_count=40)
