"""The functions of the filter language, and the values they work on."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from forebay.core.errors import RequestError
from forebay.filter.functions import FUNCTIONS, PROPERTY_FUNCTIONS, TEXT_CHARACTERS_MAX
from forebay.filter.parser import parse
from forebay.filter.subject import STEPS_A_LOOK
from forebay.filter.values import ELEMENTS_MAX
from tests.unit.filter.messages import Message, message

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
        ("REGEXP_REPLACE('+49 (30) 12', '[^0-9]+', '')", "'493012'"),
        ("REGEXP_REPLACE('aXbxc', '(?i)x', '-')", "'a-b-c'"),
        ("REGEXP_REPLACE('<a><b>', '<.*?>', 'T')", "'TT'"),
        ("REGEXP_REPLACE('<a><b>', '<.*>', 'T')", "'T'"),
        ("REGEXP_REPLACE('abc', 'x*', '-')", "'-a-b-c-'"),
        ("REGEXP_REPLACE('abc', '^', /n)", "'-7abc'"),
        ("REGEXP_REPLACE('abc', '$', '\\1')", "'abc\\1'"),
        ("REGEXP_REPLACE('abc', 'b', /gone)", "'ac'"),
        ("REGEXP_REPLACE(/n, '-', '+')", "'+7'"),
        ("REGEXP_REPLACE('abc', 'x', '-')", "'abc'"),
        ("INSTR('abc', 'c')", "3"),
        ("INSTR('abc', 'C')", "0"),
        ("INSTR_I('abC', 'c')", "3"),
        ("REVERSE('abc')", "'cba'"),
        ("MOD(/n, 2)", "-1"),
        ("MOD(7.5, 2)", "1.5"),
        ("SQRT('16')", "4"),
        ("POWER(2, 10)", "1024"),
        ("EXP(0)", "1"),
        ("ROUND(LN(EXP(2)), 9)", "2"),
        ("LOG2(8)", "3"),
        ("LOG10(1000)", "3"),
        ("SIN(0)", "0"),
        ("COS(0)", "1"),
        ("TAN(0)", "0"),
        ("ROUND(DEGREES(ASIN(1)), 9)", "90"),
        ("ACOS(1)", "0"),
        ("ROUND(DEGREES(ATAN(1)), 9)", "45"),
        ("ROUND(DEGREES(ATAN2(1, -1)), 9)", "135"),
        ("ROUND(RADIANS(180), 5)", "3.14159"),
        ("WIDTH_BUCKET(5.35, 0.024, 10.06, 5)", "3"),
        ("WIDTH_BUCKET(0, 0, 10, 5)", "1"),
        ("WIDTH_BUCKET(10, 0, 10, 5)", "6"),
        ("WIDTH_BUCKET(-1, 0, 10, 5)", "0"),
        ("WIDTH_BUCKET(99, 0, 10, 5)", "6"),
        ("WIDTH_BUCKET(9, 10, 0, 5)", "1"),
        ("WIDTH_BUCKET(11, 10, 0, 5)", "0"),
        ("ROUND(GEO_DISTANCE(52.5200, 13.4050, 48.8566, 2.3522) / 1000)", "877"),
        ("ROUND(GEO_DISTANCE(0, 0, 0, 180) / 1000)", "20015"),
        ("ROUND(GEO_DISTANCE(10, 20, 10, 380), 3)", "0"),
        ("CRC32('123456789')", "3421780262"),
        ("CRC64('123456789')", "11051210869376104954"),
        ("CRC64('ä')", "CRC64('\u00e4')"),
        ("MD5('abc')", "'900150983cd24fb0d6963f7d28e17f72'"),
        ("STRFTIME('%Y-%m-%d %H:%M:%S', 1700000000)", "'2023-11-14 22:13:20'"),
        ("STRFTIME('%FT%T.%f%z %j %u 100%%F', 1700000000.25)", "'2023-11-14T22:13:20.250000+0000 318 2 100%F'"),
        ("STRFTIME('%F', -1)", "'1969-12-31'"),
        ("STRPTIME('2023-11-14T22:13:20Z', '%FT%T%z')", "1700000000"),
        ("STRPTIME('2023-11-14 23:13:20.5+01:00', '%F %T.%f%z')", "1700000000.5"),
        ("STRPTIME('20231114 -0130', '%Y%m%d %z')", "1699925400"),
        ("STRPTIME('5%', '%H%%')", "18000"),
        ("STRPTIME('1970-01-02+05', '%F%z')", "68400"),
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
        "REGEXP_REPLACE('a', 'a', '')",
        "REGEXP_REPLACE(/gone, 'a', 'b')",
        "REGEXP_REPLACE('a', 'a', /table)",
        "CRC64(/gone)",
        "INSTR('a', /gone)",
        "MOD(1, 0)",
        "SQRT(-1)",
        "SQRT('x')",
        "POWER(0, -1)",
        "POWER(-8, 0.5)",
        "POWER(10, 400)",
        "EXP(1e9)",
        "LN(0)",
        "LOG2(-1)",
        "ASIN(2)",
        "SIN(/inf)",
        "WIDTH_BUCKET(1, 2, 2, 5)",
        "WIDTH_BUCKET(1, 0, 2, 0)",
        "WIDTH_BUCKET(1, 0, 2, 1.5)",
        "WIDTH_BUCKET(/nan, 0, 2, 5)",
        "GEO_DISTANCE(91, 0, 0, 0)",
        "GEO_DISTANCE(0, /inf, 0, 0)",
        "STRFTIME('%F', 1e12)",
        "STRFTIME('%F', -2e11)",
        "STRFTIME('%F', 'x')",
        "STRFTIME(CONCAT('%', 'Q'), 0)",
        "STRPTIME('2023-02-30', '%F')",
        "STRPTIME('2023-02-03x', '%F')",
        "STRPTIME('x', '%F')",
        "STRPTIME('12', '%%2')",
        "STRPTIME('1', CONCAT('%', 'Q'))",
        "STRPTIME('+1', '%z')",
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


@pytest.mark.parametrize("call", ["STRFTIME('%Q', 0)", "STRPTIME('1', '%j')", "STRFTIME('5%', 0)"])
def test_a_form_of_times_that_nobody_knows_is_refused(call: str) -> None:
    with pytest.raises(RequestError, match=r"filter, position 1, '.*': '%[Qj]?' is nothing that STR"):
        parse(f"{call} = 1")


def test_a_form_of_times_has_a_limit() -> None:
    long = message({"f": "%Y" * 200, "t": "1" * 800})
    assert parse("STRFTIME(/f, 0) IS NULL AND STRPTIME(/t, /f) IS NULL").matches(long)


def test_texts_that_are_made_have_a_limit() -> None:
    long = message({"t": "x" * (TEXT_CHARACTERS_MAX // 2 + 1), "u": "y" * TEXT_CHARACTERS_MAX})
    assert parse("CONCAT(/t, /t) IS NULL AND REPLACE(/t, 'x', 'xx') IS NULL AND LENGTH(/u) > 1").matches(long)


def test_a_list_has_a_limit() -> None:
    assert parse("/l = 7").matches(message({"l": [7] * ELEMENTS_MAX}))
    assert parse("/l IS NOT NULL AND ARRAY_COUNT(/l) IS NULL").matches(message({"l": [7] * (ELEMENTS_MAX + 1)}))


@pytest.mark.parametrize(("name", "fact"), list(PROPERTY_FUNCTIONS.items()))
def test_a_function_without_values_is_a_property(name: str, fact: str) -> None:
    read = parse(f"{name}() = 'x'")
    assert read.properties == {fact}
    assert read.written() == f"{fact} = 'x'"
    assert read.matches(Message(facts={fact: "x"}))
    assert parse(f"{name.lower()}() IS NULL").matches(message({}))
    with pytest.raises(RequestError, match=f"filter, position 1, '{name}': {name} takes no values"):
        parse(f"{name}(1) = 1")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            "REGEXP_REPLACE('a', /p, 'b')",
            "position 21, '/p': the second value of REGEXP_REPLACE is a pattern in quotes",
        ),
        ("REGEXP_REPLACE('a', '(a', 'b')", "the pattern's character 3: a group without its '"),
        ("REGEXP_REPLACE('a', 'a')", "',' is due here"),
        ("REGEXP_REPLACE(1 = 1, 'a', 'b')", "this is a condition"),
    ],
)
def test_a_replacement_that_cannot_be_is_refused(call: str, text: str) -> None:
    with pytest.raises(RequestError, match=re.escape(text)):
        parse(f"{call} = 'b'")


def test_replacements_are_written_as_they_are_read() -> None:
    written = "REGEXP_REPLACE(/a, 'it''s|x{2}', CONCAT(/b, '-')) = 'c'"
    assert parse(f" {written} ").written() == written


def test_replacements_have_limits() -> None:
    long = message({"t": "a" * 65_536, "u": "a" * 65_537, "w": "y" * 64})
    assert parse("LENGTH(REGEXP_REPLACE(/t, '^a', 'xy')) = 65537").matches(long)
    assert parse("REGEXP_REPLACE(/u, '^a', 'xy') IS NULL").matches(long)
    assert parse("REGEXP_REPLACE(/t, 'a', /w) IS NULL").matches(long)
    # Each match is known only when the text ends: the work would be quadratic.
    assert parse("REGEXP_REPLACE(/t, 'a|a.*b', '-') IS NULL").matches(long)


def test_checksums_count_in_full() -> None:
    subject = message({"t": "x" * (STEPS_A_LOOK // 2)})
    assert parse("CRC64(/t) = CRC64(/t) OR TRUE").matches(subject)
    assert parse("CRC64(/t) + CRC64(/t) + CRC64(/t) IS NULL").matches(subject)
    assert subject.is_cut


def test_every_function_is_tried_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in FUNCTIONS if f"{name}(" not in text] == ["IF", "COALESCE"]  # those are in test_parser
