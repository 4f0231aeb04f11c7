"""The deaths of a message: `x-death` and the headers beside it, as RabbitMQ writes them.

    x-death          array of tables, the newest first, one for each queue and reason:
                     original-expiration (where it had one), count, reason, queue, time, exchange, routing-keys
    x-first-death-…  reason, queue and exchange of the first death
    x-last-death-…   the same of the newest

A message that comes from a client may carry an `x-death` of its own, as one that is published again does. It counts for
nothing: only records marked DIED carry the broker's.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from forebay.wire.amqp091.codec import (
    TABLE_DEPTH_MAX,
    Reader,
    put_long_string,
    put_short,
    put_short_string,
    put_table,
)
from forebay.wire.amqp091.properties import (
    EXPIRATION,
    FLAGS_OCTETS,
    edit_headers,
    field_at,
    flags_of,
    header_at,
    short_field,
)

DEATHS: Final = b"x-death"
CC: Final = b"CC"
REJECTED: Final = b"rejected"
REDRIVEN: Final = b"redriven"  # no death at all: somebody sent it back from the queue, see `redriven`
FIRST: Final = (b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason")
LAST: Final = (b"x-last-death-exchange", b"x-last-death-queue", b"x-last-death-reason")

# Types of field values (AMQP 0.9.1 section 4.2.5.5).
ARRAY: Final = 65
TABLE: Final = 70
TEXT: Final = 83
TIME: Final = 84
LONG: Final = 108


@final
class Death:
    """That a message died in a queue for a reason, `count` times by now.

    time_s         of the first time; seconds since 1970
    exchange, keys where it had been published to when it first died there
    expiration     the digits of its expiration, empty where it had none
    """

    def __init__(
        self, queue: bytes, reason: bytes, time_s: i64, exchange: bytes, keys: list[bytes], expiration: bytes
    ) -> None:
        self.queue = queue
        self.reason = reason
        self.count: i64 = 1
        self.time_s: i64 = time_s
        self.exchange = exchange
        self.keys = keys
        self.expiration = expiration


def deaths_of(properties: bytes) -> list[Death]:
    """The deaths in `x-death` of a record marked DIED, the newest first."""
    at = header_at(properties, DEATHS, TABLE_DEPTH_MAX)
    assert at >= 0, "a record marked DIED has its deaths with it"
    tables = Reader(properties, at, len(properties), TABLE_DEPTH_MAX).value()
    assert isinstance(tables, list)
    found: list[Death] = []
    for each in tables:
        assert isinstance(each, dict)
        found.append(read_death(each))
    return found


def read_death(fields: dict[str, object]) -> Death:
    keys = fields["routing-keys"]
    time_s = fields["time"]
    count = fields["count"]
    assert isinstance(keys, list) and isinstance(time_s, int) and isinstance(count, int)
    death = Death(
        octets_of(fields["queue"]),
        octets_of(fields["reason"]),
        time_s,
        octets_of(fields["exchange"]),
        [octets_of(key) for key in keys],
        octets_of(fields.get("original-expiration", "")),
    )
    death.count = count
    return death


def octets_of(value: object) -> bytes:
    """A field value that is a text, as its octets."""
    if isinstance(value, bytes):
        return value
    assert isinstance(value, str)
    return value.encode()


def is_cycle(deaths: list[Death], queue: bytes) -> bool:
    """True if a message of these deaths, the newest first, comes round to a queue without anybody having wanted it."""
    wanted = False
    for death in deaths:
        wanted = wanted or death.reason in (REJECTED, REDRIVEN)
        if death.queue == queue:
            return not wanted
    return False


def with_newest(deaths: list[Death], newest: Death) -> list[Death]:
    """The deaths after one more; an earlier one in that queue for that reason counts it, and goes to the front."""
    others: list[Death] = []
    front = newest
    for death in deaths:
        if death.queue == newest.queue and death.reason == newest.reason:
            front = death
            front.count += 1
        else:
            others.append(death)
    return [front, *others]


def died(
    properties: bytes, again: bool, deaths: list[Death], newest: Death, marks: list[tuple[str, object]], keep_cc: bool
) -> bytes:
    """Checked properties as they are after a death: with its headers, and without an expiration.

    again   it has died before: the headers of the first death stay
    deaths  the newest first, `newest` counted
    marks   headers to add; each replaces one of its name
    """
    dropped = [DEATHS, *FIRST, *LAST]
    if not keep_cc:
        dropped.append(CC)
    added = BytesWriter()
    put_deaths(added, deaths)
    facts = (newest.exchange, newest.queue, newest.reason)
    for index, name in enumerate(FIRST):
        put_text(added, name, text_header(properties, name) if again else facts[index])
    for index, name in enumerate(LAST):
        put_text(added, name, facts[index])
    put_marks(added, marks, dropped)
    return edit_headers(without_expiration(properties), dropped, added.getvalue(), TABLE_DEPTH_MAX)


def redriven(properties: bytes, death: Death) -> bytes:
    """Properties of a record marked DIED that somebody sends back from a queue: `x-death` tells that too.

    Were it not for that, what takes the same way once more would seem to go in a circle.
    """
    added = BytesWriter()
    put_deaths(added, with_newest(deaths_of(properties), death))
    return edit_headers(properties, [DEATHS], added.getvalue(), TABLE_DEPTH_MAX)


def marked(properties: bytes, marks: list[tuple[str, object]]) -> bytes:
    """Checked properties with these headers, each in the place of one of its name, the others as they were."""
    dropped: list[bytes] = []
    added = BytesWriter()
    put_marks(added, marks, dropped)
    return edit_headers(properties, dropped, added.getvalue(), TABLE_DEPTH_MAX)


def expiration_of(properties: bytes) -> bytes:
    """The digits of the expiration; empty where there is none."""
    if not flags_of(properties) & EXPIRATION:
        return b""
    return short_field(properties, EXPIRATION, TABLE_DEPTH_MAX)


def text_header(properties: bytes, name: bytes) -> bytes:
    """A header that is a text and is there."""
    at = header_at(properties, name, TABLE_DEPTH_MAX)
    assert at >= 0, name
    return octets_of(Reader(properties, at, len(properties), TABLE_DEPTH_MAX).value())


def without_expiration(properties: bytes) -> bytes:
    flags = flags_of(properties)
    if not flags & EXPIRATION:
        return properties
    cut = field_at(properties, EXPIRATION, TABLE_DEPTH_MAX)
    out = BytesWriter()
    put_short(out, flags - EXPIRATION)
    out.write(properties[FLAGS_OCTETS:cut])
    out.write(properties[cut + 1 + i64(properties[cut]) :])
    return out.getvalue()


def keys_in_cc(properties: bytes) -> list[bytes]:
    """The routing keys in the header CC."""
    keys: list[bytes] = []
    at = header_at(properties, CC, TABLE_DEPTH_MAX)
    values = Reader(properties, at, len(properties), TABLE_DEPTH_MAX).value() if at >= 0 else None
    if isinstance(values, list):
        for value in values:
            if isinstance(value, str | bytes):
                keys.append(octets_of(value))
    return keys


# ---- writing


def put_text(out: BytesWriter, name: bytes, text: bytes) -> None:
    put_short_string(out, name)
    out.append(TEXT)
    put_long_string(out, text)


def put_marks(out: BytesWriter, marks: list[tuple[str, object]], dropped: list[bytes]) -> None:
    """The marks as fields; each takes the place of what has its name."""
    table = BytesWriter()
    put_table(table, marks)
    out.write(table.getvalue()[4:])
    for name, _ in marks:
        dropped.append(name.encode())


def put_deaths(out: BytesWriter, deaths: list[Death]) -> None:
    tables = BytesWriter()
    for death in deaths:
        tables.append(TABLE)
        put_long_string(tables, death_table(death))
    put_short_string(out, DEATHS)
    out.append(ARRAY)
    put_long_string(out, tables.getvalue())


def death_table(death: Death) -> bytes:
    """The types are RabbitMQ's, and not those of the least room: clients tell them apart."""
    keys = BytesWriter()
    for key in death.keys:
        keys.append(TEXT)
        put_long_string(keys, key)
    out = BytesWriter()
    if death.expiration:
        put_text(out, b"original-expiration", death.expiration)
    put_short_string(out, b"count")
    out.append(LONG)
    write_i64_be(out, death.count)
    put_text(out, b"reason", death.reason)
    put_text(out, b"queue", death.queue)
    put_short_string(out, b"time")
    out.append(TIME)
    write_i64_be(out, death.time_s)
    put_text(out, b"exchange", death.exchange)
    put_short_string(out, b"routing-keys")
    out.append(ARRAY)
    put_long_string(out, keys.getvalue())
    return out.getvalue()
