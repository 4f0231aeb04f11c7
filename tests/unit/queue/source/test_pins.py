"""Retention pins: what has to be written down, when they end, and what recovery makes of the notes."""

from __future__ import annotations

from forebay.log.queue_log import NOT_HELD
from forebay.queue.source.pins import NOTED_US, RetentionPins
from forebay.queue.watch import Watch

SECOND_US = 1_000_000


def test_the_lowest_is_the_floor() -> None:
    pins = RetentionPins()
    assert pins.floor() == NOT_HELD
    pins.put(b"a", 7, SECOND_US, 0)
    pins.put(b"b", 3, SECOND_US, 0)
    assert pins.floor() == 3
    assert pins.end(b"b")
    assert pins.floor() == 7
    assert pins.end(b"b") == b""


def test_new_and_back_are_noted_at_once_forward_now_and_then_renewals_never() -> None:
    pins = RetentionPins()
    assert pins.put(b"a", 5, SECOND_US, 0)
    assert pins.put(b"a", 5, SECOND_US, NOTED_US * 9) == b""
    assert pins.put(b"a", 6, SECOND_US, NOTED_US - 1) == b""
    assert pins.put(b"a", 7, SECOND_US, NOTED_US)
    assert pins.put(b"a", 8, SECOND_US, NOTED_US + 1) == b""
    assert pins.put(b"a", 4, SECOND_US, NOTED_US + 2)
    assert pins.put(b"a", 4, 2 * SECOND_US, NOTED_US + 3)


def test_keeps() -> None:
    pins = RetentionPins()
    assert not pins.keeps(b"a", 5)
    pins.put(b"a", 5, SECOND_US, 0)
    assert pins.keeps(b"a", 5) and pins.keeps(b"a", 9) and not pins.keeps(b"a", 4)


def test_expired_unless_renewed() -> None:
    pins = RetentionPins()
    pins.put(b"a", 5, SECOND_US, 0)
    pins.put(b"b", 5, 2 * SECOND_US, 0)
    assert pins.expired(SECOND_US - 1) == []
    assert pins.expired(SECOND_US) == [b"a"]
    pins.put(b"a", 5, SECOND_US, SECOND_US)
    assert pins.expired(2 * SECOND_US) == [b"a", b"b"]


def test_notes_give_the_holds_back_with_their_time_anew() -> None:
    pins = RetentionPins()
    notes = [pins.put("é".encode(), 5, SECOND_US, 0), pins.put(b"", 9, 3 * SECOND_US, 0), pins.put(b"c", 1, 1, 0)]
    notes += [pins.put(b"", 2, 3 * SECOND_US, 0), pins.end(b"c")]
    found = RetentionPins()
    for note in notes:
        found.restore(note)
    found.recovered(50)
    assert {hold.name: (hold.offset, hold.until_us) for hold in found.by_name.values()} == {
        "é".encode(): (5, 50 + SECOND_US),
        b"": (2, 50 + 3 * SECOND_US),
    }
    again = RetentionPins()
    for hold in found.by_name.values():
        again.restore(hold.note())
    assert again.floor() == found.floor() == 2


def test_a_watch_is_over_when_one_of_its_queues_goes_further() -> None:
    watch = Watch(1, 10)
    watch.after = {3: 5, 4: 0}
    assert not watch.is_over(3, 5)
    assert watch.is_over(3, 6) and watch.is_over(4, 1)
