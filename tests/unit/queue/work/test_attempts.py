"""Attempts: how often records were delivered and failed, and since when, after a restart as before."""

from __future__ import annotations

from pathlib import Path

from forebay.queue.work.attempts import FAILURE, Attempts, deliveries_in, failures_in
from forebay.queue.work.dead_letters import DeadLetterBacklog
from forebay.queue.work.settlement import Settlement
from tests.unit.queue.work.test_settlement import delivered, filled

Known = list[tuple[int, int, int]]


def known(attempts: Attempts) -> Known:
    """Offset, deliveries and failures of each record that came back."""
    return [
        (offset, int(deliveries_in(value)), int(failures_in(value)))
        for offset, value in sorted(attempts.by_offset.items())
    ]


def restored(settlement: Settlement, *notes: bytes) -> Attempts:
    made = Attempts(settlement)
    for each in notes:
        made.restore(each)
    made.prune()
    return made


def test_what_is_noted_of_attempts_is_there_after_a_restart(tmp_path: Path) -> None:
    settlement = delivered(filled(tmp_path, 12))
    attempts = Attempts(settlement)
    attempts.note(2, 3, 1)
    attempts.note(4, 1, 2 + FAILURE)
    attempts.note(9, 2, 1 + 3 * FAILURE)
    assert attempts.note_failing(4, 700) == 700
    assert attempts.note_failing(4, 900) == 700
    assert attempts.note_failing(9, 900) == 900
    expected = [(2, 1, 0), (3, 1, 0), (4, 2, 1), (9, 1, 3), (10, 1, 3)]
    assert known(attempts) == expected
    assert (attempts.of(4), attempts.of(5)) == (2 + FAILURE, 0)
    notes = attempts.take_notes()
    assert attempts.take_notes() == b""
    for written in (notes, attempts.snapshot([])):
        again = restored(settlement, written)
        assert known(again) == expected
        assert again.failing == {4: 700, 9: 900}


def test_attempts_of_what_is_settled_are_forgotten(tmp_path: Path) -> None:
    settlement = delivered(filled(tmp_path, 12))
    attempts = Attempts(settlement)
    for offset in (1, 2, 3, 6):
        attempts.note(offset, 1, 1)
        attempts.note_failing(offset, 5)
    notes = attempts.take_notes()
    attempts.forget(2, 2)
    assert (sorted(attempts.by_offset), sorted(attempts.failing)) == ([1, 6], [1, 6])
    settlement.settle(2, 4)
    again = restored(settlement, notes)
    assert (sorted(again.by_offset), sorted(again.failing)) == ([1, 6], [1, 6])
    settlement.settle(0, 2)
    settlement.advance()
    again = Attempts(settlement)
    again.restore(notes)
    assert (sorted(again.by_offset), sorted(again.failing)) == ([6], [6])  # below what is committed nothing is taken
    attempts.start_over()
    assert (known(attempts), attempts.take_notes()) == ([], b"")


def test_attempts_beyond_the_end_of_the_log_are_not_believed(tmp_path: Path) -> None:
    longer = Attempts(delivered(filled(tmp_path / "longer", 9)))
    longer.note(3, 6, 2)
    again = restored(delivered(filled(tmp_path / "shorter", 5)), longer.take_notes())
    assert known(again) == [(3, 2, 0), (4, 2, 0)]


def test_dead_letters_are_one_run_only_where_they_touch_and_died_alike() -> None:
    backlog = DeadLetterBacklog()
    twice = 2 + FAILURE
    for first, count, cause, attempts in (
        (0, 2, "expired", 0),
        (2, 1, "expired", 0),  # touches the one before
        (4, 1, "expired", 0),  # 3 is not dead
        (5, 1, "rejected", 0),
        (6, 1, "rejected", twice),
        (7, 1, "rejected", twice),
        (8, 1, "rejected", 2 + 2 * FAILURE),
        (9, 1, "rejected", 1 + 2 * FAILURE),
    ):
        backlog.add(first, count, cause, attempts)
    assert [(each.first, each.count, each.cause, each.deliveries, each.failures) for each in backlog.runs] == [
        (0, 3, "expired", 0, 0),
        (4, 1, "expired", 0, 0),
        (5, 1, "rejected", 0, 0),
        (6, 2, "rejected", 2, 1),
        (8, 1, "rejected", 2, 2),
        (9, 1, "rejected", 1, 2),
    ]
    assert backlog.count == 9
