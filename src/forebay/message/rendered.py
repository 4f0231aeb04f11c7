"""A record's properties as its readers see them: with headers for what annotations say of its deaths.

    x-death          array of tables, the newest first, one for each queue and reason:
                     original-expiration (where it had one), count, reason, queue, time, exchange, routing-keys
    x-first-death-…  reason, queue and exchange of the first death
    x-last-death-…   the same of the newest
    dlq-id, …        the queue that the record left last, see `DeathMarks`

AMQP 0.9.1 gets them as RabbitMQ writes them, MQTT as user properties. What the publisher had under these names is not
shown.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64, u8

from forebay.core.message import AMQP091, FORMAT_MASK, MQTT
from forebay.log.block import Block, BlockWriter
from forebay.message.annotations import DEATHS, value_at
from forebay.message.deaths import Death, DeathMarks, Deaths, deaths_of
from forebay.message.edited import edited
from forebay.routing.exchange import text
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX, put_long_string, put_short_string, put_table
from forebay.wire.amqp091.properties import edit_headers

X_DEATH: Final = b"x-death"
FIRST: Final = (b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason")
LAST: Final = (b"x-last-death-exchange", b"x-last-death-queue", b"x-last-death-reason")
DEATH_HEADERS: Final = [X_DEATH, *FIRST, *LAST]
MARKS: Final = [
    b"dlq-id",
    b"dlq-queue",
    b"dlq-offset",
    b"dlq-reason",
    b"dlq-deliveries",
    b"dlq-time-ms",
    b"dlq-group",
]

# Types of field values (AMQP 0.9.1 section 4.2.5.5).
ARRAY: Final = 65
TABLE: Final = 70
TEXT: Final = 83
TIME: Final = 84
LONG: Final = 108


def rendered_at(block: Block, index: i64) -> bytes:
    """The properties of a record of a block, in its own format, as its readers see them."""
    properties = block.properties(index)
    if not block.annotated:
        return properties
    return rendered(block.format(index), properties, block.annotations(index))


def rendered_block(block: Block) -> Block:
    """The block of the same records, their properties rendered, without annotations."""
    made = BlockWriter()
    made.timestamps.write(block.data[: 8 * block.count])
    for index in range(block.count):
        made.append(
            u8(block.format(index)),
            block.exchange(index),
            block.routing_key(index),
            rendered_at(block, index),
            block.body(index),
        )
    return made.seal(block.base, 0, True)


def rendered(format: i64, properties: bytes, annotations: bytes) -> bytes:
    """Checked properties of a format with the headers that the annotations ask for."""
    if value_at(annotations, DEATHS) < 0:
        return properties
    deaths = deaths_of(annotations)
    if format & FORMAT_MASK == AMQP091:
        return amqp_properties(properties, deaths)
    assert format & FORMAT_MASK == MQTT, f"format {format} has no headers"
    return mqtt_properties(properties, deaths)


def marks_of(marks: DeathMarks) -> list[tuple[str, object]]:
    """The headers that say which queue a record left last."""
    said: list[tuple[str, object]] = []
    if marks.id:
        said.append(("dlq-id", text(marks.id)))
    said.append(("dlq-queue", text(marks.queue)))
    if marks.id:
        said.append(("dlq-offset", int(marks.offset)))
    said.append(("dlq-reason", text(marks.reason)))
    if marks.id:
        said.append(("dlq-deliveries", int(marks.deliveries)))
    said.append(("dlq-time-ms", int(marks.time_ms)))
    if marks.group:
        said.append(("dlq-group", text(marks.group)))
    return said


# ---- AMQP 0.9.1


def amqp_properties(properties: bytes, deaths: Deaths) -> bytes:
    """The types are RabbitMQ's, and not those of the least room: clients tell them apart."""
    dropped: list[bytes] = []
    added = BytesWriter()
    first, last = deaths.first, deaths.last
    if first is not None and last is not None:
        dropped += DEATH_HEADERS
        put_deaths(added, deaths.deaths)
        put_texts(added, FIRST, [first.exchange, first.queue, first.reason])
        put_texts(added, LAST, [deaths.last_exchange, last.queue, last.reason])
    if deaths.marks is not None:
        dropped += MARKS
        table = BytesWriter()
        put_table(table, marks_of(deaths.marks))
        added.write(table.getvalue()[4:])
    return edit_headers(properties, dropped, added.getvalue(), TABLE_DEPTH_MAX)


def put_texts(out: BytesWriter, names: tuple[bytes, bytes, bytes], values: list[bytes]) -> None:
    for index, name in enumerate(names):
        put_text(out, name, values[index])


def put_text(out: BytesWriter, name: bytes, value: bytes) -> None:
    put_short_string(out, name)
    out.append(TEXT)
    put_long_string(out, value)


def put_deaths(out: BytesWriter, deaths: list[Death]) -> None:
    tables = BytesWriter()
    for death in deaths:
        tables.append(TABLE)
        put_long_string(tables, death_table(death))
    put_short_string(out, X_DEATH)
    out.append(ARRAY)
    put_long_string(out, tables.getvalue())


def death_table(death: Death) -> bytes:
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


# ---- MQTT


def mqtt_properties(properties: bytes, deaths: Deaths) -> bytes:
    """The same headers as user properties: tables and arrays as JSON."""
    dropped: list[bytes] = []
    said: list[tuple[str, object]] = []
    first, last = deaths.first, deaths.last
    if first is not None and last is not None:
        dropped += DEATH_HEADERS
        said.append((X_DEATH.decode(), [death_fields(each) for each in deaths.deaths]))
        said += texts_of(FIRST, [first.exchange, first.queue, first.reason])
        said += texts_of(LAST, [deaths.last_exchange, last.queue, last.reason])
    if deaths.marks is not None:
        dropped += MARKS
        said += marks_of(deaths.marks)
    return edited(MQTT, properties, dropped, said)


def texts_of(names: tuple[bytes, bytes, bytes], values: list[bytes]) -> list[tuple[str, object]]:
    return [(name.decode(), text(values[index])) for index, name in enumerate(names)]


def death_fields(death: Death) -> dict[str, object]:
    fields: dict[str, object] = {}
    if death.expiration:
        fields["original-expiration"] = text(death.expiration)
    fields["count"] = int(death.count)
    fields["reason"] = text(death.reason)
    fields["queue"] = text(death.queue)
    fields["time"] = int(death.time_s)
    fields["exchange"] = text(death.exchange)
    fields["routing-keys"] = [text(key) for key in death.keys]
    return fields
