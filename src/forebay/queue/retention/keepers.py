"""Groups and readers for whom a log keeps records; the lowest of them holds it back."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.queue_log import NOT_HELD
from forebay.queue.queue import STREAM, Queue
from forebay.queue.retention.pins import RetentionPin
from forebay.queue.work.work_group import WorkGroup


@final
class Keeper:
    """One that keeps records in the log.

    group, reader  which of the two it is; the other is None
    offset         the first record that it keeps
    free           the first that would stay without it
    """

    def __init__(self, group: WorkGroup | None, reader: RetentionPin | None, offset: i64) -> None:
        self.group = group
        self.reader = reader
        self.offset: i64 = offset
        self.free: i64 = offset


def find_keeper(queue: Queue) -> Keeper | None:
    """The one with the lowest offset; None where the log keeps nothing for anybody."""
    keepers = keepers_of(queue)
    lowest: Keeper | None = None
    for keeper in keepers:
        if lowest is None or keeper.offset < lowest.offset:
            lowest = keeper
    log = queue.log
    if lowest is None or lowest.offset >= log.end:
        return None
    lowest.offset = max(lowest.offset, log.kept)
    lowest.free = max(next_floor(queue, keepers, lowest), lowest.offset)
    return lowest


def keepers_of(queue: Queue) -> list[Keeper]:
    """All that keep records: readers with a retention pin, and the work groups; of a stream these keep nothing."""
    found: list[Keeper] = []
    if queue.kind != STREAM:
        for group in queue.groups.values():
            if isinstance(group, WorkGroup):
                found.append(Keeper(group, None, group.settlement.advance()))
    for pin in queue.pins.by_name.values():
        found.append(Keeper(None, pin, pin.offset))
    return found


def next_floor(queue: Queue, keepers: list[Keeper], but: Keeper) -> i64:
    """The first record that the log would keep without one of them."""
    floor: i64 = NOT_HELD
    others: i64 = 0  # work groups
    for keeper in keepers:
        if keeper is not but:
            floor = min(floor, keeper.offset)
            if keeper.group is not None:
                others += 1
    if others == 0:  # nothing is settled for all: a stream keeps what it has, a queue what waits for who consumes next
        floor = min(floor, queue.log.start)
    return min(floor, queue.log.end)
