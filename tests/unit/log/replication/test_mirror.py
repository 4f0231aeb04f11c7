"""A follower's log: the leader's frames, octet by octet, and what becomes of frames that no leader has any more."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from forebay.core.errors import DiskFull
from forebay.log.frame import FrameEntry
from forebay.log.replication.mirror import ForeignLog
from forebay.log.shipment import Shipment
from forebay.log.store import Store
from tests.replicated import Following, Leading, state_of, wal_files
from tests.simulation.disk import SimDisk
from tests.stores import SMALL, Opened, SmallDisk, TestClock, bodies

NOTE = 3


@pytest.fixture
def leading(tmp_path: Path) -> Leading:
    return Leading(tmp_path / "a", [1, 2], 1)


@pytest.fixture
def following(tmp_path: Path) -> Following:
    return Following(tmp_path / "b")


def some_frames(leading: Leading, count: int) -> None:
    for number in range(count):
        leading.publish(1 + number % 2, b"record %d" % number, b"x" * number)
        leading.store.note(NOTE, 1, number, b"note %d" % number, False)
        leading.write()


def test_a_follower_has_the_leaders_octets_and_state(tmp_path: Path, leading: Leading, following: Following) -> None:
    for _ in range(3):
        some_frames(leading, 10)
        leading.full_file(1, 5)
        assert following.fetch(leading.store) is None
        assert following.store.end() == leading.store.end()
        assert following.store.runs() == leading.store.runs()
    leading.crash()
    following.crash()
    assert wal_files(tmp_path / "a") == wal_files(tmp_path / "b")
    assert state_of(tmp_path / "a") == state_of(tmp_path / "b")


@pytest.mark.parametrize("octets_max", [1, 200, 3000, 1 << 20])
def test_frames_of_any_size_of_shipment(tmp_path: Path, following: Following, octets_max: int) -> None:
    small = 512
    leading = Leading(tmp_path / "a", [1, 2], 1)
    leading.store.outgoing.octets_max = small  # most of them come from the files
    some_frames(leading, 30)
    leading.full_file(1, 5)
    some_frames(leading, 3)
    end = leading.store.end()[1]
    lsn = 0
    while lsn < end:
        shipments = leading.store.frames_from(lsn + 1, octets_max)
        assert shipments
        octets = sum(len(each.octets) for each in shipments)
        assert octets <= octets_max or (len(shipments) == 1 and shipments[0].first == shipments[0].last)
        assert following.take((leading.store.epoch_of(lsn) or 0, lsn), shipments) is None
        lsn = int(shipments[-1].last)
    following.write()
    assert following.store.end() == leading.store.end()
    assert leading.store.frames_from(end + 1, octets_max) == []
    leading.crash()
    following.crash()
    assert wal_files(tmp_path / "a") == wal_files(tmp_path / "b")


def test_what_is_on_its_way_to_the_leaders_disk_can_be_had(leading: Leading, following: Following) -> None:
    leading.publish(1, b"a")
    commit = leading.store.flush()
    assert commit is not None
    assert following.fetch(leading.store) is None
    assert following.store.on_disk == commit.lsn > leading.store.on_disk
    commit.run()
    leading.store.written(commit)


def test_frames_that_are_here_are_passed_over(leading: Leading, following: Following) -> None:
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    end = following.store.end()
    shipments = leading.store.frames_from(2, 1 << 20)
    assert shipments
    assert following.take((1, 1), shipments) is None
    assert following.store.commit() is None
    assert following.store.end() == end
    some_frames(leading, 1)
    more = leading.store.frames_from(3, 1 << 20)
    assert more
    assert following.take((1, 2), more) is None
    assert following.write() == leading.store.end()[1]


def test_frames_behind_a_gap_are_refused(leading: Leading, following: Following) -> None:
    some_frames(leading, 5)
    shipments = leading.store.frames_from(4, 1 << 20)
    assert shipments
    refused = following.take((1, 3), shipments)
    assert refused is not None
    assert (refused.runs, refused.needs_copy) == ([], False)
    assert "no frame 3 of epoch 1 is here" in refused.why
    assert following.fetch(leading.store) is None
    refused = following.take((2, 3), shipments)
    assert refused is not None and refused.runs == [(1, 1, 6)]


def test_spoilt_octets_are_refused_wherever_they_are(leading: Leading, following: Following) -> None:
    some_frames(leading, 2)
    shipments = leading.store.frames_from(1, 1 << 20)
    assert shipments and len(shipments) == 1
    whole = shipments[0]
    for at in range(len(whole.octets)):
        octets = whole.octets[:at] + bytes([whole.octets[at] ^ 4]) + whole.octets[at + 1 :]
        spoilt = shipped(whole, octets)
        before = following.store.end()
        refused = following.take((0, 0), [spoilt])
        assert refused is not None, at
        assert following.store.end() >= before
    for at in range(32):
        head = whole.file_head[:at] + bytes([whole.file_head[at] ^ 4]) + whole.file_head[at + 1 :]
        assert following.take((0, 0), [shipped(whole, whole.octets, head)]) is not None
    for octets in (whole.octets[:-8], whole.octets + bytes(8), b""):
        assert following.take((0, 0), [shipped(whole, octets)]) is not None
    assert following.take((0, 0), [whole]) is None
    assert following.write() == 3


def shipped(shipment: Shipment, octets: bytes, head: bytes | None = None) -> Shipment:
    return Shipment(
        shipment.file_head if head is None else head,
        shipment.position,
        shipment.first,
        shipment.last,
        shipment.first_epoch,
        shipment.last_epoch,
        octets,
    )


def diverged(tmp_path: Path, leading: Leading, following: Following) -> Leading:
    """A follower has taken over; the one that led before has frames that nobody else has."""
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    following.store.commit_to(4)
    leading.publish(1, b"lost")
    leading.full_file(2, 4)
    leading.publish(1, b"lost, too")
    leading.write()
    leading.crash()
    second = following.lead([1, 2], 2)
    second.publish(1, b"new")
    second.write()
    return second


def test_a_new_leader_has_all_that_was_on_its_disk(tmp_path: Path, leading: Leading, following: Following) -> None:
    second = diverged(tmp_path, leading, following)
    assert second.recovery.entries == [FrameEntry(NOTE, 1, number, b"note %d" % number) for number in range(5)]
    assert bodies(second.logs[1])[0] == b"record 0"
    assert second.store.end() == (2, 8)
    assert second.store.durable == 4
    assert second.store.runs() == [(2, 7, 8), (1, 1, 6)]
    assert [second.store.epoch_of(lsn) for lsn in (0, 1, 6, 7, 8, 9)] == [None, 1, 1, 2, 2, None]
    second.store.commit_to(8)
    assert second.logs[1].durable_end == second.logs[1].end
    second.crash()


def test_who_was_deposed_cuts_what_nobody_has(tmp_path: Path, leading: Leading, following: Following) -> None:
    second = diverged(tmp_path, leading, following)
    first = Following(tmp_path / "a")
    assert first.store.runs() == [(1, 1, 9)]
    refused = first.fetch(second.store)
    assert refused is not None and not refused.needs_copy
    assert first.store.on_disk == 6
    first.write()  # the cut, and the folder read anew
    assert first.store.runs() == [(1, 1, 6)]
    assert first.fetch(second.store) is None
    assert first.store.end() == second.store.end()
    first.store.commit_to(8)
    first.crash()
    second.crash()
    assert wal_files(tmp_path / "a") == wal_files(tmp_path / "b")
    assert state_of(tmp_path / "a") == state_of(tmp_path / "b")


def test_a_follower_cuts_what_it_has_not_applied_without_reading_anew(
    tmp_path: Path, leading: Leading, following: Following
) -> None:
    third = Following(tmp_path / "c")
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    some_frames(leading, 3)
    leading.full_file(1, 3)
    assert third.fetch(leading.store) is None
    third.store.commit_to(5)
    mirror = third.store.mirror
    second = following.lead([1, 2], 2)
    some_frames(second, 4)
    assert third.fetch(second.store) is None
    assert third.store.mirror is mirror
    assert third.store.end() == second.store.end()
    third.store.commit_to(third.store.on_disk)
    third.crash()
    second.crash()
    assert wal_files(tmp_path / "b") == wal_files(tmp_path / "c")
    assert state_of(tmp_path / "b") == state_of(tmp_path / "c")


def test_a_cut_while_a_commit_is_on_its_way(tmp_path: Path, leading: Leading, following: Following) -> None:
    third = Following(tmp_path / "c")
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    assert third.fetch(leading.store) is None
    some_frames(leading, 3)
    leading.full_file(1, 3)
    shipments = leading.store.frames_from(7, 1 << 20)
    assert shipments
    assert third.take((1, 6), shipments) is None
    running = third.store.commit()
    assert running is not None
    second = following.lead([1, 2], 2)
    some_frames(second, 4)
    shipments = second.store.frames_from(7, 1 << 20)
    assert shipments
    assert third.take((1, 6), shipments) is None
    assert third.store.commit() is None
    running.run()
    assert third.store.written(running) == 6
    assert third.write() == second.store.end()[1]
    third.crash()
    second.crash()
    assert wal_files(tmp_path / "b") == wal_files(tmp_path / "c")
    assert state_of(tmp_path / "b") == state_of(tmp_path / "c")


class FollowingInMemory(Following):
    """A store that follows on a disk of which a power cut keeps what was synced, and by chance some of the rest."""

    def __init__(self, disk: SimDisk) -> None:
        self.memory = disk
        self.clock = TestClock()
        self.open(disk)

    def restarted(self, chance: Random) -> FollowingInMemory:
        """The power goes, and the node comes back."""
        self.memory.crash(chance)
        return FollowingInMemory(self.memory)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("files", [1, 2])
def test_what_was_cut_does_not_come_back_after_a_power_cut(
    leading: Leading, following: Following, files: int, restarted: bool
) -> None:
    """A new leader's frames go to a file of their own, whose sync says nothing of the file that was cut.

    Were the cut not synced, the old frames would stand before the new file after a power cut: the follower could not
    open its folder any more, and would hold a frame of which the cluster decided otherwise.
    """
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    some_frames(leading, 3)
    if files == 2:  # one is cut, and one is removed
        leading.full_file(1, 3)
        some_frames(leading, 2)
    third = FollowingInMemory(SimDisk())
    assert third.fetch(leading.store) is None
    if restarted:  # what is to be cut was applied when the folder was opened: it is read anew behind the cut
        third = third.restarted(Random(0))
    assert third.store.end() == leading.store.end() > (1, 6)
    second = following.lead([1, 2], 2)
    refused = third.fetch(second.store)
    assert (refused is not None) is restarted
    third.write()
    check_after_power_cuts(third, [(1, 1, 6)] if restarted else second.store.runs())
    assert third.fetch(second.store) is None
    check_after_power_cuts(third, second.store.runs())
    second.crash()
    leading.crash()


def check_after_power_cuts(following: FollowingInMemory, runs: list[tuple[int, int, int]]) -> None:
    """Whatever the disk kept of what was not synced, a follower that comes back has these epochs and frames."""
    for seed in range(20):
        again = FollowingInMemory(deepcopy(following.memory)).restarted(Random(seed))
        assert again.store.runs() == runs, seed


def test_what_is_committed_is_never_cut(tmp_path: Path, leading: Leading, following: Following) -> None:
    some_frames(leading, 5)
    third = Following(tmp_path / "c")
    assert third.fetch(leading.store) is None
    third.store.commit_to(6)
    other = following.lead([1, 2], 2)
    with pytest.raises(AssertionError, match="frames up to 6 are committed, and 1 is to be cut away"):
        third.fetch(other.store)


def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path, leading: Leading, following: Following) -> None:
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    before = wal_files(tmp_path / "b")
    following.disk.octets_max = following.disk.used() + 4096
    leading.full_file(1, 3)
    leading.publish(1, b"L" * 9000)
    leading.full_file(1, 3)
    with pytest.raises(DiskFull):
        following.fetch(leading.store)
    assert following.store.end() == (1, 6)
    assert following.store.on_disk == 6
    following.write()
    assert wal_files(tmp_path / "b") == before
    following.disk.octets_max = 1 << 60
    assert following.fetch(leading.store) is None
    leading.crash()
    following.crash()
    assert wal_files(tmp_path / "a") == wal_files(tmp_path / "b")
    assert state_of(tmp_path / "a") == state_of(tmp_path / "b")


def test_a_folder_of_a_node_alone_cannot_follow(tmp_path: Path) -> None:
    Opened(tmp_path, [1]).close()
    store = Store(SmallDisk(str(tmp_path)), TestClock(), SMALL, True)
    store.open()
    with pytest.raises(ForeignLog, match="written by a node alone"):
        store.follow()


def test_a_follower_goes_on_after_a_restart(tmp_path: Path, leading: Leading, following: Following) -> None:
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    following.store.commit_to(3)
    following.crash()
    following = Following(tmp_path / "b")
    assert following.store.end() == (1, 6)
    assert following.store.durable == 0
    some_frames(leading, 5)
    assert following.fetch(leading.store) is None
    following.store.commit_to(following.store.on_disk)
    following.store.close()
    following.crash()
    leading.crash()
    assert wal_files(tmp_path / "a") == wal_files(tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    second = Following(tmp_path / "b").lead([1, 2], 5)
    assert len(bodies(second.logs[1])) == 12
    second.crash()


def test_logs_that_are_dropped_go_once_that_is_committed(leading: Leading, following: Following) -> None:
    some_frames(leading, 4)
    leading.store.drop_log(2)
    leading.write()
    leading.store.rotate([])
    leading.write()
    assert following.fetch(leading.store) is None
    stored = following.store.logs.stored
    following.store.commit_to(4)
    assert sorted(stored) == [1, 2]
    following.store.commit_to(following.store.on_disk)
    assert sorted(stored) == [1]
    assert [queue for queue, _ in following.store.planner.dropped] == [2]


def test_a_start_moves_a_followers_log_once_it_is_committed(leading: Leading, following: Following) -> None:
    some_frames(leading, 6)
    leading.logs[1].truncate(2)
    leading.store.note_starts()
    leading.write()
    assert following.fetch(leading.store) is None
    end = following.store.on_disk
    following.store.commit_to(end - 1)
    log = following.store.logs.stored[1].log
    assert (log.start, log.end) == (0, 6)
    following.store.commit_to(end)
    assert (log.start, log.kept, log.end) == (2, 2, 6)
    assert list(bodies(log)) == [2, 3, 4, 5]


def test_a_log_that_begins_in_the_frame_of_a_checkpoint_stays(tmp_path: Path) -> None:
    """While the disk was busy with the commit before."""
    leading = Leading(tmp_path / "a", [1], 1)
    following = Following(tmp_path / "b")
    leading.publish(1, b"first")
    running = leading.store.flush()
    assert running is not None
    assert leading.store.rotate([])
    leading.logs[2] = leading.store.create_log(2, "q2", True)
    leading.publish(2, b"second")
    running.run()
    leading.store.written(running)
    leading.write()
    assert following.fetch(leading.store) is None
    following.store.commit_to(following.store.on_disk)
    assert list(bodies(following.store.logs.stored[2].log).values()) == [b"second"]
