"""The filter language: what is understood, what is refused and where, and what holds for a message."""

from __future__ import annotations

import pytest

from forebay.core.errors import INVALID, RequestError
from forebay.filter.nodes import And, Comparison, Literal, MessageProperty, Path
from forebay.filter.parser import DEPTH_MAX, ITEMS_MAX, parse
from forebay.filter.tokens import FILTER_CHARACTERS_MAX, STEPS_MAX
from tests.unit.filter.messages import Message, message

ORDER = {
    "order": {"qty": 7, "price": 2.5, "note": "", "lines": [{"sku": "A", "n": 1}, {"sku": "B"}, 5]},
    "sym": "IBM",
    "tags": ["red", "blue"],
    "digits": "12",
    "open": True,
    "gone": None,
    "none": [],
    "a b": 1,
    "it's": 2,
    "order-id": 3,
    "55": 4,
    "": 5,
}
HEADERS = {
    "x-tries": 3,
    "region": b"eu",
    "a.b": "dotted",
    "spaced out": 1,
    "x-death": [{"reason": "expired", "count": 2}, {"reason": "rejected", "count": 1}],
}
PROPERTIES = {"queue": b"orders", "priority": 5, "routing_key": b"a.b.c", "death_reason": b"expired", "age_ms": 90_000}


@pytest.mark.parametrize(
    "text",
    [
        "/order/qty > 5 AND /sym IN ('A', 'IBM')",
        "/order/qty BETWEEN 7 AND 7.0",
        "/order/lines[1]/sku == 'B'",
        "/order/lines/sku = 'B'",
        "/order/lines/sku != 'B'",
        "/tags = 'blue'",
        "'blue' = /tags",
        '/tags[0] = "red"',
        "[/a b] = 1 AND /'a b' = 1 and /\"it's\" = 2 and /'it''s' = 2",
        "/order-id = 3 AND /55 = 4 AND /'' = 5",
        "/order/qty / 2 = 3",
        "/order/qty / 2.0 = 3.5",
        "-/order/qty % 4 = -3",
        "7 MOD 4 = 3",
        "2 + 3 * 4 = 14",
        "(2 + 3) * 4 = 20",
        "2 - (3 - 4) = 3",
        "- -5 = 5",
        "/digits = 12",
        "/digits > 5",
        "/sym > 5",
        "5 < /sym",
        "/open",
        "/open = TRUE",
        "NOT /open = FALSE",
        "/open > FALSE",
        "/gone IS NULL AND /order/note IS NULL AND /nowhere IS NULL",
        "/order IS NOT NULL AND /none IS NOT NULL AND NOT /sym IS NULL",
        "/sym IS NAN AND /digits IS NOT NAN",
        "/sym LIKE '^I.M$' AND /sym LIKE '(?i)ib' AND NOT /sym LIKE 'ib'",
        "/order/qty LIKE '7'",
        "/sym NOT LIKE 'x' and /sym not in ('x') and /order/qty NOT BETWEEN 8 AND 9",
        "/sym BEGINS WITH 'IB' AND /sym ENDS WITH 'BM' AND /sym NOT BEGINS WITH 'BM'",
        "header.x-tries = 3 AND header.region = 'eu' AND header.a.b = 'dotted' AND header.'spaced out' = 1",
        "header.x-death[1]/reason = 'rejected'",
        "header.x-death/count = 2",
        "queue = 'orders' AND priority >= 5 AND routing_key LIKE '^a[.]' AND death_reason IN ('expired', 'maxlen')",
        "age_ms > 60 * 1000",
        "IF(/open, 'yes', 'no') = 'yes'",
        "IF(/nowhere = 1, 'yes', 'no') = 'no'",
        "COALESCE(/gone, /order/note, 'x') = 'x'",
        "/nowhere = 1 OR /sym = 'IBM'",
        "1 = 1 or 1 = 2 and 1 = 3",
        "18446744073709551615 > 9223372036854775807",
        "1e3 = 1000 AND 1.5e-1 = 0.15",
    ],
)
def test_a_filter_holds(text: str) -> None:
    assert parse(text).matches(message(ORDER, HEADERS, **PROPERTIES))


