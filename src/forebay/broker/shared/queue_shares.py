"""The share of disk or memory that one queue may have, and the queues that are over theirs."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.queue import Queue


@final
class QueueShares:
    """The shares, and the queues whose publishers are slowed down.

    disk_octets    that one queue with a file may hold; 0 sets no limit
    memory_octets  the same of a queue without a file
    crowded        queues over their share, and queues whose dead letters go to one of these
    behind         of the latter, the queue that is over its share
    """

    def __init__(self) -> None:
        self.disk_octets: i64 = 0
        self.memory_octets: i64 = 0
        self.crowded: list[Queue] = []
        self.behind: dict[Queue, Queue] = {}

    def share_of(self, queue: Queue) -> i64:
        """Return the octets that a queue may hold; 0 sets no limit."""
        return self.disk_octets if queue.log.durable else self.memory_octets

    def crowd(self, queue: Queue) -> None:
        """Slow the publishers of a queue down: it is over its share, or its vhost is."""
        if not queue.crowded:
            queue.crowded = True
            self.crowded.append(queue)

    def crowd_behind(self, source: Queue, target: Queue) -> None:
        """Slow the publishers of a queue down, as its dead letters go to one that is over its share."""
        if source is not target:
            self.behind[source] = target
            self.crowd(source)
