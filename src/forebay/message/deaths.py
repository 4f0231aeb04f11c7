"""The deaths of a message: the history of a dead letter in the annotation DEATHS, whatever its protocol.

The value is the msgpack of [deaths, first, last, exchange, marks]:

    deaths    [[queue, reason, count, seconds, exchange, [routing key, ...], expiration], ...], the newest first, one
              for each queue and reason; empty where the message moved to `$dlq/<queue>` only
    first     index of the first death among them
    last      index of the newest; a redrive may stand before it
    exchange  to which it was published before the newest
    marks     [id, queue, offset, group, reason, deliveries, milliseconds] of the queue that it left last; nil for none

Names are bytes. The format of the record turns the annotation into headers on delivery (`Format.with_deaths`):

    x-death          array of tables, the newest first, one for each queue and reason:
                     original-expiration (if it had one), count, reason, queue, time, exchange, routing-keys
    x-first-death-…  reason, queue and exchange of the first death
    x-last-death-…   the same of the newest
    dlq-id, …        the queue that the record left last, see `DeathMarks`

AMQP 0.9.1 gets them as RabbitMQ writes them, MQTT as user properties. A publisher's headers with these names are
replaced and have no effect.
"""

from __future__ import annotations

from typing import Final, final

import msgspec
from mypy_extensions import i64

from forebay.message.annotations import DEATHS, annotation, with_annotation
from forebay.routing.exchange import text

REJECTED: Final = b"rejected"
REDRIVEN: Final = b"redriven"  # not a death: the message was sent back from the queue, see `Deaths.redrive`

X_DEATH: Final = b"x-death"
FIRST_DEATH: Final = (b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason")
LAST_DEATH: Final = (b"x-last-death-exchange", b"x-last-death-queue", b"x-last-death-reason")
DEATH_HEADERS: Final = [X_DEATH, *FIRST_DEATH, *LAST_DEATH]
MARKS: Final = [
    b"dlq-id",
    b"dlq-queue",
    b"dlq-offset",
    b"dlq-reason",
    b"dlq-deliveries",
    b"dlq-time-ms",
    b"dlq-group",
]


@final
class Death:
    """The deaths of a message in one queue for one reason: `count` of them so far.

    time_s          of the first time; seconds since 1970
    exchange, keys  to which it had been published when it first died there
    expiration      the digits of its expiration; empty if it had none
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


@final
class DeathMarks:
    """The place that a message last left as a dead letter.

    id          `<queue number>-<group number>-<offset>`; empty if it was in no queue
    offset      in the log of the queue; -1 if it was in none
    group       empty for the default group
    reason      the cause, or the reason that a consumer gave
    deliveries  how often it had been delivered
    """

    def __init__(
        self, id: bytes, queue: bytes, offset: i64, group: bytes, reason: bytes, deliveries: i64, time_ms: i64
    ) -> None:
        self.id = id
        self.queue = queue
        self.offset: i64 = offset
        self.group = group
        self.reason = reason
        self.deliveries: i64 = deliveries
        self.time_ms: i64 = time_ms


@final
class Deaths:
    """All recorded deaths of a message.

    deaths         the newest first
    first, last    the first and the newest of them; None if there is none
    last_exchange  to which it was published before the newest; `last` has that of its first time
    """

    def __init__(self) -> None:
        self.deaths: list[Death] = []
        self.first: Death | None = None
        self.last: Death | None = None
        self.last_exchange = b""
        self.marks: DeathMarks | None = None

    def add(self, newest: Death) -> None:
        """Record another death. An earlier death in the same queue for the same reason is counted up instead."""
        self.last = self.bring_to_front(newest)
        self.last_exchange = newest.exchange
        if self.first is None:
            self.first = self.last

    def redrive(self, queue: bytes, time_s: i64, exchange: bytes, key: bytes) -> None:
        """Record that the message is sent back from a queue on request.

        Without this record, a message that takes the same way again would look like a cycle.
        """
        self.bring_to_front(Death(queue, REDRIVEN, time_s, exchange, [key], b""))

    def bring_to_front(self, newest: Death) -> Death:
        front = newest
        others: list[Death] = []
        for death in self.deaths:
            if death.queue == newest.queue and death.reason == newest.reason:
                front = death
                front.count += 1
            else:
                others.append(death)
        self.deaths = [front, *others]
        return front

    def is_cycle(self, queue: bytes) -> bool:
        """Return whether the message returns to the queue without a rejection or redrive since it died there."""
        wanted = False
        for death in self.deaths:
            wanted = wanted or death.reason in (REJECTED, REDRIVEN)
            if death.queue == queue:
                return not wanted
        return False

    def place_of(self, wanted: Death | None) -> int:
        for place, death in enumerate(self.deaths):
            if death is wanted:
                return place
        return -1


def deaths_of(annotations: bytes) -> Deaths:
    """Return the deaths in a record's annotations, empty if there are none."""
    found = Deaths()
    value = annotation(annotations, DEATHS)
    if not value:
        return found
    said = msgspec.msgpack.decode(value)
    assert isinstance(said, list)
    deaths, first, last, exchange, marks = said
    assert isinstance(deaths, list) and isinstance(exchange, bytes)
    for each in deaths:
        found.deaths.append(read_death(each))
    if deaths:
        found.first = found.deaths[int(first)]
        found.last = found.deaths[int(last)]
    found.last_exchange = exchange
    if marks is not None:
        id, queue, offset, group, reason, deliveries, time_ms = marks
        found.marks = DeathMarks(id, queue, int(offset), group, reason, int(deliveries), int(time_ms))
    return found


def read_death(said: list[object]) -> Death:
    queue, reason, count, time_s, exchange, keys, expiration = said
    assert isinstance(queue, bytes) and isinstance(reason, bytes) and isinstance(count, int)
    assert isinstance(time_s, int) and isinstance(exchange, bytes) and isinstance(keys, list)
    assert isinstance(expiration, bytes)
    death = Death(queue, reason, time_s, exchange, keys, expiration)
    death.count = count
    return death


def with_deaths(annotations: bytes, deaths: Deaths) -> bytes:
    """Return the annotations with these deaths in place of earlier ones."""
    told: list[object] = []
    for each in deaths.deaths:
        died: list[object] = [each.queue, each.reason, int(each.count), int(each.time_s), each.exchange, each.keys]
        told.append([*died, each.expiration])
    marks: list[object] | None = None
    left = deaths.marks
    if left is not None:
        numbers = int(left.deliveries), int(left.time_ms)
        marks = [left.id, left.queue, int(left.offset), left.group, left.reason, *numbers]
    said = [told, deaths.place_of(deaths.first), deaths.place_of(deaths.last), deaths.last_exchange, marks]
    return with_annotation(annotations, DEATHS, msgspec.msgpack.encode(said))


def without_deaths(annotations: bytes) -> bytes:
    """Return the annotations without deaths."""
    return with_annotation(annotations, DEATHS, b"")


# ---- headers


def mark_headers(marks: DeathMarks) -> list[tuple[str, object]]:
    """Return the headers that name the queue which a record last left."""
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


def death_fields(death: Death) -> dict[str, object]:
    """Return the table of x-death for one death."""
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
