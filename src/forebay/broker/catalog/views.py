"""Views: queues whose groups take from the log of a stream, of which each record is stored once.

A view has a number, limits, arguments and groups of its own. What its consumers settle is noted by its number; records
stand in the log by the number of the stream. Nothing is published to a view: what comes into the stream is in it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from mypy_extensions import i64

from forebay.broker.catalog.commands.queues import DeclareQueue
from forebay.broker.catalog.topology import Topology
from forebay.core.errors import NOT_FOUND, DamagedBlock, RequestError
from forebay.core.message import KEYED
from forebay.core.units import US_PER_MS
from forebay.log.queue_log import QueueLog
from forebay.queue.declaration.arguments import invalid, unacceptable
from forebay.queue.declaration.view_arguments import (
    FILTER,
    RECOVERY_POINT,
    SOURCE,
    RecoveryPoint,
    check_view_arguments,
    recovery_point,
    text_argument,
)
from forebay.queue.queue import STREAM, Queue
from forebay.queue.ready.expiry import marks_of
from forebay.routing.exchange import text

PATTERN_SIGNS: Final = "#*+^$()|"  # in a source that no queue is called: it was meant as a pattern
KEY_BLOCKS_MAX: Final = 256  # blocks of a stream that are searched for message groups; beyond there may be some


def resolve_source(where: Topology, command: DeclareQueue) -> DeclareQueue:
    """Return the command with what its arguments say of a source; RequestError if that cannot be."""
    if command.kind:
        return command
    place = where.place_of(command.name)
    check_view_arguments(place, command.durable, command.exclusive, command.arguments)
    if SOURCE not in command.arguments:
        return command
    source = command.arguments[SOURCE]
    if not isinstance(source, str):
        raise invalid(SOURCE, place, unacceptable(source))
    stream = find_stream(where, place, source)
    start = recovery_start(stream, place, recovery_point(place, command.arguments))
    condition = text_argument(command.arguments, FILTER)
    return msgspec.structs.replace(command, source=int(stream.source.number), start=int(start), filter=condition)


def find_stream(where: Topology, place: str, name: str) -> Queue:
    """Return the stream that a view is to read."""
    queue = where.queues.get(name.encode())
    if queue is None:
        hint = "; patterns and several sources are not in force" if set(name) & set(PATTERN_SIGNS) else ""
        raise RequestError(NOT_FOUND, f"{SOURCE} of {place}: no stream '{name}' in vhost '{text(where.name)}'{hint}")
    if queue.is_view:
        origin = queue.spec.arguments[SOURCE]
        raise invalid(SOURCE, place, f"'{name}' is a view itself, of '{origin}': views of views are not in force")
    if queue.kind != STREAM:
        raise invalid(SOURCE, place, f"queue '{name}' is no stream: what its consumers settle is gone for all")
    return queue


def recovery_start(stream: Queue, place: str, point: RecoveryPoint) -> i64:
    """Return the first offset of a new view."""
    log = stream.log
    first = stream.start()
    end = log.end + log.writer.count
    if point.is_end:
        return end
    if point.time_ms >= 0:
        return max(first, log.offset_at(i64(point.time_ms) * US_PER_MS))
    if point.offset > end:
        raise invalid(RECOVERY_POINT, place, f"offset {point.offset} is beyond the end of the stream, {end}")
    return max(first, i64(point.offset))


def has_keys(log: QueueLog, start: i64) -> bool:
    """Return whether records of a log from `start` on may be of message groups."""
    at: i64 = start
    for _ in range(KEY_BLOCKS_MAX):
        if at >= log.end:
            return False
        try:
            block = log.kept_block(at)
        except DamagedBlock as error:
            at = error.end
            continue
        if block is None:
            return False
        if marks_of(block) & KEYED:
            return True
        at = block.end
    return True
