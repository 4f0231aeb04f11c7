"""The functions of the filter language, and the values they work on."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from forebay.filter.functions import FUNCTIONS, TEXT_CHARACTERS_MAX
from forebay.filter.parser import parse
from forebay.filter.values import ELEMENTS_MAX
from tests.unit.filter.messages import message

BODY = {
    "s": "  Abc ",
    "n": -7,
    "f": 2.5,
    "list": [3, "4", 1.5, None, "x"],
    "texts": ["b", "a", "c"],
    "none": [],
    "table": {"a": 1},
    "tables": [{"a": 1}],
    "huge": 10**400,
    "wide": 10**30,
    "nan": math.nan,
    "inf": math.inf,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CONCAT('a', /n, /gone, TRUE)", "'a-7true'"),
        ("LENGTH(/s)", "6"),
        ("LENGTH(/n)", "2"),
        ("LOWER('ÄB')", "'äb'"),
        ("UPPER('äb')", "'ÄB'"),
        ("CONCAT('[', TRIM(/s), ']')", "'[Abc]'"),
        ("CONCAT('[', LTRIM(/s), ']')", "'[Abc ]'"),
        ("CONCAT('[', RTRIM(/s), ']')", "'[  Abc]'"),
        ("SUBSTR('abcdef', 2)", "'bcdef'"),
        ("SUBSTR('abcdef', 2, 3)", "'bcd'"),
        ("SUBSTR('abcdef', '2', 99)", "'bcdef'"),
        ("LEFT('abc', 2)", "'ab'"),
        ("RIGHT('abc', 2)", "'bc'"),
        ("RIGHT('abc', 9)", "'abc'"),
        ("REPLACE('a.b.c', '.', '-')", "'a-b-c'"),
        ("INSTR('abc', 'c')", "3"),
        ("INSTR('abc', 'C')", "0"),
        ("INSTR_I('abC', 'c')", "3"),
        ("ABS(/n)", "7"),
        ("CEILING(/f)", "3"),
        ("CEILING(-2.5)", "-2"),
        ("CEILING(2.0)", "2"),
        ("FLOOR(-2.5)", "-3"),
        ("ROUND(2.567, 2)", "2.57"),
        ("ROUND(2.6)", "3"),
        ("ROUND(/n)", "-7"),
        ("SIGN(/n)", "-1"),
        ("SIGN(0)", "0"),
        ("SIGN(/f)", "1"),
        ("GREATEST(1, 3, 2)", "3"),
        ("LEAST('b', 'a')", "'a'"),
        ("ARRAY_COUNT(/list)", "5"),
        ("ARRAY_COUNT(/none)", "0"),
        ("ARRAY_COUNT(/n)", "1"),
        ("ARRAY_MIN(/list)", "1.5"),
        ("ARRAY_MAX(/texts)", "'c'"),
        ("ARRAY_SUM(/list)", "8.5"),
        ("/list + 1", "4"),
        ("/wide", "1e30"),
        ("9223372036854775807 * 4", "3.6893488147419103e19"),
        ("/inf", "1e308 * 10"),
    ],
)
def test_what_a_function_makes(expression: str, value: str) -> None:
    assert parse(f"{expression} = {value}").matches(message(BODY))


@pytest.mark.parametrize(
    "expression",
    [
        "LENGTH(/gone)",
        "LENGTH(/table)",
        "TRIM('  ')",
        "LEFT('abc', 0)",
        "LEFT('abc', -1)",
        "LEFT('abc', 'x')",
        "LEFT('abc', 1.5)",
        "SUBSTR('abc', 9)",
        "REPLACE('a', 'a', '')",
        "INSTR('a', /gone)",
        "ABS('x')",
        "ROUND(1.5, 99)",
        "SIGN(/nan)",
        "GREATEST(1, /gone)",
        "LEAST(1, TRUE)",
        "ARRAY_COUNT(/gone)",
        "ARRAY_MAX(/none)",
        "ARRAY_MIN(/tables)",
        "CONCAT(/gone)",
        "/inf % 2",
        "1 / 0",
        "1.5 / 0",
        "/huge",
        "/none + 1",
    ],
)
def test_what_nobody_knows_is_null(expression: str) -> None:
    assert parse(f"{expression} IS NULL").matches(message(BODY))


def test_texts_alike_but_for_their_case() -> None:
    assert parse("STREQUAL_I('Straße', 'STRASSE') AND NOT STREQUAL_I('a', 'b')").matches(message({}))


def test_nan_is_unequal_to_everything() -> None:
    assert parse("/nan != /nan AND NOT /nan = /nan AND NOT /nan < 1 AND NOT /nan >= 1").matches(message(BODY))
    assert parse("/nan IS NAN AND /s IS NAN AND /f IS NOT NAN AND /inf IS NOT NAN").matches(message(BODY))


def test_texts_that_are_made_have_a_limit() -> None:
    long = message({"t": "x" * (TEXT_CHARACTERS_MAX // 2 + 1), "u": "y" * TEXT_CHARACTERS_MAX})
    assert parse("CONCAT(/t, /t) IS NULL AND REPLACE(/t, 'x', 'xx') IS NULL AND LENGTH(/u) > 1").matches(long)


def test_a_list_has_a_limit() -> None:
    assert parse("/l = 7").matches(message({"l": [7] * ELEMENTS_MAX}))
    assert parse("/l IS NOT NULL AND ARRAY_COUNT(/l) IS NULL").matches(message({"l": [7] * (ELEMENTS_MAX + 1)}))


def test_every_function_is_tried_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in FUNCTIONS if f"{name}(" not in text] == ["IF", "COALESCE"]  # those are in test_parser
