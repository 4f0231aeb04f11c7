"""Dead letters for administrators: where they are, what they say; they send them back, change or discard them.

Every change is one frame of the write-ahead log: what is appended elsewhere and what is settled by it are on disk
together. Records that a consumer holds just now are left alone. Everything goes in portions, from an offset on, so that
no request stops the broker for long: `Portion.next` says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from forebay.broker.publish.route import Route
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, PRECONDITION, DamagedBlock, RequestError, note_half_change
from forebay.core.message import PLAIN_BODY
from forebay.filter.parser import Filter
from forebay.message.address import DEAD_LETTER_PREFIX
from forebay.message.deaths import DEATH_HEADERS, MARKS, deaths_of, with_deaths, without_deaths
from forebay.message.formats.table import format_of
from forebay.message.record import record_at
from forebay.message.rendered import rendered
from forebay.message.subject import RecordSubject
from forebay.queue.queue import STREAM, Queue
from forebay.queue.work.sifting import is_waiting, take_out
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

SCANNED_AT_ONCE: Final = 10_000  # records that one portion looks at
OCTETS_AT_ONCE: Final = 16 << 20  # of the bodies that one portion moves
SCANNED_OCTETS_AT_ONCE: Final = 64 << 20  # of the bodies that one portion looks at
OFFSET_MAX: Final = (1 << 63) - 1
COUNTED_MAX: Final = 5_000  # records of one queue that a summary looks at
MADE_HEADERS: Final = {name.decode() for name in (*DEATH_HEADERS, *MARKS)}


@dataclass(slots=True)
class DeadLetterSummary:
    """A dead-letter queue at a glance.

    messages   unsettled ones, those that consumers hold among them
    counted    of how many, from the oldest on, causes and origins tell
    complete   these are all of them
    causes, origins      messages by why they died, and by the queue in which they did
    oldest_ms, newest_ms when the first and the last of them died; None where that is not known
    """

    name: bytes
    messages: int = 0
    held: int = 0
    counted: int = 0
    complete: bool = True
    causes: dict[str, int] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    oldest_ms: int | None = None
    newest_ms: int | None = None


@dataclass(slots=True)
class Portion:
    """The outcome for a part of a queue.

    done     records moved or discarded
    held     records that the filter wants and a consumer holds: they were left
    gone     offsets that were asked for and wait no more: settled, sent back before, or never there
    refused  records asked for by offset that cannot go where they should: they were left; `refusal` says why the first
    scanned  records looked at
    next     offset to go on from; None at the end
    """

    done: int = 0
    held: int = 0
    gone: int = 0
    refused: int = 0
    refusal: str = ""
    scanned: int = 0
    next: int | None = None


# ---- which queues


def dead_letter_queues(vhost: Vhost) -> list[Queue]:
    """The queues that dead letters lead to, by name: targets of other queues' dead letters, and all `$dlq/<queue>`."""
    found = {queue.name: queue for queue in vhost.catalog.queues.values() if queue.name.startswith(DEAD_LETTER_PREFIX)}
    for queue in vhost.catalog.queues.values():
        for target in targets_of(vhost, queue):
            if target is not queue:
                found[target.name] = target
    return [found[name] for name in sorted(found)]


def targets_of(vhost: Vhost, queue: Queue) -> list[Queue]:
    """The targets of the dead letters of a queue.

    Where the exchange goes by the content, or the key is the message's own: all that the exchange is bound to.
    """
    exchange, key = queue.limits.dead_letter_exchange, queue.limits.dead_letter_key
    if exchange is None:
        return []
    if not exchange:
        named = None if key is None else vhost.catalog.queues.get(key)
        return [] if named is None else [named]
    start = vhost.catalog.bindings.exchanges.get(exchange)
    if start is None:
        return []
    if key is not None and not start.by_content:
        return vhost.router.queues_of(vhost.router.follow(start, [key], None, False))
    found: dict[int, Queue] = {}
    seen = {start.number}
    ahead = [start]
    while ahead:
        for binding in ahead.pop().list_bindings():
            if binding.destination > 0:
                found[binding.destination] = vhost.catalog.queues_by_id[binding.destination]
            elif binding.destination not in seen:
                seen.add(binding.destination)
                ahead.append(vhost.catalog.bindings.by_number[binding.destination])
    return list(found.values())


