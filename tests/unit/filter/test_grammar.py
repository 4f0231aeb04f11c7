"""What the filter language and both kinds of selectors read alike."""

import pytest

from forebay.core.errors import RequestError
from forebay.filter.parser import parse
from forebay.filter.sql.selector import parse_jms, parse_sql

CONDITIONS = (
    ("priority = 1 OR priority = 2 AND NOT priority = 3", "a = 1 OR a = 2 AND NOT a = 3"),
    ("(priority = 1 OR priority = 2) AND priority - 1 - 2 > 3", "(a = 1 OR a = 2) AND a - 1 - 2 > 3"),
)
WRONG = (
    ("1 AND {} = 1", "a condition is due here, this is a value"),
    ("NOT 1", "a condition is due here, this is a value"),
    ("1 + ({} = 1) > 1", "a value is due here, this is a condition"),
    ("({} = 1", "'\\)' is due here"),
    ("NOT " * 70 + "{} = 1", "parts within each other"),
)


@pytest.mark.parametrize(("filter_text", "selector"), CONDITIONS)
def test_precedence_is_the_same(filter_text: str, selector: str) -> None:
    shape = parse(filter_text).written()
    for translate in (parse_jms, parse_sql):
        assert parse(translate(selector)).written().replace("header.a", "priority") == shape


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_refusals_are_the_same(text: str, message: str) -> None:
    for read, name in ((parse, "priority"), (parse_jms, "a"), (parse_sql, "a")):
        with pytest.raises(RequestError, match=message):
            read(text.format(*[name] * text.count("{}")))
