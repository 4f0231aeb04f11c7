"""The readers of a source, and what each of them still needs of its log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64

from forebay.log.queue_log import NOT_HELD
from forebay.queue.source.pins import RetentionPin
from forebay.queue.work.work_group import WorkGroup


@final
class Keeper:
    """A group or a pin for which a log keeps records, or a reader without either that keeps them itself.

    reader      the reader of the group or pin
    group, pin  the group or the pin; both are None for the reader itself
    offset      the first record that it keeps
    free        the first record that would be kept without it
    """

    def __init__(self, reader: SourceReader, group: WorkGroup | None, pin: RetentionPin | None, offset: i64) -> None:
        self.reader = reader
        self.group = group
        self.pin = pin
        self.offset: i64 = offset
        self.free: i64 = offset


class SourceReader(ABC):
    """A reader of a source: a queue with its groups and retention pins, or the owner of a log of the broker's."""

    @abstractmethod
    def needed_from(self) -> i64:
        """Return the offset below which the reader needs no record."""

    @abstractmethod
    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of [first, end) that the reader needs, ascending, without those of its pins."""

    def pinned_from(self) -> i64:
        """Return the offset from which the reader's retention pins keep every record; NOT_HELD without pins."""
        return NOT_HELD

    def start(self) -> i64:
        """Return the first offset that the reader would need if it had no groups."""
        return self.needed_from()

    def keepers(self) -> list[Keeper]:
        """Return the reader's groups and pins for which the log keeps records."""
        return []