@pytest.mark.parametrize(
    "text",
    [
        "/nowhere = 1",
        "NOT /nowhere = 1",
        "/nowhere != 1",
        "/gone != 1",
        "/order/note != 'x'",
        "/none = 1",
        "/order = 1",
        "/open = 'true'",
        "/open != 1",
        "/nowhere NOT IN (1)",
        "/sym NOT IN ('x', /nowhere)",
        "/nowhere NOT LIKE 'a'",
        "/nowhere / 0 = 1",
        "1 / 0 IS NOT NULL",
        "1.5 % 0 IS NOT NULL",
        "/sym + 1 IS NOT NULL",
        "/sym",
        "/order/qty",
        "/nowhere IS NAN",
        "NOT /order/lines/sku = 'A'",
        "/order/qty/lines = 1",
        "/tags[2] IS NOT NULL",
        "/sym[0] IS NOT NULL",
        "topic = 'a' OR NOT topic = 'a'",
    ],
)
def test_a_filter_does_not_hold(text: str) -> None:
    assert not parse(text).matches(message(ORDER, HEADERS, **PROPERTIES))


@pytest.mark.parametrize(
    ("text", "position", "word", "said"),
    [
        ("", 1, "the end", "a value is due"),
        ("/a >", 5, "the end", "a value is due"),
        ("/a AN /b", 4, "'AN'", "AND or OR may follow"),
        ("priorit = 1", 1, "'priorit'", "did you mean priority?"),
        ("zzz = 1", 1, "'zzz'", "known are queue, offset"),
        ("/a = 'x", 6, '"\'x"', "closing quote"),
        ("(/a = 1", 8, "the end", "')' is due"),
        ("/a = NULL", 6, "'NULL'", "ask IS NULL"),
        ("/a = ''", 6, "\"''\"", "ask IS NULL"),
        ("5", 1, "'5'", "a condition is due"),
        ("/a AND 5", 8, "'5'", "a condition is due"),
        ("NOT 'x'", 5, "\"'x'\"", "a condition is due"),
        ("1 + (/a = 1) = 2", 5, "'('", "a value is due"),
        ("(/a = 1) = TRUE", 1, "'('", "a value is due"),
        ("/a LIKE '(a'", 9, "\"'(a'\"", "a group without its ')'"),
        ("/a LIKE /b", 9, "'/b'", "a pattern in quotes"),
        ("/a IS 5", 7, "'5'", "NULL or [NOT] NAN"),
        ("/a NOT 5", 8, "'5'", "after NOT here"),
        ("/a BEGINS 'x'", 11, "\"'x'\"", "WITH is due"),
        ("/a IN 1", 7, "'1'", "'(' is due"),
        ("/a BETWEEN 1, 2", 13, "','", "AND is due"),
        ("FOO(1) = 1", 1, "'FOO'", "no function; known are IF"),
        ("LENGTH(1, 2) = 1", 1, "'LENGTH'", "takes 1 values"),
        ("IF(1, 2, 3) = 1", 4, "'1'", "a condition is due"),
        ("ABS(/a = 1) = 1", 5, "'/a'", "a value is due"),
        ("//a = 1", 1, "'//'", "a name missing"),
        ("header. = 1", 1, "'header. '", "a name missing"),
        ("/a[x] = 1", 1, "'/a[x'", "wants an index"),
        ("[a b] = 1", 1, "'[a'", "a path in brackets"),
        ("1a = 1", 1, "'1a'", "no number"),
        ("1. = 1", 1, "'1. '", "no number"),
        ("1e999 = 1", 1, "'1e999'", "beyond all"),
        ("/a = 1 ; 2", 8, "';'", "no word"),
        ("1 = 1 = 1", 7, "'='", "complete before it"),
        ("/a = AND", 6, "'AND'", "a value is due"),
        ("/a" * (STEPS_MAX + 1) + " = 1", 1, "'" + "/a" * 20 + "'", "steps"),
        ("1 = " + "9" * 70, 5, "'" + "9" * 40 + "'", "64 characters"),
        ("(" * (DEPTH_MAX + 1), DEPTH_MAX + 2, "the end", "within each other"),
        ("NOT " * (DEPTH_MAX + 1) + "/a", 4 * (DEPTH_MAX + 1) + 1, "'/a'", "within each other"),
        ("/a IN (" + "1," * ITEMS_MAX + "1)", 8 + 2 * ITEMS_MAX, "'1'", "values for IN"),
        (" " * FILTER_CHARACTERS_MAX + "1", FILTER_CHARACTERS_MAX + 1, "'1'", "characters"),
    ],
)
def test_an_error_names_position_and_word(text: str, position: int, word: str, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(text)
    assert caught.value.reason == INVALID
    assert caught.value.text.startswith(f"filter, position {position}, {word}: ")
    assert said in caught.value.text


def test_long_sums_have_a_limit_too() -> None:
    with pytest.raises(RequestError, match="within each other"):
        parse("+".join(["1"] * (DEPTH_MAX + 2)) + " = 1")


def test_a_chain_of_and_is_as_long_as_the_text_may_be() -> None:
    assert parse(" AND ".join(["/a = 1"] * 500)).matches(message({"a": 1}))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("/a>5 and(/b=1 or /c<>2)", "/a > 5 AND (/b = 1 OR /c != 2)"),
        ("((/a == 1))", "/a = 1"),
        ("/a not like 'x''y'", "NOT /a LIKE 'x''y'"),
        ("(NOT /a) and (1-(2-3)=0)", "NOT /a AND 1 - (2 - 3) = 0"),
        ("(1-2)-3 mod 2 = 0", "1 - 2 - 3 % 2 = 0"),
        ("[/a b/c[0]] is not nan", "NOT /'a b'/c[0] IS NAN"),
        ('header."x y"/z in (1,2.5,"q",true)', "header.'x y'/z IN (1, 2.5, 'q', TRUE)"),
        ("if(/a,1,null) is null", "IF(/a, 1, NULL) IS NULL"),
        ("-(-/a) = -5", "-(-/a) = -5"),
        ("/a begins with 'x' or /a ends with 'y'", "/a BEGINS WITH 'x' OR /a ENDS WITH 'y'"),
    ],
)
def test_a_filter_is_written_in_one_form(text: str, written: str) -> None:
    assert parse(text).written() == written
    assert parse(written).written() == written


