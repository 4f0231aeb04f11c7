"""Messages that wait for their time: order, cancelling, replacement, limits, and what a restart finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.internal_log import DELAYED_LOG
from forebay.broker.publish.delayed import SLACK, Delayed
from forebay.core.errors import INVALID, REFUSED, RequestError
from forebay.core.message import MQTT
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.store import Store
from forebay.message.requests import DELAY_ID_OCTETS_MAX
from tests.stores import SMALL, Everything, SmallDisk, TestClock

SECOND = 1_000_000


class Waiting:
    """Delayed messages on a store on real files; turns end by hand."""

    def __init__(self, folder: Path, messages_max: int = 0, clock: TestClock | None = None) -> None:
        self.clock = clock or TestClock()
        self.disk = SmallDisk(str(folder))
        self.store = Store(self.disk, self.clock, SMALL)
        entries = self.store.open().entries
        self.delayed = Delayed(self.store, messages_max)
        for entry in entries:
            assert entry.kind == INTERNAL
            self.delayed.restore(entry.group, entry.payload)
        self.delayed.recovered(self.clock.us)
        self.store.start(self.delayed.checkpoint())

    def put(self, body: bytes, seconds: int, key: bytes = b"") -> int:
        return self.delayed.put(key, self.clock.us + seconds * SECOND, MQTT | 16, b"a/b", b"", body)

    def due(self, seconds: int = 0, most: int = 100) -> list[bytes]:
        """What comes so many seconds later."""
        self.clock.us += seconds * SECOND
        return [each.body for each in self.delayed.due(self.clock.us, most)]

    def turn(self) -> None:
        self.delayed.end_turn(self.clock.us)
        commit = self.store.commit()
        if commit is not None:
            commit.run()
            self.store.synced(commit)

    def rotate(self) -> None:
        """Begin a new WAL file, and write all there is."""
        if self.store.finished is None:
            self.store.rotate(self.delayed.checkpoint())
        commit = self.store.flush()
        if commit is not None:
            commit.run()
            self.store.synced(commit)

    def listed(self) -> list[bytes]:
        return [each.body for each in self.delayed.listed(100)]

    def crash(self) -> None:
        self.disk.close_all()


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path / "data")


def test_messages_come_in_the_order_of_their_times_then_of_their_coming(waiting: Waiting) -> None:
    for body, seconds in ((b"c", 3), (b"a", 1), (b"b1", 2), (b"b2", 2)):
        waiting.put(body, seconds)
    waiting.turn()
    assert waiting.due() == []
    assert waiting.delayed.next_due_us() == waiting.clock.us + SECOND
    assert waiting.listed() == [b"a", b"b1", b"b2", b"c"]
    assert waiting.due(2, 2) == [b"a", b"b1"]
    assert waiting.due() == [b"b2"]
    assert waiting.delayed.count() == 1
    assert waiting.due(1) == [b"c"]
    assert waiting.delayed.next_due_us() == 0


def test_a_message_is_given_as_it_was_put(waiting: Waiting) -> None:
    offset = waiting.delayed.put(b"k:1", 7, MQTT | 64 | 32, b"$queue/q/k", b"\x01\x01", b"body")
    waiting.turn()
    found = waiting.delayed.due(7, 1)[0]
    assert (found.offset, found.due_us, found.key) == (offset, 7, b"k:1")
    assert (found.format, found.topic, found.properties, found.body) == (
        MQTT | 64 | 32,
        b"$queue/q/k",
        b"\x01\x01",
        b"body",
    )


def test_a_message_is_cancelled_by_key_or_offset_once(waiting: Waiting) -> None:
    waiting.put(b"1", 1, b"k")
    offset = waiting.put(b"2", 1)
    waiting.put(b"3", 1)
    waiting.turn()
    assert waiting.delayed.cancel(b"k")
    assert not waiting.delayed.cancel(b"k")
    assert waiting.delayed.cancel(b"%d" % offset)
    assert not waiting.delayed.cancel(b"%d" % offset)
    for name in (b"", b"x", b"99", b"-1", b"1" * 40):
        assert not waiting.delayed.cancel(name)
    assert waiting.due(1) == [b"3"]


def test_a_key_goes_before_an_offset_of_the_same_digits(waiting: Waiting) -> None:
    waiting.put(b"0", 1)
    waiting.put(b"1", 1, b"0")
    assert waiting.delayed.cancel(b"0")
    assert waiting.listed() == [b"0"]


def test_the_same_key_replaces_also_within_one_turn(waiting: Waiting, tmp_path: Path) -> None:
    waiting.put(b"1", 1, b"k")
    waiting.turn()
    waiting.put(b"2", 5, b"k")
    waiting.put(b"3", 3, b"k")
    assert waiting.delayed.count() == 1
    waiting.turn()
    waiting.crash()
    again = Waiting(tmp_path / "data", clock=waiting.clock)
    assert again.due(2) == []
    assert again.due(1) == [b"3"]
    assert again.due(9) == []


def test_what_was_put_in_this_turn_can_be_cancelled_given_and_listed(waiting: Waiting, tmp_path: Path) -> None:
    waiting.put(b"1", 0)
    waiting.put(b"2", 0, b"k")
    assert waiting.delayed.cancel(b"k")
    assert waiting.due() == [b"1"]
    waiting.put(b"3", 0)
    waiting.put(b"4", 9)
    assert waiting.due() == [b"3"]
    assert waiting.listed() == [b"4"]
    waiting.turn()
    waiting.crash()
    assert Waiting(tmp_path / "data", clock=waiting.clock).listed() == [b"4"]


def test_what_was_given_or_cancelled_does_not_come_back_after_a_crash(waiting: Waiting, tmp_path: Path) -> None:
    """Even on a broker that has nothing else to sync."""
    for body, key in ((b"1", b"one"), (b"2", b"two"), (b"3", b"three")):
        waiting.put(body, 1, key)
    waiting.turn()
    waiting.clock.us += SECOND
    assert [each.body for each in waiting.delayed.due(waiting.clock.us, 1)] == [b"1"]
    waiting.turn()
    assert waiting.delayed.cancel(b"three")
    waiting.turn()
    waiting.crash()
    again = Waiting(tmp_path / "data", clock=waiting.clock)
    assert again.listed() == [b"2"]
    assert again.delayed.cancel(b"two")


def test_a_crash_before_the_end_of_the_turn_gives_a_message_again(waiting: Waiting, tmp_path: Path) -> None:
    waiting.put(b"1", 0)
    waiting.turn()
    assert waiting.due() == [b"1"]
    waiting.crash()
    assert Waiting(tmp_path / "data", clock=waiting.clock).due() == [b"1"]


def test_a_message_that_could_not_be_published_waits_on(waiting: Waiting, tmp_path: Path) -> None:
    waiting.put(b"1", 0, b"k")
    waiting.turn()
    found = waiting.delayed.due(waiting.clock.us, 1)[0]
    waiting.delayed.put_back(found, waiting.clock.us + 2 * SECOND)
    waiting.turn()
    assert waiting.due(1) == []
    waiting.crash()
    again = Waiting(tmp_path / "data", clock=waiting.clock)
    assert again.due() == [b"1"]  # its own time has passed
    again.turn()


def test_a_message_put_back_leaves_its_key_to_the_one_that_came_after(waiting: Waiting) -> None:
    waiting.put(b"1", 0, b"k")
    found = waiting.delayed.due(waiting.clock.us, 1)[0]
    waiting.put(b"2", 0, b"k")
    waiting.delayed.put_back(found, waiting.clock.us)
    assert waiting.delayed.cancel(b"k")
    assert waiting.due() == [b"1"]
    assert not waiting.delayed.cancel(b"k")


def test_no_more_wait_than_the_limit_says(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path / "data", 2)
    waiting.put(b"1", 1, b"k")
    waiting.put(b"2", 1)
    with pytest.raises(RequestError, match="mqtt_delayed_max: 2 delayed messages") as refused:
        waiting.put(b"3", 1)
    assert refused.value.reason == REFUSED
    waiting.put(b"4", 1, b"k")  # replaces one
    assert sorted(waiting.due(1)) == [b"2", b"4"]
    waiting.put(b"5", 1)


def test_a_key_has_a_limit(waiting: Waiting) -> None:
    waiting.put(b"1", 1, b"k" * DELAY_ID_OCTETS_MAX)
    with pytest.raises(RequestError, match="256 octets") as wrong:
        waiting.put(b"2", 1, b"k" * (DELAY_ID_OCTETS_MAX + 1))
    assert wrong.value.reason == INVALID


def test_the_log_forgets_what_nobody_waits_for(waiting: Waiting) -> None:
    for number in range(3000):
        waiting.put(b"%d" % number, number % 7)
        if number % 100 == 0:
            waiting.turn()
    waiting.turn()
    assert len(waiting.due(7, 3000)) == 3000
    waiting.turn()
    waiting.turn()  # which knows that the settlements are on disk
    assert waiting.delayed.log.start == waiting.delayed.log.end == 3000
    assert waiting.delayed.needed(0, 3000) == []


def test_a_long_wait_keeps_only_its_own_record(waiting: Waiting) -> None:
    waiting.put(b"long", 1000)
    for number in range(50):
        waiting.put(b"%d" % number, 1)
    waiting.turn()
    waiting.due(1)
    waiting.turn()
    waiting.put(b"later", 1000)
    waiting.turn()
    assert waiting.delayed.needed(0, 52) == [(0, 1), (51, 52)]


def test_the_cancelled_do_not_pile_up_in_memory(waiting: Waiting) -> None:
    for _ in range(3 * SLACK):
        waiting.put(b"", 1000, b"k")
        waiting.delayed.cancel(b"k")
    assert len(waiting.delayed.times) <= SLACK + 1


def test_records_that_housekeeping_left_out_do_not_stop_recovery(waiting: Waiting, tmp_path: Path) -> None:
    """They were settled, and the note of that was lost with what was not synced."""
    bodies = [b"%1000d" % number for number in range(300)]
    for number, body in enumerate(bodies):
        waiting.put(body, 1000)
        if number % 20 == 19:
            waiting.turn()
    settled = Everything()
    settled.settled[DELAYED_LOG] = {*range(10), *range(50, 150)}
    for _ in range(4):
        waiting.rotate()
        job = waiting.store.plan(settled, waiting.clock.us)
        if job is not None:
            job.run()
            waiting.store.done(job)
    waiting.crash()
    again = Waiting(tmp_path / "data", clock=waiting.clock)
    block = again.delayed.log.block(60)
    assert block is not None and block.base > 60
    left = again.due(1000, 1000)
    assert set(bodies[10:50] + bodies[150:]) <= set(left)
    assert len(left) < 290
    again.turn()
    again.turn()
    assert again.delayed.log.start == 300
