"""Tables fit the terminal, whatever is in them."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from forebay.cli.table import NUMBER, TEXT, WHOLE, fitted, table_lines

HEADS = ("queue", "ready", "stored")
KINDS = (TEXT, NUMBER, WHOLE)
ROWS = (
    ("orders", "7", "2026-11-23 19:16:42.265 UTC"),
    ("a-queue-with-a-name-that-is-long-" * 2, "1234567", "2026-11-23 19:16:42.265 UTC"),
)


def test_where_there_is_room_nothing_is_cut() -> None:
    lines, hidden = table_lines(HEADS, ROWS, KINDS, 200)
    assert hidden == []
    assert lines[0].split() == list(HEADS)
    assert [line.split(maxsplit=2) for line in lines[1:]] == [list(row) for row in ROWS]


@pytest.mark.parametrize("columns", range(1, 120))
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(columns: int) -> None:
    lines, hidden = table_lines(HEADS, ROWS, KINDS, columns)
    assert all(cell_len(line) <= columns for line in lines)
    assert ("ready" in hidden) or ("1234567" in lines[2])
    assert ("stored" in hidden) or lines[2].endswith("2026-11-23 19:16:42.265 UTC")
    assert list(HEADS)[len(HEADS) - len(hidden) :] == hidden


def test_what_is_cut_says_so() -> None:
    lines, _ = table_lines(HEADS, ROWS, KINDS, 60)
    assert lines[1].startswith("orders ")
    assert lines[2].startswith("a-queue-with-a-name-t…")
    assert cell_len(lines[2]) == 60


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("orders", 6, "orders"),
        ("orders", 5, "orde…"),
        ("订单队列", 8, "订单队列"),
        ("订单队列", 7, "订单队…"),
        ("订单队列", 6, "订单…"),  # half a character is none
        ("e\u0301te\u0301", 3, "e\u0301te\u0301"),
        ("orders", 1, "…"),
    ],
)
def test_columns_are_those_of_the_terminal(text: str, columns: int, shown: str) -> None:
    assert fitted(text, columns) == shown
    assert cell_len(shown) <= columns


def test_wide_characters_keep_the_columns_beside_them_in_line() -> None:
    lines, _ = table_lines(("queue", "ready"), (("订单", "1"), ("mail", "2")), (TEXT, NUMBER), 40)
    assert {cell_len(line) for line in lines} == {12}
