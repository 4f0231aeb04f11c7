"""Followers rewrite and remove files as the node that leads says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.log.folder.inventory import read_inventory
from forebay.log.replication.told import ALL, INTERVALS_MAX, NO_END, ToldLiveness, coarse
from tests.replicated import Following, Leading
from tests.stores import SMALL, Everything, bodies

NOTE = 3


@pytest.fixture
def leading(tmp_path: Path) -> Leading:
    return Leading(tmp_path / "a", [1, 2], 1)


@pytest.fixture
def following(tmp_path: Path) -> Following:
    return Following(tmp_path / "b")


def ship(leading: Leading, following: Following) -> None:
    """All that the leader has is on both disks, and committed."""
    written = leading.write()
    assert following.fetch(leading.store) is None
    leading.store.commit_to(written)
    following.store.commit_to(following.store.on_disk)


def work(leading: Leading, wanted: Everything) -> None:
    while leading.housekeep(wanted):
        pass


def follow_orders(leading: Leading, following: Following) -> int:
    """The follower does what it is told; how many orders there were."""
    orders = leading.store.orders()
    for order in orders:
        job = following.store.plan_as_told(order.number, order.wanted)
        assert job is not None
        job.run()
        following.store.done(job)
    tidy(following)
    return len(orders)


def tidy(following: Following) -> None:
    for _ in range(10):
        job = following.store.plan_following()
        if job is None:
            return
        job.run()
        following.store.done(job)
    raise AssertionError("the work of a follower does not end")


def records(following: Following, queue: int) -> dict[int, bytes]:
    return bodies(following.store.logs.stored[queue].log)


def test_a_follower_rewrites_what_its_leader_has_rewritten(
    tmp_path: Path, leading: Leading, following: Following
) -> None:
    wanted = Everything()
    for _ in range(3):
        leading.full_file(1, 20)
        leading.full_file(2, 20)
    ship(leading, following)
    wanted.settled = {1: set(range(5, 25)), 2: set(range(60))}
    work(leading, wanted)
    assert follow_orders(leading, following) == 6
    assert records(following, 1) == bodies(leading.logs[1])
    assert records(following, 2) == {}
    names = sorted(path.name for path in (tmp_path / "b" / "wal").iterdir())
    assert names == [leading.store.wals[-1].blocks.path.removeprefix("wal/")]
    inventory = read_inventory(following.disk)
    assert inventory is not None
    assert inventory.floor == leading.store.wals[-1].head.first_lsn - 1
    expected = bodies(leading.logs[1])
    following.crash()
    second = Following(tmp_path / "b").lead([1, 2], 2)
    assert bodies(second.logs[1]) == expected


def test_an_order_goes_out_once_what_it_comes_of_is_committed(leading: Leading, following: Following) -> None:
    wanted = Everything()
    leading.full_file(1, 20)
    ship(leading, following)
    leading.logs[1].truncate(20)
    leading.publish(2, b"a")
    leading.store.note_starts()
    leading.store.order_all()
    job = leading.store.plan(wanted, leading.clock.now_us())
    assert job is not None
    job.run()
    leading.store.done(job)
    leading.write()
    assert leading.store.orders() == []
    leading.store.commit_to(leading.store.on_disk)
    assert [order.number for order in leading.store.orders()] == [ALL]
    assert leading.store.orders() == []


def test_a_follower_waits_until_what_it_has_found_is_committed(
    tmp_path: Path, leading: Leading, following: Following
) -> None:
    wanted = Everything()
    leading.full_file(1, 20)
    ship(leading, following)
    work(leading, wanted)
    (order,) = leading.store.orders()
    following.crash()
    following = Following(tmp_path / "b")
    assert following.store.plan_as_told(order.number, order.wanted) is None
    assert following.store.plan_following() is None
    ship(leading, following)
    assert following.store.plan_as_told(order.number, order.wanted) is not None


def test_files_are_rewritten_in_their_order_or_by_a_word_about_all(
    tmp_path: Path, leading: Leading, following: Following
) -> None:
    wanted = Everything()
    for _ in range(3):
        leading.full_file(1, 20)
    ship(leading, following)
    wanted.settled = {1: set(range(10, 50))}
    work(leading, wanted)
    orders = leading.store.orders()
    assert following.store.plan_as_told(orders[1].number, orders[1].wanted) is None
    leading.store.order_all()
    assert leading.store.plan(wanted, leading.clock.now_us()) is None
    leading.publish(2, b"new")
    ship(leading, following)
    (every,) = leading.store.orders()
    assert every.number == ALL
    job = following.store.plan_as_told(every.number, every.wanted)
    assert job is not None  # one for all files: the next word about all comes in a minute
    job.run()
    following.store.done(job)
    tidy(following)
    assert len(following.store.wals) == len(leading.store.wals)
    assert records(following, 1) == bodies(leading.logs[1])
    assert records(following, 2) == {0: b"new"}


def test_files_that_are_emptied_by_a_start_need_no_order(
    tmp_path: Path, leading: Leading, following: Following
) -> None:
    for _ in range(3):
        leading.full_file(1, 20)
    ship(leading, following)
    leading.logs[1].truncate(60)
    leading.store.note_starts()
    leading.write()
    assert following.fetch(leading.store) is None
    tidy(following)
    assert len(following.store.wals) == 4
    ship(leading, following)
    tidy(following)
    assert len(following.store.wals) == 1
    assert len(list((tmp_path / "b" / "wal").iterdir())) == 1


def test_files_are_kept_for_members_that_catch_up(leading: Leading, following: Following) -> None:
    wanted = Everything()
    leading.store.keep_from(1)
    for _ in range(4):
        leading.full_file(1, 20)
    leading.sync()
    work(leading, wanted)
    assert len(leading.store.wals) == 5
    assert leading.store.logs.stored[1].segments
    leading.full_file(1, 20)
    leading.sync()
    work(leading, wanted)
    assert leading.store.wals[4].blocks.blocks == 0, "what is kept does not keep others from being rewritten"
    ship(leading, following)
    assert following.store.end() == leading.store.end()
    leading.store.keep_from(leading.store.wals[2].head.first_lsn)
    work(leading, wanted)
    assert len(leading.store.wals) == 4
    assert leading.store.runs() == [(1, leading.store.wals[0].head.first_lsn, leading.store.end()[1])]
    leading.store.keep_from(NO_END)
    work(leading, wanted)
    assert len(leading.store.wals) == 1


def test_no_more_is_kept_than_makes_a_copy_the_shorter_way(tmp_path: Path) -> None:
    leading = Leading(tmp_path / "few", [1], 1, replace(SMALL, catch_up_octets_min=2000))
    wanted = Everything()
    leading.store.keep_from(1, True)
    for number in range(4):
        leading.full_file(1, 40)
        leading.logs[1].truncate(40 * (number + 1))
        leading.sync()
        work(leading, wanted)
    assert len(leading.store.wals) == 5, "a copy is made: it needs all frames from its beginning on"
    leading.store.keep_from(1)
    work(leading, wanted)
    assert len(leading.store.wals) < 5
    assert sum(wal.tail for wal in leading.store.wals) <= 2000
    leading.crash()


def test_an_order_that_is_too_long_wants_more(leading: Leading) -> None:
    intervals = [(3 * at, 3 * at + 1) for at in range(5000)]
    found = coarse(intervals)
    assert len(found) <= INTERVALS_MAX
    told = ToldLiveness(7, {1: found})
    for first, end in intervals:
        assert told.live(1, first, end) == [(first, end)]


@pytest.mark.parametrize("number", [ALL, 7])
def test_an_order_leaves_out_nothing_of_which_it_does_not_speak(number: int) -> None:
    assert ToldLiveness(number, {1: []}).live(1, 0, 5) == []
    assert ToldLiveness(number, {1: []}).live(2, 0, 5) == [(0, 5)]


def cut_off_rewrite(leading: Leading) -> None:
    """The first log that the leader's work is about is rewritten, and there the disk is full."""
    while (job := leading.store.plan(Everything(), leading.clock.now_us())) is not None:
        is_rewrite = bool(job.rewrites)
        if is_rewrite:
            job.rewrites = job.rewrites[:1]
        job.run()
        job.full = is_rewrite
        leading.store.done(job)
        leading.sync()
        if is_rewrite:
            return
    raise AssertionError("there is nothing to rewrite")


