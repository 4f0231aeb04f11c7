"""Packet identifiers in flight: free ones are found, and what each means."""

from __future__ import annotations

import pytest

from forebay.session.mqtt.outgoing.window import DIRECT_1, IDS_LEAST, IDS_MAX, Flight, Window

FLIGHT = Flight(DIRECT_1, 0, 0, None)


def take(window: Window, count: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        id = window.next_id()
        window.take(id, FLIGHT)
        found.append(int(id))
    return found


def test_identifiers_count_from_1_and_come_round_past_those_in_use() -> None:
    window = Window(3)
    assert take(window, 3) == [1, 2, 3]
    assert window.is_full()
    found: list[int] = []
    for _ in range(IDS_LEAST):
        window.free(window.last_id)
        found += take(window, 1)
    assert set(found) == set(range(1, IDS_LEAST + 1)) - {1, 2}
    assert window.inflight == 3


def test_an_identifier_that_is_free_means_nothing() -> None:
    window = Window(2)
    assert window.find(1) is None  # before there are any
    take(window, 1)
    assert window.find(1) is FLIGHT
    assert [window.find(id) for id in (0, 2, IDS_LEAST, IDS_LEAST + 1, IDS_MAX)] == [None] * 5
    window.free(1)
    assert window.find(1) is None


@pytest.mark.parametrize(
    ("size", "highest", "ids"),
    [(1, 0, IDS_LEAST), (100, 0, 200), (1, 500, 501), (32, IDS_MAX, IDS_MAX), (IDS_MAX, 0, IDS_MAX)],
)
def test_there_are_slots_for_the_window_and_what_an_earlier_connection_used(size: int, highest: int, ids: int) -> None:
    window = Window(size)
    window.make_slots(highest)
    assert window.ids == ids
    assert len(window.slots) == ids + 1
    if highest:
        window.take(highest, FLIGHT)
        assert window.find(highest) is FLIGHT


def test_the_widest_window_may_be_full() -> None:
    window = Window(IDS_MAX)
    assert take(window, IDS_MAX) == list(range(1, IDS_MAX + 1))
    assert window.is_full()
    window.free(7)
    assert take(window, 1) == [7]
