"""The primary group of a queue: the work group whose progress readers of the same log as a stream are told of.

A queue names it by the argument `x-primary-group`. On a stream it is the only work group that there can be: its
consumers settle records, and what is settled stays in the stream for the readers.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.queue.declaration.arguments import BY_KEY
from forebay.queue.leases.lease import Consumer
from forebay.queue.queue import Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup

ARGUMENT: Final = BY_KEY["primary-group"].argument


@final
class PrimaryGroup:
    """The progress of the primary group of one queue; it may not exist yet, or not any more."""

    def __init__(self, queue: Queue, name: bytes) -> None:
        self.queue = queue
        self.name = name

    def group(self) -> WorkGroup | None:
        group = self.queue.find_group(self.name)
        return group if isinstance(group, WorkGroup) else None

    def committed(self) -> i64:
        """Return the offset below which the group has settled every record."""
        group = self.group()
        return self.queue.start() if group is None else max(group.settlement.advance(), self.queue.start())

    def has_settled(self, offset: i64) -> bool:
        """Return whether the group has settled the record at `offset`."""
        group = self.group()
        return group is not None and group.settlement.is_settled(offset)


def primary_name(queue: Queue) -> bytes | None:
    """Return the name of a queue's primary group, or None if it has none."""
    name = queue.spec.arguments.get(ARGUMENT)
    if isinstance(name, str):
        return name.encode()
    return name if isinstance(name, bytes) else None


def reader_primary(queue: Queue, consumer: Consumer) -> PrimaryGroup | None:
    """Return the primary group whose progress is reported to a stream consumer. Returns None if the queue has none."""
    name = primary_name(queue)
    if name is None or not isinstance(queue.groups[consumer.group], StreamGroup):
        return None
    return PrimaryGroup(queue, name)
