"""The account that faults are held against says so when something is lost, doubled, late or another."""

from __future__ import annotations

import pytest

from tests.cluster.faults.ledger import CHANGED, DISORDERED, DUPLICATED, Findings, Line, Offsets, OrderOfOne


@pytest.fixture
def line() -> Line:
    """Ten messages were sent, five on each of two connections; all but 3 and 4 are confirmed."""
    made = Line("work", Findings())
    for connection in (made.connect(), made.connect()):
        for _ in range(5):
            number = made.send(connection)
            if number not in (3, 4):
                made.confirm(number)
    return made


def kinds(line: Line) -> list[str]:
    return [kind for kind, _ in line.findings.take()]


def test_what_was_confirmed_and_did_not_come_is_missing(line: Line) -> None:
    for number in (0, 1, 2, 5, 6):
        line.see(number)
    assert line.missing(line.confirmed()) == [7, 8, 9]


def test_what_was_settled_may_not_come_again_and_all_else_may(line: Line) -> None:
    line.see(0)
    line.see(0)
    assert kinds(line) == []
    line.settle([0])
    line.see(0)
    assert kinds(line) == [DUPLICATED]


def test_the_order_of_a_connection_is_that_in_which_it_was_sent(line: Line) -> None:
    order = OrderOfOne(line)
    for number in (0, 2, 1):
        order.take(number, is_again=False)
    assert kinds(line) == [DISORDERED]
    order.take(0, is_again=True)
    assert kinds(line) == []
    order.take(2, is_again=False)
    assert kinds(line) == [DUPLICATED]


def test_only_what_was_not_confirmed_may_come_behind_a_later_connection_s(line: Line) -> None:
    order = OrderOfOne(line)
    for number in (5, 3):
        order.take(number, is_again=False)
    assert kinds(line) == []
    order.take(2, is_again=False)
    assert kinds(line) == [DISORDERED]


def test_an_offset_has_one_meaning_and_a_message_one_offset(line: Line) -> None:
    offsets = Offsets(line)
    for at in range(3):
        offsets.take(at, at)
    offsets.take(1, 1)
    assert kinds(line) == []
    offsets.take(1, 5)
    assert kinds(line) == [CHANGED]
    offsets.take(3, 0)
    assert kinds(line) == [DUPLICATED, DISORDERED]


def test_the_first_confirm_is_of_what_was_sent_after_a_moment(line: Line) -> None:
    assert line.first_confirm(0) == min(each for each in line.confirmed_at if each)
    assert line.first_confirm(line.sent_at[3]) == line.confirmed_at[5]
    assert line.first_confirm(line.sent_at[9] + 1) == 0