@pytest.mark.parametrize("crashes", [False, True])
def test_followers_lose_nothing_where_their_leader_has_to_rewrite_a_file_in_two_goes(
    tmp_path: Path, leading: Leading, following: Following, crashes: bool
) -> None:
    leading.publish(2, *[b"%d" % number for number in range(5)])
    leading.full_file(1, 20)
    ship(leading, following)
    cut_off_rewrite(leading)
    if crashes:
        leading.crash()
        leading = Following(tmp_path / "a").lead([1, 2], 2)
        ship(leading, following)
    leading.clock.us += 3_600_000_000
    work(leading, Everything())
    ship(leading, following)
    assert follow_orders(leading, following) == 1
    assert [len(records(following, queue)) for queue in (1, 2)] == [20, 5]


@pytest.mark.parametrize("begun", [0, 10])
def test_an_order_speaks_of_what_is_rewritten_and_nothing_around_it(leading: Leading, begun: int) -> None:
    """A rewrite that was cut off may have come to the middle of a log."""
    leading.full_file(1, 20)
    leading.sync()
    leading.logs[1].replace(0, begun, leading.logs[1].index.part(0, 0))
    job = None
    while job is None or not job.rewrites:
        job = leading.store.plan(Everything(), leading.clock.now_us())
        assert job is not None
        job.run()
        leading.store.done(job)
    (order,) = leading.store.orders()
    told = ToldLiveness(order.number, order.wanted)
    assert told.live(1, 0, 50) == ([(0, 20), (20, 50)] if begun == 0 else [(0, 10), (10, 20), (20, 50)])


