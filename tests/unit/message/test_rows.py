"""Rows of a table are held against filters as the records that they were."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from forebay.core.message import AMQP091, Properties
from forebay.filter.parser import parse
from forebay.filter.values import condition_of
from forebay.message.rows import NO, UNKNOWN, YES, Rows, conditions_of
from tests.records import NOW_US, Stored, filters, records


def rows_of(stored: list[Stored]) -> Rows:
    rows = Rows(len(stored))
    table = [each.row() for each in stored]
    for name, field in {
        "topic": "queues",
        "offset": "offsets",
        "exchange": "exchanges",
        "routing_key": "keys",
        "format": "formats",
        "raw_properties": "raw",
        "value": "bodies",
        "timestamp": "timestamps_us",
        "delivery_count": "deliveries",
    }.items():
        setattr(rows, field, [row[name] for row in table])
    rows.octets = [len(each.body) for each in stored]
    rows.now_us = [NOW_US] * len(stored)
    return rows


@given(filters, st.lists(records, min_size=1, max_size=4))
@example("age_ms = 1799999999999", [Stored(AMQP091, b"", b"", Properties(), b"", 5, 0)])
def test_a_row_is_what_its_record_is(filter: str, stored: list[Stored]) -> None:
    root = parse(filter).root
    held = [condition_of(root.evaluate(each.subject())) for each in stored]
    said = {YES: True, NO: False, UNKNOWN: None}
    assert [said[each] for each in conditions_of(root, rows_of(stored))] == held


def test_what_a_row_lacks_is_null() -> None:
    rows = Rows(1)
    rows.formats, rows.raw, rows.keys = [None], [None], [None]
    rows.bodies, rows.octets, rows.timestamps_us, rows.now_us = [None], [None], [None], [None]
    for name in ("protocol", "topic", "routing_key", "content_type", "stored_ms", "age_ms", "octets", "/a", "header.a"):
        assert conditions_of(parse(f"{name} IS NULL").root, rows) == bytes([YES]), name
    assert conditions_of(parse("qos = 1").root, rows) == bytes([YES])


def test_a_format_that_nobody_knows_says_nothing() -> None:
    rows = Rows(1)
    rows.formats, rows.raw = [0x40], [b"\1\2"]
    assert conditions_of(parse("content_type IS NULL AND header.a IS NULL AND protocol IS NULL").root, rows) == b"\1"
