"""Evaluates filters on records that are rows of a table, as the broker does on the records of its logs."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.message import Properties
from forebay.core.units import US_PER_MS
from forebay.filter.nodes import FilterNode
from forebay.filter.values import condition_of
from forebay.message.formats.format import Format
from forebay.message.formats.table import EXCHANGE_FORMAT, known_format
from forebay.message.properties import properties_of
from forebay.message.subject import (
    AGE_MS,
    DELIVERIES,
    EXCHANGE,
    OCTETS,
    OFFSET,
    PROTOCOL,
    QUEUE,
    ROUTING_KEY,
    STORED_MS,
    TOPIC,
    StoredSubject,
    address_property,
)

# Results of a row, one byte each.
NO: Final = 0
YES: Final = 1
UNKNOWN: Final = 2


@final
class Rows:
    """The columns that a filter needs, each a list with one value per row. Other columns stay empty.

    queues, exchanges, keys  text, or bytes
    timestamps_us, now_us    time when the broker stored the record, and time for which the filter is evaluated
    bodies                   payloads
    octets                   length of the body
    """

    def __init__(self, count: i64) -> None:
        self.count: i64 = count
        self.queues: list[object] = []
        self.offsets: list[int | None] = []
        self.exchanges: list[object] = []
        self.keys: list[object] = []
        self.formats: list[int | None] = []
        self.raw: list[bytes | None] = []
        self.bodies: list[bytes | None] = []
        self.octets: list[int | None] = []
        self.timestamps_us: list[int | None] = []
        self.now_us: list[int | None] = []
        self.deliveries: list[int | None] = []


@final
class RowSubject(StoredSubject):
    """One row as filters see it. `move` selects the row."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.rows = rows
        self.index: i64 = 0

    def move(self, index: i64) -> None:
        """Select the row with this index."""
        self.index = index
        self.said = None
        self.is_parsed = False

    def stored(self, number: i64) -> object:
        rows = self.rows
        index = self.index
        if number == ROUTING_KEY:
            return rows.keys[index]
        if number == EXCHANGE:
            return rows.exchanges[index]
        if number == QUEUE:
            return rows.queues[index]
        if number == OFFSET:
            return rows.offsets[index]
        if number == OCTETS:
            return rows.octets[index]
        if number == DELIVERIES:
            return rows.deliveries[index]
        if number in (STORED_MS, AGE_MS):
            return self.time_property(number)
        key: object = b""
        if number == TOPIC:
            key = rows.keys[index]
            if isinstance(key, str):
                key = key.encode("utf-8", "replace")
        if not isinstance(key, bytes):
            return None
        format = self.format()
        if format is None:
            # Treated as AMQP, except that the row names no protocol.
            return None if number == PROTOCOL else address_property(number, EXCHANGE_FORMAT, 0, key)
        return address_property(number, format, self.octet(), key)

    def time_property(self, number: i64) -> object:
        stored_us = self.rows.timestamps_us[self.index]
        if stored_us is None:
            return None
        if number == STORED_MS:
            return stored_us // US_PER_MS
        now_us = self.rows.now_us[self.index]
        return None if now_us is None else (now_us - stored_us) // US_PER_MS

    def octet(self) -> i64:
        """Return the format octet as it was stored, or 0 if the row has none."""
        format = self.rows.formats[self.index]
        return 0 if format is None else i64(format)

    def format(self) -> Format | None:
        """Return the row's format, or None if the row has none or an unknown one."""
        return known_format(self.octet())

    def read_properties(self) -> Properties:
        raw = self.rows.raw[self.index]
        if raw is None or self.format() is None:
            return Properties()
        return properties_of(self.octet(), raw)

    def read_body(self) -> bytes:
        return self.rows.bodies[self.index] or b""


def conditions_of(root: FilterNode, rows: Rows) -> bytes:
    """Evaluate a filter on each row. Returns YES, NO or UNKNOWN, one byte per row."""
    found = bytearray()
    subject = RowSubject(rows)
    for index in range(rows.count):
        subject.move(index)
        held = condition_of(root.evaluate(subject))
        found.append(UNKNOWN if held is None else (YES if held is True else NO))
    return bytes(found)
