"""The list of statements of AMQP 1.0, and the page that is made of it."""

from __future__ import annotations

import pytest

from tools import amqp10_conformance
from tools.amqp10_conformance import BrokerStatement, amqp10_conformance_page, faults, statements


def test_every_statement_has_tests_that_are_there_or_a_reason() -> None:
    assert faults() == []
    assert len(statements()) > 80


def test_what_is_wrong_with_the_list_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [
        BrokerStatement("1", "nothing shows it"),
        BrokerStatement("2", "both", ["test_01_connection.py::close_is_answered"], "a reason"),
        BrokerStatement("3", "no such test", ["test_01_connection.py::nothing"]),
        BrokerStatement("4", "no such module", ["test_nowhere.py::nothing"]),
    ]
    monkeypatch.setattr(amqp10_conformance, "statements", lambda: wrong)
    assert [each.partition(":")[0] for each in faults()] == ["1", "2", "3", "4"]


def test_the_page_links_each_test() -> None:
    page = amqp10_conformance_page("head\n")
    assert "[close_is_answered](../../tests/conformance/amqp10/test_01_connection.py)" in page
    assert page.count("\n| ") == len(statements()) + 1