def test_the_body_is_parsed_once_and_only_if_it_is_asked_for() -> None:
    other = message({"a": 1}, priority=1)
    assert parse("priority = 1").matches(other)
    assert other.parses == 0
    assert parse("/a = 1 AND /a < 2 AND /b IS NULL").matches(other)
    assert not parse("/a = 2").matches(other)
    assert other.parses == 1


def test_a_condition_that_is_decided_asks_no_further() -> None:
    other = message({"a": 1}, priority=1)
    assert parse("priority = 1 OR /a = 1").matches(other)
    assert not parse("priority = 2 AND /a = 1").matches(other)
    assert other.parses == 0


def test_a_body_that_is_no_json_has_no_values() -> None:
    assert parse("/a IS NULL").matches(Message(b"\xff\x00"))
    assert not parse("/a = 1 OR NOT /a = 1").matches(Message(b"{"))
    assert parse("/a IS NULL").matches(Message(b"5"))


def test_the_tree_can_be_walked() -> None:
    root = parse("/a/b[2] >= 5 AND queue = 'q'").root
    assert isinstance(root, And)
    first, second = root.parts
    assert isinstance(first, Comparison) and isinstance(second, Comparison)
    path, number = first.parts
    assert isinstance(path, Path) and path.header is None
    assert [(step.name, step.index) for step in path.steps] == [("a", 0), ("b", 0), (None, 2)]
    assert isinstance(number, Literal) and number.value == 5
    fact = second.parts[0]
    assert isinstance(fact, MessageProperty) and fact.name == "queue"


def test_what_a_filter_asks_for_is_known_beforehand() -> None:
    filter = parse("/a > 5 AND (priority = 1 OR NOT header.b = routing_key) AND LENGTH(priority) > 1")
    assert filter.properties == {"priority", "routing_key"}
    assert filter.asks_body
    assert filter.size == 16
    assert not parse("header.a = 'b'").asks_body
