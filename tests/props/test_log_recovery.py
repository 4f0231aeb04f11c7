"""Recovery of the log after damage and after power cuts at any moment."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from forebay.core.errors import CorruptFile
from forebay.log.store import Commit, FrameEntry, Job, Store, StoreOptions
from tests.examples import examples
from tests.logs import retain
from tests.stores import SMALL, Everything, Opened, PowerCut, SmallDisk, TestClock, bodies

State = tuple[dict[int, dict[int, bytes]], list[FrameEntry]]
NOTE = 3


def noted(number: int) -> FrameEntry:
    return FrameEntry(NOTE, 1, number, b"note %d" % number)


def three_frames(folder: Path) -> tuple[Path, list[int], list[State]]:
    """A store with a checkpoint and three more frames: its WAL file, where frames end, the state after each."""
    opened = Opened(folder, [1, 2], StoreOptions(), [noted(0)])
    wal = opened.store.wals[-1]
    ends = [wal.tail]
    state: State = ({}, [noted(0)])
    states: list[State] = [({}, [noted(0)])]
    for number in (1, 2, 3):
        opened.publish(1, b"one %d" % number, b"two")
        if number != 2:
            opened.publish(2, b"other %d" % number)
        opened.store.note(NOTE, 1, number, b"note %d" % number, False)
        opened.sync()
        state[1].append(noted(number))
        ends.append(wal.tail)
        states.append(({q: bodies(log) for q, log in opened.logs.items()}, list(state[1])))
    opened.disk.truncate(wal.blocks.handle, wal.tail)
    path = folder / wal.blocks.path
    opened.crash()
    return path, ends, states


def opened_state(folder: Path) -> tuple[State, list[str]]:
    """What a store finds in a folder, and what it reports."""
    disk = SmallDisk(str(folder))
    try:
        recovery = Store(disk, TestClock(), SMALL).open()
        found = {queue: bodies(log) for queue, log in recovery.logs.items() if log.end}
        return (found, recovery.entries), recovery.report
    finally:
        disk.close_all()


def test_wal_cut_at_every_octet(tmp_path: Path) -> None:
    path, ends, states = three_frames(tmp_path)
    whole = path.read_bytes()
    assert len(whole) == ends[-1]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        if cut < ends[0]:
            with pytest.raises(CorruptFile) as damage:
                opened_state(tmp_path)
            assert damage.value.path == str(path), str(damage.value)
            continue
        frames = max(at for at, end in enumerate(ends) if end <= cut)
        state, report = opened_state(tmp_path)
        assert state == states[frames]
        assert path.stat().st_size == ends[frames]
        if cut in ends:
            assert report == []
        else:
            assert len(report) == 1
            rest = len(whole[ends[frames] : cut].rstrip(b"\0"))
            assert f"{path}: cut {rest} octets" in report[0]


@pytest.mark.parametrize("reservation", [0, 4096])
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_wal_with_every_octet_flipped(tmp_path: Path, flip: int, reservation: int) -> None:
    path, ends, states = three_frames(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole) + bytes(reservation)
        damaged[at] ^= flip
        path.write_bytes(damaged)
        if at >= ends[-2]:  # the last frame: as if its write had been torn
            state, report = opened_state(tmp_path)
            assert state == states[-2]
            assert len(report) == 1
            continue
        with pytest.raises(CorruptFile) as damage:
            opened_state(tmp_path)
        assert damage.value.path == str(path), str(damage.value)
        frame = sum(at >= end for end in ends)
        if frame:
            assert damage.value.position == ends[frame - 1]
            first = 2 * (frame - 1)
            assert f"queue 1, offsets {first} to {first + 1}" in str(damage.value)


def test_full_wal_file_is_checked_to_its_end(tmp_path: Path) -> None:
    """In a file that is not the last, the last frame cannot be a torn write."""
    opened = Opened(tmp_path, [1], StoreOptions())
    opened.publish(1, b"a")
    opened.sync()
    begin = opened.store.wals[-1].tail
    opened.publish(1, b"b")
    opened.sync()
    old = opened.store.wals[-1]
    assert opened.store.rotate([])
    opened.sync()
    opened.crash()
    path = tmp_path / old.blocks.path
    whole = path.read_bytes()
    assert len(whole) == old.tail
    for at in range(begin, len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(CorruptFile, match="octet"):
            opened_state(tmp_path)
        path.write_bytes(whole[:at])
        with pytest.raises(CorruptFile, match="octet"):
            opened_state(tmp_path)
    path.write_bytes(whole)
    assert opened_state(tmp_path)[0] == ({1: {0: b"a", 1: b"b"}}, [])


def test_segment_with_every_octet_flipped_or_cut(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], StoreOptions(rewrite_age_us=0))
    for number in range(5):
        opened.publish(1, b"record %d" % number, b"x" * number)
    assert opened.store.rotate([])
    opened.sync()
    settled = Everything()
    while opened.housekeep(settled):
        pass
    expected = bodies(opened.logs[1])
    path = tmp_path / opened.store.logs.stored[1].segments[0].segment.path
    opened.close()
    whole = path.read_bytes()

    def check(octets: bytes | bytearray) -> None:
        path.write_bytes(octets)
        with pytest.raises(CorruptFile) as damage:
            opened_state(tmp_path)
        assert damage.value.path == str(path), str(damage.value)

    for at in range(len(whole)):
        for flip in (0x01, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            check(damaged)
        check(whole[:at])
    path.write_bytes(whole)
    assert opened_state(tmp_path)[0][0] == {1: expected}


def test_a_frame_in_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    """A publisher that knows the format cannot make a torn write look like damage."""
    opened = Opened(tmp_path / "a", [1], StoreOptions())
    for _ in range(4):
        opened.publish(1, b"some")
        opened.sync()
    wal = opened.store.wals[-1]
    frame = (tmp_path / "a" / wal.blocks.path).read_bytes()[wal.tail - 200 : wal.tail]
    frame = frame[frame.index(b"FBWF") :]
    opened.crash()

    clock = TestClock()
    clock.us += 1
    other = Opened(tmp_path / "b", [1], StoreOptions(), clock=clock)
    for shift in range(8):
        other.publish(1, b"-" * shift + frame, b"end")
    wal = other.store.wals[-1]
    before = wal.tail
    other.sync()
    assert wal.tail > before
    other.crash()
    path = tmp_path / "b" / wal.blocks.path
    whole = bytearray(path.read_bytes())
    whole[wal.tail - 10] ^= 1
    path.write_bytes(whole)
    state, report = opened_state(tmp_path / "b")
    assert state == ({}, [])
    assert len(report) == 1


class LogModel:
    """What one queue's log must hold."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        self.end = 0
        self.durable_end = 0
        self.floor = 0


