"""Which part of a filter a message does not meet."""

from __future__ import annotations

import pytest

from forebay.core.message import AMQP091, Properties
from forebay.filter.parser import parse
from forebay.filter.parts import first_miss
from forebay.message.subject import RecordSubject
from tests.records import Stored


@pytest.mark.parametrize(
    ("filter", "part", "value", "values"),
    [
        ("/n > 5", "/n > 5", False, {"/n": 3}),
        ("/n = 3 AND header.region = 'us'", "header.region = 'us'", False, {"header.region": "eu"}),
        ("/n = 3 AND (/missing = 1 AND /n > 9)", "/missing = 1", None, {"/missing": None}),
        ("/n > 9 OR header.region = 'us'", "/n > 9 OR header.region = 'us'", False, {"/n": 3, "header.region": "eu"}),
        ("NOT /n = 3", "NOT /n = 3", False, {"/n": 3}),
        ("LENGTH(header.region) > 2", "LENGTH(header.region) > 2", False, {"LENGTH(header.region)": 2}),
        ("/n IN (1, 2)", "/n IN (1, 2)", False, {"/n": 3}),
    ],
)
def test_the_first_part_that_does_not_hold_is_told(
    filter: str, part: str, value: object, values: dict[str, object]
) -> None:
    missed = first_miss(parse(filter), subject())
    assert missed is not None
    assert (missed.text, missed.value, missed.values) == (part, value, values)


def test_nothing_is_missed_by_what_is_wanted() -> None:
    assert first_miss(parse("/n = 3 AND header.region = 'eu'"), subject()) is None


def subject() -> RecordSubject:
    properties = Properties()
    properties.headers = [("region", "eu")]
    return Stored(AMQP091, b"", b"orders", properties, b'{"n": 3}', 1_000_000, 0).subject()
