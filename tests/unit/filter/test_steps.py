"""What a filter may cost at one message."""

from __future__ import annotations

import json

from forebay.core.message import AMQP091, Properties
from forebay.filter.parser import parse
from forebay.filter.subject import BODY_OCTETS_MAX, STEPS_A_LOOK
from forebay.message.subject import RecordSubject
from tests.records import Stored


def subject(body: bytes) -> RecordSubject:
    return Stored(AMQP091, b"", b"k", Properties(), body, 1, 0).subject()


def told(value: object) -> RecordSubject:
    return subject(json.dumps(value).encode())


LONG = "x1 y2 " * 10_000  # as long as LIKE looks through


def test_patterns_look_at_so_many_characters_of_one_message() -> None:
    filter = parse(" AND ".join(f"/a NOT LIKE '[xy]{number} .*z$'" for number in range(80)))
    message = told({"a": LONG})
    assert not filter.matches(message)
    assert message.is_cut
    assert message.steps > -3 * len(LONG)


def test_what_cannot_match_costs_next_to_nothing() -> None:
    filter = parse(" AND ".join(f"/a NOT LIKE 'q{number}.*z$' AND /a NOT LIKE '^b{number}'" for number in range(40)))
    message = told({"a": LONG})
    assert filter.matches(message)
    assert message.steps > STEPS_A_LOOK - 1000


def test_each_filter_has_its_own_steps() -> None:
    message = told({"a": LONG})
    dear = parse(" AND ".join(f"/a NOT LIKE '[xy]{number} .*z$'" for number in range(80)))
    for _ in range(2):
        assert not dear.matches(message)
        assert parse("/a LIKE 'y2 $'").matches(message)


def test_functions_of_long_texts_are_counted() -> None:
    once = "CONCAT(/a, /a, /a, /a, /a, /a, /a, /a, /a, /a, /a, /a, /a, /a, /a, /a)"
    filter = parse(" AND ".join(f"LENGTH({once}) > {number}" for number in range(60)))
    message = told({"a": LONG})
    assert not filter.matches(message)
    assert message.is_cut


def test_a_body_that_is_too_long_is_not_read() -> None:
    fits = subject(b'{"a": 1, "b": "' + b"x" * (BODY_OCTETS_MAX - 17) + b'"}')
    assert parse("/a = 1").matches(fits)
    assert not fits.is_cut
    longer = subject(b'{"a": 1, "b": "' + b"x" * (BODY_OCTETS_MAX - 16) + b'"}')
    assert not parse("/a = 1").matches(longer)
    assert longer.is_cut
    assert parse("octets > 1000").matches(longer)
