"""The parts of an entry that can be in force together, and the reasons of the others."""

from __future__ import annotations

import pytest

from forebay.core.errors import PRECONDITION, RequestError
from forebay.management.definitions.left_out import LeftOut, fitting, in_order, is_about_loss, refusal_of
from forebay.queue.declaration.arguments import FOREIGN, KNOWN
from forebay.queue.declaration.spec import check_declaration

Arguments = dict[str, object]


def check(arguments: Arguments) -> None:
    check_declaration("queue 'q'", False, True, False, False, arguments)


def fit(arguments: Arguments) -> tuple[Arguments, dict[str, str]]:
    return fitting(arguments, (*KNOWN, *FOREIGN), "x-queue-type", check)


def test_arguments_that_can_all_be_stay_as_they_are() -> None:
    arguments: Arguments = {"x-max-length": 5, "x-ha-params": [1], "x-queue-type": "quorum"}
    assert fit(arguments) == (arguments, {})


def test_an_argument_may_need_another_that_stands_behind_it() -> None:
    arguments: Arguments = {"x-dead-letter-routing-key": "k", "x-odd": 1, "x-dead-letter-exchange": "e"}
    kept, reasons = fit(arguments)
    assert kept == {"x-dead-letter-routing-key": "k", "x-dead-letter-exchange": "e"}
    assert list(kept) == ["x-dead-letter-routing-key", "x-dead-letter-exchange"]
    assert list(reasons) == ["x-odd"]


def test_what_the_type_of_queue_does_not_know_is_left_out() -> None:
    kept, reasons = fit({"x-max-priority": 5, "x-queue-type": "stream", "x-overflow": "drop-head", "x-max-age": "1D"})
    assert kept == {"x-queue-type": "stream", "x-max-age": "1D"}
    assert sorted(reasons) == ["x-max-priority", "x-overflow"]


def test_a_type_that_there_is_not_leaves_nothing() -> None:
    with pytest.raises(RequestError, match="unsupported queue type 'odd'"):
        fit({"x-queue-type": "odd", "x-max-length": 5})


@pytest.mark.parametrize(
    ("name", "about"),
    [("x-overflow", True), ("max-length", True), ("x-max-lenght", True), ("x-odd", False), ("x-max-priority", False)],
)
def test_arguments_by_which_messages_are_kept_or_dropped_are_known_also_misspelt(name: str, about: bool) -> None:
    assert is_about_loss(name) == about


def test_parts_by_which_messages_may_be_lost_stand_first_and_a_strict_refusal_names_all() -> None:
    parts = [LeftOut("a[0]", "f", "odd"), LeftOut("b[1]", "", "no such", True)]
    assert [part.line() for part in in_order(parts)] == ["messages may be lost, or stay: b[1]: no such", "a[0]: f: odd"]
    assert refusal_of([], parts, False) is None
    refusal = refusal_of(["c[2]: wrong"], parts, True)
    assert refusal is not None
    assert refusal.text == "c[2]: wrong; messages may be lost, or stay: b[1]: no such; a[0]: f: odd"
    assert refusal.reason != PRECONDITION
