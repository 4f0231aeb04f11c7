"""Any records and any filters, for tests that hold the one against the other."""

from __future__ import annotations

import json
from typing import Final

from hypothesis import strategies as st
from mypy_extensions import u8

from forebay.core.errors import RequestError
from forebay.core.message import AMQP091, AMQP10, MQTT, PLAIN_BODY, QOS_SHIFT, Properties
from forebay.filter.parser import parse
from forebay.log.block import Block, BlockWriter
from forebay.message.formats.table import format_of
from forebay.message.subject import RecordSubject

QUEUE: Final = "orders.é"
NOW_US: Final = 1_800_000_000_000_000


class Stored:
    """One record as the broker has it, in a block of its own, and what a table says of it."""

    def __init__(
        self,
        format: int,
        exchange: bytes,
        key: bytes,
        properties: Properties,
        body: bytes,
        stored_us: int,
        deliveries: int,
    ) -> None:
        self.format = format
        self.stored_us = stored_us
        self.deliveries = deliveries
        writer = BlockWriter()
        self.body = body
        adapter = format_of(format)
        writer.append(u8(format), exchange, key, adapter.encode(properties), adapter.body_of(body, PLAIN_BODY))
        self.block: Block = writer.seal(stored_us % 100, stored_us, True)

    def subject(self) -> RecordSubject:
        return RecordSubject(QUEUE.encode(), self.block, 0, NOW_US, self.deliveries)

    def row(self) -> dict[str, object]:
        """Its row in a table of the source."""
        block = self.block
        return {
            "topic": QUEUE,
            "offset": int(block.base),
            "exchange": block.exchange(0).decode("utf-8", "replace"),
            "routing_key": block.routing_key(0).decode("utf-8", "replace"),
            "format": self.format,
            "raw_properties": block.properties(0),
            "value": self.body,
            "timestamp": self.stored_us,
            "delivery_count": self.deliveries,
        }