def summary(vhost: Vhost, queue: Queue) -> DeadLetterSummary:
    """The messages of the queue by cause and origin."""
    found = DeadLetterSummary(queue.name)
    group = queue.find_group(b"")
    if isinstance(group, WorkGroup):
        found.held = int(group.leases.count)
    seal(vhost, queue)
    live = queue.needed(queue.start(), queue.log.end)
    found.messages = sum(end - first for first, end in live)
    look = LookBudget(COUNTED_MAX)
    with suppress(DamagedBlock):  # what cannot be read is not counted
        for letter in walk(vhost, queue, 0):
            found.counted += 1
            count(found.causes, letter.property("death_reason"))
            count(found.origins, letter.property("death_queue"))
            note_death(found, letter)
            if look.is_enough(letter):
                break
    found.complete = found.counted >= found.messages
    if not found.complete:
        with suppress(DamagedBlock):
            for letter in walk(vhost, queue, live[-1][1] - 1):
                note_death(found, letter)
    return found


def note_death(found: DeadLetterSummary, letter: RecordSubject) -> None:
    """Have the times of deaths include this one's."""
    died_ms = letter.property("death_ms")
    if isinstance(died_ms, str) and died_ms.isdigit():  # a user property of MQTT
        died_ms = int(died_ms)
    if isinstance(died_ms, int):
        found.oldest_ms = died_ms if found.oldest_ms is None else min(found.oldest_ms, died_ms)
        found.newest_ms = died_ms if found.newest_ms is None else max(found.newest_ms, died_ms)


def count(counts: dict[str, int], value: object) -> None:
    name = text(value) if isinstance(value, bytes) else value if isinstance(value, str) else "unknown"
    counts[name] = counts.get(name, 0) + 1


# ---- looking at them


def walk(vhost: Vhost, queue: Queue, first: int, end: int = OFFSET_MAX) -> Iterator[RecordSubject]:
    """The unsettled records of [first, end), one by one. Nothing is delivered: what consumers hold is there too."""
    offset = max(first, int(queue.start()))
    while offset < min(end, int(queue.log.end)):
        block = queue.log.block(offset)
        if block is None:
            return
        # Between blocks some may be gone: nobody wanted them any more.
        for run_first, run_end in queue.needed(max(offset, int(block.base)), min(end, int(block.end))):
            for at in range(run_first, run_end):
                if not queue.has(block, at - block.base):
                    continue
                deliveries, failures = attempts_of(queue, at)
                yield RecordSubject(queue.name, block, at - block.base, vhost.turn.now_us, deliveries, failures)
        offset = int(block.end)


def walk_ranges(vhost: Vhost, queue: Queue, first: int, ranges: list[tuple[int, int]]) -> Iterator[RecordSubject]:
    """The same of several ranges, which ascend, from an offset on."""
    for low, end in ranges:
        if end > first:
            yield from walk(vhost, queue, max(low, first), end)


class LookBudget:
    """The part of a queue that one request may look at: it must not hold the broker up, however long the bodies are."""

    def __init__(self, records_max: int = SCANNED_AT_ONCE) -> None:
        self.records_max = records_max
        self.records = 0
        self.octets = 0

    def is_enough(self, letter: RecordSubject) -> bool:
        """True if it was enough with this one."""
        self.records += 1
        self.octets += int(letter.block.body_span(letter.index, 1))
        return self.records == self.records_max or self.octets >= SCANNED_OCTETS_AT_ONCE


def attempts_of(queue: Queue, offset: int) -> tuple[int, int]:
    """The attempts to deliver a record that waits, and those that failed."""
    group = queue.find_group(b"")
    if not isinstance(group, WorkGroup):
        return 0, 0
    lease = group.leases.find(offset)
    if lease is not None:
        return int(lease.deliveries), int(lease.failures)
    attempts = group.attempts.of(offset)
    return attempts & 0xFFFF_FFFF, attempts >> 32


