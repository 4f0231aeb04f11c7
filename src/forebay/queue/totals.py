"""Sums over all queues of a broker, and the longest queues."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.queue.counts import Counts
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup

LONGEST: Final = 10


@final
class GroupTotals:
    """The sums over the work groups of one queue.

    groups              the work groups
    unacked             messages that consumers hold, in each group
    dead_letters        dead letters that wait for their exchange, in each group
    dead_letter_octets  bytes of the bodies of these dead letters
    """

    def __init__(self, queue: Queue) -> None:
        self.groups: list[WorkGroup] = []
        self.unacked: i64 = 0
        self.dead_letters: i64 = 0
        self.dead_letter_octets: i64 = 0
        for group in queue.groups.values():
            if isinstance(group, WorkGroup):
                self.groups.append(group)
                self.unacked += group.leases.count
                self.dead_letters += group.dead_letters.count
                self.dead_letter_octets += group.dead_letters.octets()


@final
class QueueTotals:
    """The sums over queues.

    wanted   messages that are ready, held by a consumer, or dead and still here
    longest  the queues with the most ready messages, the longest first
    """

    def __init__(self) -> None:
        self.queues: i64 = 0
        self.ready: i64 = 0
        self.wanted: i64 = 0
        self.unacked: i64 = 0
        self.consumers: i64 = 0
        self.octets: i64 = 0
        self.counts = Counts()
        self.longest: list[Queue] = []

    def add(self, queues: list[Queue]) -> None:
        """Add these queues to the sums."""
        for queue in queues:
            self.queues += 1
            ready = queue.ready()
            self.ready += ready
            self.wanted += queue.wanted()
            self.unacked += GroupTotals(queue).unacked
            self.consumers += queue.consumer_count()
            self.octets += queue.stored_octets()
            self.counts.add(queue.counts)
            if ready:
                self.rank(queue, ready)

    def rank(self, queue: Queue, ready: i64) -> None:
        longest = self.longest
        at = len(longest)
        while at > 0 and longest[at - 1].ready() < ready:
            at -= 1
        if at < LONGEST:
            longest.insert(at, queue)
            if len(longest) > LONGEST:
                longest.pop()


def take_changed(queues: list[Queue]) -> list[Queue]:
    """Return the queues whose numbers changed since the last call: most of many are idle."""
    changed: list[Queue] = []
    for queue in queues:
        unacked = GroupTotals(queue).unacked
        if queue.sampled.differ(queue.counts.sum(), queue.ready(), queue.wanted(), unacked, queue.log.octets):
            changed.append(queue)
    return changed


def oldest_us(queue: Queue) -> i64:
    """Return about when the oldest unsettled message was stored, in µs: the time of its block.

    Return -1 if there is none.
    """
    log = queue.log
    at = log.find(queue.start())
    return log.index.stamps[at] if at < log.index.size() else -1
