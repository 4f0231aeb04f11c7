"""The pins of a log: groups and readers for whom it keeps records; the lowest of them holds it back."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.queue_log import NOT_HELD
from forebay.queue.holds import Hold
from forebay.queue.queue import STREAM, Queue
from forebay.queue.work_group import WorkGroup


@final
class Pin:
    """One that keeps records in the log.

    group, reader  which of the two it is; the other is None
    offset         the first record that it keeps
    free           the first that would stay without it
    """

    def __init__(self, group: WorkGroup | None, reader: Hold | None, offset: i64) -> None:
        self.group = group
        self.reader = reader
        self.offset: i64 = offset
        self.free: i64 = offset


def find_pin(queue: Queue) -> Pin | None:
    """The one with the lowest offset; None where the log keeps nothing for anybody."""
    pins = pins_of(queue)
    lowest: Pin | None = None
    for pin in pins:
        if lowest is None or pin.offset < lowest.offset:
            lowest = pin
    log = queue.log
    if lowest is None or lowest.offset >= log.end:
        return None
    lowest.offset = max(lowest.offset, log.kept)
    lowest.free = max(next_floor(queue, pins, lowest), lowest.offset)
    return lowest


def pins_of(queue: Queue) -> list[Pin]:
    """All that keep records: readers with a hold, and the work groups; of a stream these keep nothing."""
    found: list[Pin] = []
    if queue.kind != STREAM:
        for group in queue.groups.values():
            if isinstance(group, WorkGroup):
                found.append(Pin(group, None, group.advance()))
    for hold in queue.holds.by_name.values():
        found.append(Pin(None, hold, hold.offset))
    return found


def next_floor(queue: Queue, pins: list[Pin], but: Pin) -> i64:
    """The first record that the log would keep without one of them."""
    floor: i64 = NOT_HELD
    others: i64 = 0  # work groups
    for pin in pins:
        if pin is not but:
            floor = min(floor, pin.offset)
            if pin.group is not None:
                others += 1
    if others == 0:  # nothing is settled for all: a stream keeps what it has, a queue what waits for who consumes next
        floor = min(floor, queue.log.start)
    return min(floor, queue.log.end)