def offset_of(letter: RecordSubject) -> int:
    """The record's offset in the log of the queue that holds it."""
    return int(letter.offset())


def seal(vhost: Vhost, queue: Queue) -> None:
    """Make readable what was published in this turn."""
    if queue.log.writer.count:
        vhost.turn.seal(queue)


# ---- changing them


def redrive(
    vhost: Vhost,
    name: bytes,
    where: Filter | None,
    to: bytes,
    first: int,
    limit: int,
    ranges: list[tuple[int, int]] | None = None,
    scan: int = SCANNED_AT_ONCE,
) -> Portion:
    """Send messages back to the queue in which they died first, or to the queue `to`; each is in one place at any time.

    The message keeps what it says of its deaths. It goes to that queue alone, though it was published to others too,
    with the exchange and the routing key that it had there.
    ranges  only these offsets, [first, end) each, ascending. An offset is one message for ever: asking again for one
            that was sent back finds it gone. Those that cannot go are counted, and do not hold up the others
    raises  RequestError: NOT_FOUND without such a queue, or without an origin; REFUSED where there is no room. What
            was sent back before the error stays sent back
    """
    try:
        queue, group = work_of(vhost, name)
        if to and vhost.catalog.queue(to) is queue:
            raise RequestError(INVALID, f"to: '{text(to)}' is the queue itself")
        portion, chosen = select(vhost, queue, group, where, first, limit, ranges, scan)
        carry(vhost, queue, group, portion, chosen, partial(send_back, vhost, to=to), ranges is not None)
        return portion
    except Exception as error:
        note_half_change(error)
        raise


def carry(
    vhost: Vhost,
    queue: Queue,
    group: WorkGroup,
    portion: Portion,
    chosen: Sequence[RecordSubject],
    send: Callable[[RecordSubject], None],
    goes_on: bool,
) -> None:
    """Send messages somewhere else, and settle those that went, in one frame.

    portion  is told how many went, and which did not
    send     appends one where it goes; RequestError where it cannot go there
    goes_on  the others go all the same; else the error is raised once what went is settled
    """
    moved: set[int] = set()
    try:
        for message in chosen:
            try:
                send(message)
            except RequestError as error:
                if not goes_on:
                    raise
                portion.refused += 1
                portion.refusal = portion.refusal or error.text
                continue
            moved.add(offset_of(message))
    finally:
        take_out(group, moved)
        vhost.turn.mark(queue)
    portion.done = len(moved)


def discard(
    vhost: Vhost,
    name: bytes,
    where: Filter | None,
    first: int,
    limit: int,
    ranges: list[tuple[int, int]] | None = None,
    scan: int = SCANNED_AT_ONCE,
) -> Portion:
    """Settle messages that the filter wants; RequestError: NOT_FOUND without such a queue, INVALID for a stream."""
    try:
        queue, group = work_of(vhost, name)
        portion, chosen = select(vhost, queue, group, where, first, limit, ranges, scan)
        take_out(group, {offset_of(letter) for letter in chosen})
        vhost.turn.mark(queue)
        portion.done = len(chosen)
        return portion
    except Exception as error:
        note_half_change(error)
        raise


def edit(
    vhost: Vhost,
    name: bytes,
    offset: int,
    body: bytes | None = None,
    headers: dict[str, object] | None = None,
    routing_key: bytes | None = None,
) -> None:
    """Put a message with another body, headers or routing key in the place of one; it goes to the end of its queue.

    headers  those to set; a value of None takes the header away
    raises   RequestError: NOT_FOUND where nothing of that offset waits in the queue, PRECONDITION where a consumer
             holds it, REFUSED where there is no room
    """
    try:
        queue, group = work_of(vhost, name)
        block = queue.log.block(offset) if offset < queue.log.end else None
        if offset < queue.start() or block is None or block.base > offset or not queue.needed(offset, offset + 1):
            raise RequestError(NOT_FOUND, f"offset: {offset} is not in queue '{text(name)}'")
        if not is_waiting(group, offset):
            raise RequestError(PRECONDITION, f"offset: {offset} of queue '{text(name)}' is held by a consumer")
        record = record_at(block, offset - block.base)
        if headers:
            if not MADE_HEADERS.isdisjoint(headers):  # they are not the broker's any more
                record.properties = rendered(record.format, record.properties, record.annotations)
                record.annotations = without_deaths(record.annotations)
            names = [name.encode() for name in headers]
            said = [(name, value) for name, value in headers.items() if value is not None]
            record.properties = format_of(record.format).edit(record.properties, names, said)
        if body is not None:
            record.body = format_of(record.format).body_of(body, PLAIN_BODY)
        key = record.routing_key if routing_key is None else routing_key
        vhost.mover.hand_over(Route(record.exchange, key, [queue], None), record)
        take_out(group, {offset})
        vhost.turn.mark(queue)
    except Exception as error:
        note_half_change(error)
        raise