def test_a_leader_rewrites_nothing_on_the_word_of_a_frame_that_is_not_committed(
    tmp_path: Path, leading: Leading, following: Following
) -> None:
    """Another may lead next, who has never heard that these are settled."""
    wanted = Everything()
    leading.full_file(1, 20)
    ship(leading, following)
    wanted.settled = {1: set(range(5, 20))}
    leading.store.note(NOTE, 1, 0, b"all but five are settled", True)
    leading.publish(2, b"where they went")
    for _ in range(3):
        leading.write()
        if (job := leading.store.plan(wanted, leading.clock.now_us())) is not None:
            job.run()
            leading.store.done(job)
    assert len(bodies(leading.logs[1])) == 20
    leading.crash()
    deposed = Following(tmp_path / "a")
    assert len(records(deposed, 1)) == 20
    deposed.crash()


def test_what_is_cut_from_a_log_meanwhile_is_in_the_file_that_a_leader_rewrites(
    tmp_path: Path, leading: Leading, following: Following
) -> None:
    """The rewrite waited for one frame; the next, which cuts the log, is not committed yet."""
    wanted = Everything()
    leading.full_file(1, 20)
    ship(leading, following)
    wanted.settled = {1: {19}}
    leading.store.note(NOTE, 1, 0, b"the last is settled", True)
    leading.store.plan(wanted, leading.clock.now_us())
    spare = leading.store.job_running
    assert spare is not None and not spare.rewrites
    spare.run()
    leading.store.done(spare)
    leading.sync()
    leading.logs[1].truncate(10)
    leading.store.note_starts()
    leading.publish(2, b"where they went")
    leading.write()
    assert leading.store.planner.rewrite_is_due(leading.store.durable)
    job = leading.store.plan(wanted, leading.clock.now_us())
    assert job is not None
    (rewritten,) = job.rewrites
    assert (rewritten.first, rewritten.wanted) == (0, [(0, 19)])
    job.run()
    leading.store.done(job)
    (segment,) = rewritten.made
    assert segment.entries[0].base == 0
    assert sorted(bodies(leading.logs[1])) == list(range(10, 19)), "what was cut is not looked at again"
