"""Holds: what has to be written down, when they end, and what recovery makes of the notes."""

from __future__ import annotations

from forebay.log.queue_log import NOT_HELD
from forebay.queue.holds import NOTED_US, Holds
from forebay.queue.watch import Watch

SECOND_US = 1_000_000


def test_the_lowest_is_the_floor() -> None:
    holds = Holds()
    assert holds.floor() == NOT_HELD
    holds.put(b"a", 7, SECOND_US, 0)
    holds.put(b"b", 3, SECOND_US, 0)
    assert holds.floor() == 3
    assert holds.end(b"b")
    assert holds.floor() == 7
    assert holds.end(b"b") == b""


def test_new_and_back_are_noted_at_once_forward_now_and_then_renewals_never() -> None:
    holds = Holds()
    assert holds.put(b"a", 5, SECOND_US, 0)
    assert holds.put(b"a", 5, SECOND_US, NOTED_US * 9) == b""
    assert holds.put(b"a", 6, SECOND_US, NOTED_US - 1) == b""
    assert holds.put(b"a", 7, SECOND_US, NOTED_US)
    assert holds.put(b"a", 8, SECOND_US, NOTED_US + 1) == b""
    assert holds.put(b"a", 4, SECOND_US, NOTED_US + 2)
    assert holds.put(b"a", 4, 2 * SECOND_US, NOTED_US + 3)


def test_keeps() -> None:
    holds = Holds()
    assert not holds.keeps(b"a", 5)
    holds.put(b"a", 5, SECOND_US, 0)
    assert holds.keeps(b"a", 5) and holds.keeps(b"a", 9) and not holds.keeps(b"a", 4)


def test_expired_unless_renewed() -> None:
    holds = Holds()
    holds.put(b"a", 5, SECOND_US, 0)
    holds.put(b"b", 5, 2 * SECOND_US, 0)
    assert holds.expired(SECOND_US - 1) == []
    assert holds.expired(SECOND_US) == [b"a"]
    holds.put(b"a", 5, SECOND_US, SECOND_US)
    assert holds.expired(2 * SECOND_US) == [b"a", b"b"]


def test_notes_give_the_holds_back_with_their_time_anew() -> None:
    holds = Holds()
    notes = [holds.put("é".encode(), 5, SECOND_US, 0), holds.put(b"", 9, 3 * SECOND_US, 0), holds.put(b"c", 1, 1, 0)]
    notes += [holds.put(b"", 2, 3 * SECOND_US, 0), holds.end(b"c")]
    found = Holds()
    for note in notes:
        found.restore(note)
    found.recovered(50)
    assert {hold.name: (hold.offset, hold.until_us) for hold in found.by_name.values()} == {
        "é".encode(): (5, 50 + SECOND_US),
        b"": (2, 50 + 3 * SECOND_US),
    }
    again = Holds()
    for hold in found.by_name.values():
        again.restore(hold.note())
    assert again.floor() == found.floor() == 2


def test_a_watch_is_over_when_one_of_its_queues_goes_further() -> None:
    watch = Watch(1, 10)
    watch.after = {3: 5, 4: 0}
    assert not watch.is_over(3, 5)
    assert watch.is_over(3, 6) and watch.is_over(4, 1)