# ---- records

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.sampled_from([2**63, -(2**63), 2**64, 0.5, 1e300, 9007199254740993])
    | st.sampled_from(["", "a", "A", "5", "-1.5", "1e2", "é", "\uffff", "\U00010000", "a.b", "nan"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
bodies = st.dictionaries(st.sampled_from(["a", "b", "l", "é"]), values).map(lambda body: json.dumps(body).encode()) | (
    st.sampled_from(
        [
            b"",
            b"no JSON",
            b"7",
            b"[1, 2]",
            b'{"a": 1, "a": 2}',
            b'{"a": NaN}',
            b'{"a": 1e400, "b": -0.0}',
            b'{"a": 123456789012345678901234567890}',
            b'{"a": 0.1000000000000000055511151231257827}',
            b'{"a": "\xff"}',
            b'{"a": "\\ud83d\\ude00", "b": "\\u0061"}',
            b'{"a": "\\ud83d"}',
            b' {"a" :5 } ',
            b'{"a": 5} x',
            b'\xef\xbb\xbf{"a": 5}',
            b'{"a": 05}',
            b"{'a': 5}",
        ]
    )
)
octets = st.sampled_from([b"", b"a", b"a.b", b"a/b", b"5", "é+*".encode(), b"\xff", b"\xc3", b"A", b"\xf0\x90\x80\x80"])


def properties_with(headers: list[tuple[str, object]], **fields: object) -> Properties:
    made = Properties()
    made.headers = headers
    for name, value in fields.items():
        setattr(made, name, value)
    return made


words = st.sampled_from([None, "", "a", "5", "é"])
properties = st.builds(
    properties_with,
    st.lists(st.tuples(st.sampled_from(["x", "n", "x-death", "dlq-reason"]), values), max_size=3),
    priority=st.sampled_from([None, 0, 5]),
    expiration_ms=st.sampled_from([None, 0, 60_000]),
    message_id=words,
    content_type=words,
    correlation_id=st.sampled_from([None, b"", b"a", b"\xff"]),
    timestamp_s=st.sampled_from([None, 77, 2**63]),
)
formats = st.sampled_from([AMQP091, AMQP10, MQTT, MQTT | 1 << QOS_SHIFT, MQTT | 2 << QOS_SHIFT])
times = st.integers(0, 99).map(lambda rest: 1_700_000_000_123_000 + 37 * rest)
records = st.builds(Stored, formats, octets, octets, properties, bodies, times, st.integers(0, 3))

# ---- filters

facts = st.sampled_from(
    [
        *(
            "queue",
            "exchange",
            "routing_key",
            "topic",
            "protocol",
            "offset",
            "octets",
            "qos",
            "stored_ms",
            "deliveries",
        ),
        *("queue", "exchange", "routing_key", "topic", "offset", "stored_ms"),
        *("priority", "expiration", "message_id", "content_type", "correlation_id", "timestamp", "death_reason"),
    ]
)
paths = st.sampled_from(["/a", "/b", "/l[0]", "/a/b", "/l", "/'é'", "header.x", "header.n", "header.x/a"])
literals = st.sampled_from(
    [
        *("0", "1", "5", "-1", "17", "2.5", "5.0", "1e19", "1e300", "9007199254740993", "9223372036854775808", "-1e19"),
        *("1700000000123", "1700000000124.5", "1700000000126", "18446744073709551615", "9300000000000000"),
        *(
            "'a'",
            "'A'",
            "'5'",
            "'a.b'",
            "'a/b'",
            "'é'",
            "'mqtt'",
            "'\ufffd'",
            "'\uffff'",
            "'\U00010000'",
            "'1e2'",
            "TRUE",
        ),
        "'1700000000123'",
        f"'{QUEUE}'",
    ]
)
operands = st.one_of(facts, facts, paths, literals)
computed = st.one_of(
    operands,
    operands,
    st.tuples(operands, st.sampled_from("+-*/%"), operands).map(" ".join).map("({})".format),
    st.tuples(st.sampled_from(["LENGTH", "LOWER", "REVERSE", "ABS", "MD5", "ARRAY_COUNT"]), operands).map(
        "{0[0]}({0[1]})".format
    ),
    st.tuples(operands, operands).map("COALESCE({0[0]}, {0[1]})".format),
)
signs = st.sampled_from([" = ", " != ", " < ", " <= ", " > ", " >= "])
tests = st.one_of(
    st.tuples(operands, signs, operands).map("".join),
    st.tuples(facts, signs, literals).map("".join),
    st.tuples(computed, signs, computed).map("".join),
    st.tuples(operands, operands, operands).map("{0[0]} BETWEEN {0[1]} AND {0[2]}".format),
    st.tuples(operands, st.lists(operands, min_size=1, max_size=3).map(", ".join)).map("{0[0]} IN ({0[1]})".format),
    st.tuples(facts, st.lists(literals, min_size=1, max_size=3).map(", ".join)).map("{0[0]} NOT IN ({0[1]})".format),
    st.tuples(operands, st.sampled_from(["BEGINS", "ENDS"]), operands).map("{0[0]} {0[1]} WITH {0[2]}".format),
    st.tuples(operands, st.sampled_from(["'^a'", "'(?i)A$'", "'[.]'", r"'\d'"])).map("{0[0]} LIKE {0[1]}".format),
    st.tuples(operands, st.sampled_from(["NULL", "NOT NULL", "NAN", "NOT NAN"])).map(" IS ".join),
    st.sampled_from(["/a", "header.x", "TRUE", "1 < 2", "1 / 0 = 1", "'a' > 5"]),
)


def is_filter(text: str) -> bool:
    try:
        parse(text)
    except RequestError:
        return False
    return True


filters = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(" AND ".join).map("({})".format),
        st.lists(inner, min_size=2, max_size=3).map(" AND ".join),
        st.lists(inner, min_size=2, max_size=3).map(" OR ".join).map("({})".format),
        inner.map("NOT ({})".format),
    ),
    max_leaves=5,
).filter(is_filter)
