"""Answers for people: times as times, sizes as sizes."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.cli.show import cell, figure, head, show_fields, show_table

NOW_MS = 1_795_461_402_265
NOW = "2026-11-23 19:16:42.265 UTC"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("octets", 1536, "1.5 KiB"),
        ("frees_octets", 0, "0 B"),
        ("octets_max", 3 << 30, "3.0 GiB"),
        ("due_ms", NOW_MS, NOW),
        ("stamp_us", NOW_MS * 1000, NOW),
        ("timestamp_s", NOW_MS // 1000, "2026-11-23 19:16:42.000 UTC"),
        ("oldest_ms", 90_000, "1 min 30 s"),
        ("delay_ms", 250, "250 ms"),
        ("expiry_s", 3_600, "1 h"),
        ("ready", 12_345, "12345"),
        ("durable", True, "yes"),
        ("due_ms", None, ""),
        ("name_ms", "text", "text"),
    ],
)
def test_the_name_of_a_figure_says_how_it_is_read(name: str, value: object, shown: str) -> None:
    assert figure(name, value) == shown


@pytest.mark.parametrize(
    ("name", "said"),
    [("due_ms", "due"), ("frees_octets", "frees size"), ("x-max_ms", "x-max_ms"), ("apply_to", "apply to")],
)
def test_heads_leave_the_unit_to_the_value(name: str, said: str) -> None:
    assert head(name) == said


def test_a_table_of_figures(capsys: Any) -> None:
    rows: list[dict[str, object]] = [
        {"queue": "q", "first": 3, "first_ms": NOW_MS, "octets": 10},
        {"queue": "other", "first": 4, "first_ms": None, "octets": 2048},
    ]
    show_table(("queue", "first", "first_ms", "octets"), rows)
    assert capsys.readouterr().out.splitlines() == [
        "queue  first  first time                      size",
        f"q          3  {NOW}     10 B",
        "other      4                               2.0 KiB",
    ]


def test_fields_with_what_is_in_them(capsys: Any) -> None:
    show_fields(
        {"queue": "q", "policy": None, "arguments": {"x-max-length": 5}, "groups": [{"group": "a", "ready": 1}]}
    )
    assert capsys.readouterr().out.splitlines() == [
        "queue      q",
        "policy     none",
        "arguments",
        "  x-max-length  5",
        "",
        "groups",
        "group  ready",
        "a          1",
    ]


def test_no_cell_has_what_a_terminal_obeys() -> None:
    assert cell("a\x1b[2Jb") == "a\\x1b[2Jb"