def work_of(vhost: Vhost, name: bytes) -> tuple[Queue, WorkGroup]:
    """A queue and its nameless group, made where there is none; RequestError where it can have none."""
    queue = vhost.catalog.queue(name)
    if queue.kind == STREAM:
        raise RequestError(INVALID, f"queue: '{text(name)}' is a stream: nothing is settled in it")
    seal(vhost, queue)
    group = queue.find_group(b"")
    if group is None:
        group = vhost.catalog.add_group(queue, b"", b"", True, queue.start(), True)
    assert isinstance(group, WorkGroup)
    return queue, group


def select(
    vhost: Vhost,
    queue: Queue,
    group: WorkGroup,
    where: Filter | None,
    first: int,
    limit: int,
    ranges: list[tuple[int, int]] | None = None,
    scan: int = SCANNED_AT_ONCE,
) -> tuple[Portion, list[RecordSubject]]:
    """The messages of one portion, or of one of these ranges of offsets, that the filter wants and nobody holds."""
    portion = Portion()
    chosen: list[RecordSubject] = []
    octets = 0
    look = LookBudget(scan)
    for letter in walk(vhost, queue, first) if ranges is None else walk_ranges(vhost, queue, first, ranges):
        portion.scanned += 1
        enough = look.is_enough(letter)
        offset = offset_of(letter)
        if not group.settlement.unsettled(offset, offset + 1):
            portion.gone += 1  # another group wants it still
        elif where is None or where.matches(letter):
            if is_waiting(group, offset):
                chosen.append(letter)
                octets += int(letter.block.body_span(letter.index, 1))
            else:
                portion.held += 1
        if enough or len(chosen) == limit or octets >= OCTETS_AT_ONCE:
            portion.next = offset + 1
            break
    last = int(queue.log.end) if not ranges else min(int(queue.log.end), ranges[-1][1])
    if portion.next is not None and portion.next >= last:
        portion.next = None
    if ranges is not None:
        end = OFFSET_MAX if portion.next is None else portion.next
        asked = sum(max(0, min(high, end) - max(low, first)) for low, high in ranges)
        portion.gone += asked - portion.scanned
    return portion, chosen


def send_back(vhost: Vhost, letter: RecordSubject, to: bytes) -> None:
    """Append a dead letter to where it came from, or to the queue `to`."""
    record = record_at(letter.block, letter.index)
    exchange, key = record.exchange, record.routing_key
    deaths = deaths_of(record.annotations)
    origin = to
    if deaths.first is not None:
        deaths.redrive(letter.queue, vhost.turn.now_us // 1_000_000, exchange, key)
        record.annotations = with_deaths(record.annotations, deaths)
        exchange, key = deaths.first.exchange, deaths.first.keys[0]
        origin = origin or deaths.first.queue
    elif not origin:
        mark = letter.header("dlq-queue")
        origin = mark.encode() if isinstance(mark, str) else b""
    if not origin:
        raise RequestError(NOT_FOUND, f"offset {offset_of(letter)}: the message does not say where it died")
    target = vhost.catalog.queues.get(origin)
    if target is None:
        raise RequestError(
            NOT_FOUND, f"offset {offset_of(letter)}: queue '{text(origin)}', where it died, is no more: say where to"
        )
    vhost.mover.hand_over(Route(exchange, key, [target], None), record)
