"""Selectors of JMS and SQL filters of AMQP: what they match, and how they are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import INVALID, RequestError
from forebay.filter.parser import parse
from forebay.filter.sql.selector import parse_jms, parse_sql
from tests.unit.filter.messages import Message

SUBJECT = Message(
    headers={"color": "red", "n": 5, "flag": True, "path": "a.b*c%d", "lines": "one\ntwo", "a.b": 1, "my key": "it's"},
    facts={"priority": None, "message_id": "ID:7", "timestamp": 1000, "correlation_id": b"c1", "user_id": "guest"},
)


@pytest.mark.parametrize(
    ("selector", "held"),
    [
        ("color = 'red'", True),
        ("color <> 'red'", False),
        ("color = 'RED'", False),
        ("n BETWEEN 5 AND 6 and not n not between 4 and 5", True),
        ("n IN (1, 5)", True),
        ("n NOT IN (1, 5)", False),
        ("color in ('blue', 'green') Or color Is Not Null", True),
        ("missing IS NULL", True),
        ("missing = 1 OR flag", True),
        ("missing = 1", False),
        ("NOT missing = 1", False),  # unknown, not false
        ("missing <> 1", False),
        ("flag = TRUE AND NOT flag = false", True),
        ("n + 1 * 2 = 7 AND (n + 1) * 2 = 12 AND -n = -5 AND +n = 5 AND n / 2 = 2", True),
        ("n = 5L AND n = 5.0d AND n > .5 AND n < 5e1", True),
        ("n / 0 = 1", False),
        ("color LIKE 're_'", True),
        ("color LIKE 'e%'", False),
        ("color LIKE 'r'", False),
        ("color LIKE '%d' AND color NOT LIKE '%e'", True),
        ("path LIKE 'a.b*c!%d' ESCAPE '!'", True),
        ("path LIKE 'a_b.%'", False),
        ("path LIKE 'a.b*c!%' ESCAPE '!'", False),
        ("lines LIKE 'one%two'", True),
        ("lines LIKE 'one'", False),
        ("JMSPriority = 4 AND JMSMessageID = 'ID:7' AND JMSTimestamp = 1000000 AND JMSCorrelationID = 'c1'", True),
        ("JMSXUserID = 'guest'", True),
        ("a.b = 1", True),
        ("color = 'it''s'", False),
    ],
)
def test_a_jms_selector_matches(selector: str, held: bool) -> None:
    assert parse(parse_jms(selector)).matches(SUBJECT) is held


@pytest.mark.parametrize(
    ("selector", "held"),
    [
        ("color = 'red' AND a.color = \"red\" AND application_properties.color = 'red'", True),
        ("[my key] = 'it''s' AND [my key] = \"it's\"", True),
        ("[a.b] = 1", True),
        ("properties.message_id LIKE 'ID%' AND p.correlation_id = 'c1' AND p.creation_time >= 1000000", True),
        ("header.priority = 4 AND h.priority < 5", True),
        ("n % 2 = 1", True),
        ("missing IS NULL AND color IS NOT NULL", True),
        ("and = 1 OR n = 5", True),  # a keyword in small letters is a name
    ],
)
def test_an_sql_filter_matches(selector: str, held: bool) -> None:
    assert parse(parse_sql(selector)).matches(SUBJECT) is held


@pytest.mark.parametrize(
    ("selector", "position", "message"),
    [
        ("", 1, "a value is due"),
        ("'red'", 1, "a condition is due"),
        ("color =", 8, "a value is due"),
        ("color = 'red", 9, "closing quote"),
        ("color = ''", 9, "IS NULL"),
        ('color = "red"', 9, "begins so"),
        ("color == 'red'", 8, "a value is due"),
        ("n = 1 n = 2", 7, "complete before it"),
        ("(n = 1", 7, "')' is due"),
        ("(n = 1) = TRUE", 1, "a value is due"),
        ("n IN ()", 7, "a value is due"),
        ("n BETWEEN 1 OR 2", 13, "AND is due"),
        ("n NOT = 1", 7, "NOT here"),
        ("n IS 1", 6, "NULL"),
        ("n LIKE 5", 8, "pattern in quotes"),
        ("n LIKE 'a' ESCAPE 'bc'", 19, "one character"),
        ("n LIKE 'a!b' ESCAPE '!'", 8, "escape"),
        ("n = 0xFF", 5, "hexadecimal"),
        ("n = 1x", 5, "no number"),
        ("n = 1e", 5, "no number"),
        ("n = 1e999", 5, "beyond"),
        ("n = 99999999999999999999", 5, "beyond"),
        ("n % 2 = 1", 3, "begins so"),
        ("upper(n) = 1", 1, "functions"),
        ("JMSType = 'x'", 1, "cannot ask"),
        ("n = 1 AND JMSDeliveryMode = 'PERSISTENT'", 11, "cannot ask"),
        ("n = 1 AND #", 11, "begins so"),
    ],
)
def test_a_wrong_jms_selector_is_refused_by_position(selector: str, position: int, message: str) -> None:
    with pytest.raises(RequestError, match=rf"^selector, position {position}, .*{re.escape(message)}") as caught:
        parse_jms(selector)
    assert caught.value.reason == INVALID


@pytest.mark.parametrize(
    ("selector", "position"),
    [
        ("n BETWEEN 1 AND 2", 3),
        ("color = 'x' or n = 1", 13),
        ("p.subject = 'x'", 1),
        ("properties.group_id = 'x'", 1),
        ("header.durable = TRUE", 1),
        ("footer.x = 1", 1),
        ("a.b.c = 1", 1),
        ("[] = 1", 1),
        ("[x = 1", 1),
        ("p.creation_time < UTC()", 19),
        ("x = 0xABCD", 5),
    ],
)
def test_a_wrong_sql_filter_is_refused_by_position(selector: str, position: int) -> None:
    with pytest.raises(RequestError, match=rf"^selector, position {position}, "):
        parse_sql(selector)


@pytest.mark.parametrize(
    "selector",
    [
        "x = 1" + " " * 4096,
        " OR ".join(["x = 1"] * 60),
        "(" * 150 + "x" + ")" * 40,
        "NOT " * 150 + "x",
        "-" * 150 + "x = 1",
        " + ".join(["1"] * 90) + " = x",
        "x LIKE '" + "%_" * 400 + "'",
        "x LIKE '" + "." * 4000 + "'",
    ],
)
def test_hostile_selectors_are_refused(selector: str) -> None:
    for translate in (parse_jms, parse_sql):
        with pytest.raises(RequestError, match=r"^selector, position \d+"):
            translate(selector)


WORDS = st.sampled_from(
    ["x", "n", "JMSPriority", "p.message_id", "[x]", "'a'", "'a%_'", "1", "2.5", "TRUE", "NULL", "AND", "OR", "NOT"]
    + ["IN", "LIKE", "IS", "BETWEEN", "ESCAPE", "(", ")", ",", "=", "<>", "<", "+", "-", "*", "/"]
)


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=40).map(" ".join)))
def test_whatever_is_translated_is_a_filter(selector: str) -> None:
    for translate in (parse_jms, parse_sql):
        try:
            written = translate(selector)
        except RequestError:
            continue
        parse(written).matches(SUBJECT)


@pytest.mark.parametrize("part", ["({})", "NOT ({})", "({} AND x)", "({} OR x)", "-(-1) = 1 AND ({})"])
def test_the_deepest_selector_is_a_filter(part: str) -> None:
    for depth in range(1, 40):
        selector = "x"
        for _ in range(depth):
            selector = part.format(selector)
        try:
            written = parse_jms(selector)
        except RequestError:
            return
        parse(f"({written}) AND ({written})")
    pytest.fail("no bound")