class StoreMachine(RuleBasedStateMachine):
    """Any order of writes, syncs, changes of files, housekeeping, power cuts and stops against a plain model."""

    queues = (1, 2, 3)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="forebay-store-"))
        self.models = {queue: LogModel() for queue in self.queues}
        self.wanted = Everything()
        self.notes: list[FrameEntry] = []
        self.notes_durable = 0
        self.commit: Commit | None = None
        self.job: Job | None = None
        self.held: list[tuple[int, int, dict[int, int], int]] = []  # lsn: notes, ends
        self.clock = TestClock()
        self.open()

    def teardown(self) -> None:
        self.opened.disk.close_all()
        shutil.rmtree(self.folder)

    def open(self) -> None:
        self.commit = None
        self.job = None
        self.opened = Opened(self.folder, list(self.queues), SMALL, None, self.clock)
        self.store = self.opened.store
        recovery = self.opened.recovery
        self.notes = self.notes[: len(recovery.entries)]
        assert recovery.entries == self.notes
        assert len(self.notes) >= self.notes_durable
        self.notes_durable = len(self.notes)
        for queue, model in self.models.items():
            log = self.opened.logs[queue]
            assert model.durable_end <= log.end <= model.end
            model.end = model.durable_end = int(log.end)
            model.floor = min(model.floor, model.end)
            model.bodies = {offset: body for offset, body in model.bodies.items() if offset < model.end}
            settled = self.wanted.settled.get(queue, set())
            self.wanted.settled[queue] = {offset for offset in settled if offset < model.end}
        self.check_logs()

    def check_logs(self) -> None:
        for queue, model in self.models.items():
            log = self.opened.logs[queue]
            found = bodies(log)
            assert all(model.bodies[offset] == body for offset, body in found.items())
            settled = self.wanted.settled.get(queue, set())
            missing = {at for at in model.bodies if at >= model.floor and at not in settled and at not in found}
            assert not missing
            assert log.end == model.end
            assert log.octets >= 0

    @rule(queue=st.sampled_from(queues), records=st.lists(st.binary(max_size=40), min_size=1, max_size=6))
    def publish(self, queue: int, records: list[bytes]) -> None:
        block = self.opened.publish(queue, *records)
        model = self.models[queue]
        assert block.base == model.end
        for body in records:
            model.bodies[model.end] = body
            model.end += 1

    @rule(queue=st.sampled_from(queues))
    def publish_large(self, queue: int) -> None:
        self.publish(queue, [b"L" * 3000])

    @rule(urgent=st.booleans())
    def note(self, urgent: bool) -> None:
        entry = noted(len(self.notes))
        self.notes.append(entry)
        self.store.note(entry.kind, entry.queue, entry.group, entry.payload, urgent)

    @rule()
    def write(self) -> None:
        commit = self.store.flush()
        if commit is not None:
            self.commit = commit
            ends = {queue: model.end for queue, model in self.models.items()}
            self.held.append((commit.lsn, len(self.notes), ends, 0))

    @precondition(lambda self: self.commit is not None)
    @rule()
    def sync(self) -> None:
        assert self.commit is not None
        self.commit.run()
        durable = self.store.synced(self.commit)
        self.commit = None
        while self.held and self.held[0][0] <= durable:
            _, notes, ends, _ = self.held.pop(0)
            self.notes_durable = notes
            for queue, end in ends.items():
                self.models[queue].durable_end = end
                assert self.opened.logs[queue].durable_end == end

    @rule()
    def rotate(self) -> None:
        if self.store.finished is None and self.store.wals[-1].named:
            assert self.store.rotate(list(self.notes))

    @precondition(lambda self: self.job is None and self.commit is None)
    @rule(counts=st.lists(st.integers(0, 8), min_size=3, max_size=3), files=st.integers(1, 3), part=st.floats(0, 1))
    def fill_files(self, counts: list[int], files: int, part: float) -> None:
        """Full WAL files, of which a part is wanted no more and some is in segments."""
        for _ in range(files):
            for queue, count in zip(self.queues, counts, strict=True):
                for number in range(count):
                    self.publish(queue, [b"%d" % number] * (number + 1))
            self.rotate()
            self.write()
            if self.commit is not None:
                self.sync()
        self.truncate(self.queues[0], part)
        self.plan()
        if self.job is not None:
            self.finish_job()

    @precondition(lambda self: self.job is None)
    @rule()
    def plan(self) -> None:
        self.job = self.store.plan(self.wanted, self.clock.now_us())

    @precondition(lambda self: self.job is not None)
    @rule()
    def finish_job(self) -> None:
        assert self.job is not None
        self.job.run()
        self.store.done(self.job)
        self.job = None

    @rule(queue=st.sampled_from(queues), part=st.floats(0, 1))
    def truncate(self, queue: int, part: float) -> None:
        model = self.models[queue]
        floor = model.floor + int((model.end - model.floor) * part)
        self.opened.logs[queue].truncate(floor)
        model.floor = max(model.floor, floor)

    @rule(queue=st.sampled_from(queues), part=st.floats(0, 1), count=st.integers(1, 40))
    def settle(self, queue: int, part: float, count: int) -> None:
        model = self.models[queue]
        first = int(model.end * part)
        self.wanted.settled.setdefault(queue, set()).update(range(first, min(model.end, first + count)))

    @rule(queue=st.sampled_from(queues), octets=st.integers(1, 3000))
    def retain(self, queue: int, octets: int) -> None:
        log = self.opened.logs[queue]
        before = log.start
        moved = retain(log, self.clock.now_us(), 0, octets, 0)
        assert moved == (log.start > before)
        model = self.models[queue]
        if moved:
            assert log.start <= model.durable_end
            model.floor = max(model.floor, int(log.start))

    @rule(queue=st.sampled_from(queues), part=st.floats(0, 1))
    def read(self, queue: int, part: float) -> None:
        log = self.opened.logs[queue]
        model = self.models[queue]
        offset = int(model.end * part)
        block = log.block(offset)
        if block is not None:
            assert block.end > max(offset, log.start)
            for index in range(block.count):
                assert block.body(index) == model.bodies[int(block.base + index)]

    @rule()
    def cut_power(self) -> None:
        """What was not synced is lost."""
        self.reopen()

    @precondition(lambda self: self.commit is not None)
    @rule(part=st.floats(0, 1))
    def cut_power_in_a_write(self, part: float) -> None:
        """Some of what was not synced has come to the disk."""
        assert self.commit is not None
        frame = self.commit.frames[0]
        if frame.file.named:
            octets = b"".join(frame.encode())
            octets = octets[: int(len(octets) * part)]
            self.opened.disk.pwrite(frame.file.blocks.handle, [octets], frame.position)
        self.reopen()

    @precondition(lambda self: self.commit is not None)
    @rule(changes=st.integers(0, 6))
    def cut_power_in_a_commit(self, changes: int) -> None:
        assert self.commit is not None
        self.cut_power_in(self.commit.run, changes)

    @precondition(lambda self: self.job is not None)
    @rule(changes=st.integers(0, 20))
    def cut_power_in_a_job(self, changes: int) -> None:
        assert self.job is not None
        self.cut_power_in(self.job.run, changes)

    def cut_power_in(self, work: Callable[[], None], changes: int) -> None:
        self.opened.disk.changes_max = changes
        with contextlib.suppress(PowerCut):
            work()
        self.reopen()

    @rule()
    def stop(self) -> None:
        """A clean stop: nothing at all may be lost."""
        if self.job is not None:
            self.finish_job()
        if self.commit is not None:
            self.sync()
        self.store.close()
        for model in self.models.values():
            model.durable_end = model.end
        self.notes_durable = len(self.notes)
        self.reopen()
        assert self.opened.recovery.report == []

    def reopen(self) -> None:
        self.opened.disk.close_all()
        self.held = []
        self.open()

    @invariant()
    def counts_agree(self) -> None:
        """What files and logs each count of the retained blocks is the same."""
        if self.job is None:
            self.check_logs()
        blocks = sum(int(log.index.size() - log.first) for log in self.opened.logs.values())
        octets = sum(int(log.octets) for log in self.opened.logs.values())
        files = self.store.logs.files.files.values()
        assert sum(int(file.blocks) for file in files) == blocks
        assert sum(int(file.octets) for file in files) == octets


StoreMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
TestStoreMachine = StoreMachine.TestCase
