"""Operations on the logs of queues, streams above all: how far they go, in which files, and what time an offset had."""

from __future__ import annotations

from typing import Final

from forebay.broker.redrive.dead_letter_queues import seal
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.core.units import US_PER_MS
from forebay.log.queue_log import BlockIndex, QueueLog
from forebay.management.arguments import octets
from forebay.management.control import Control, operation
from forebay.management.needs import ENTER
from forebay.management.requests.queues import (
    LogFields,
    LogFileFields,
    OffsetAnswer,
    StreamOffsetRequest,
    StreamShowRequest,
)
from forebay.queue.queue import KIND_NAMES, Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.routing.exchange import text

FILES_MAX: Final = 1000  # files in one answer


@operation("stream.show", need=ENTER)
def show_stream(control: Control, given: StreamShowRequest) -> LogFields:
    """Show a queue's log: first and last offset and time, size, and files, the oldest first.

    `readable_end` is the offset where readers stop, because later messages are not on disk yet.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    seal(vhost, queue)
    log = queue.log
    index = log.index
    size = int(index.size())
    first, end = int(log.first), size
    return {
        "queue": text(queue.name),
        "type": KIND_NAMES[int(queue.kind)],
        "start": int(queue.start()),
        "end": int(log.end),
        "readable_end": int(log.readable_end()),
        "kept": int(queue.kept()),
        "octets": int(log.octets),
        "blocks": end - first,
        "first_ms": None if first == end else int(index.stamps[first]) // US_PER_MS,
        "last_ms": None if first == end else int(log.stamp_us) // US_PER_MS,
        "max_age_ms": int(queue.limits.max_age_us) // US_PER_MS or None,
        "max_octets": max(int(queue.limits.max_octets), 0) or None,
        "max_messages": max(int(queue.limits.max_messages), 0) or None,
        "files": files_of(log),
        "groups": sum(1 for group in queue.groups.values() if isinstance(group, StreamGroup)),
    }


@operation("stream.offset", need=ENTER)
def offset_of_time(control: Control, given: StreamOffsetRequest) -> OffsetAnswer:
    """Find the first offset of a queue that was stored at or after a time, or else its end."""
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    seal(vhost, queue)
    return {"offset": max(int(queue.log.offset_at(given.time_ms * US_PER_MS)), int(queue.start()))}


def files_of(log: QueueLog) -> list[LogFileFields]:
    """Return the files that hold a log's blocks; none for a log in memory."""
    index = log.index
    found: list[LogFileFields] = []
    at = int(log.first)
    size = int(index.size())
    while at < size and len(found) < FILES_MAX:
        stop = end_of_file(index, at, size)
        file = log.files.files.get(int(index.files[at]))
        if file is not None:
            found.append(
                {
                    "path": file.path,
                    "first": int(index.bases[at]),
                    "end": int(index.end(stop - 1)),
                    "blocks": stop - at,
                    "first_ms": int(index.stamps[at]) // US_PER_MS,
                }
            )
        at = stop
    return found


def end_of_file(index: BlockIndex, first: int, size: int) -> int:
    """Return the first index entry after `first` of another file. Entries of one file are adjacent."""
    number = index.files[first]
    step = 1
    low, high = first, first + 1
    while high < size and index.files[high] == number:
        low = high
        step *= 2
        high = min(high + step, size)
    while high - low > 1:  # `low` is of the file, `high` is not
        middle = (low + high) // 2
        if index.files[middle] == number:
            low = middle
        else:
            high = middle
    return low + 1


def check_offset(queue: Queue, offset: int) -> None:
    """Raise RequestError(NOT_FOUND) unless the offset is within the queue."""
    start, end = int(queue.start()), int(queue.log.end)
    if not start <= offset < end:
        raise RequestError(
            NOT_FOUND, f"offset: {offset} is not within {start} .. {end - 1} of queue '{text(queue.name)}'"
        )
