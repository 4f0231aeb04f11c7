"""The sizes of a queue's messages, ready and held, as shares of its log. Nothing is read from the disk."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import OBJECT_OCTETS
from forebay.log.queue_log import QueueLog
from forebay.queue.leases.lease import Lease
from forebay.queue.leases.lease_index import held_runs
from forebay.queue.queue import STREAM, Queue
from forebay.queue.totals import GroupTotals
from forebay.queue.work.work_group import WorkGroup

LEASES_MAX: Final = 1000  # leases of one group that are measured one by one
LOOKS_MAX: Final = 1000  # records of partly settled leases that are measured one by one


@final
class QueueSizes:
    """The sizes of a queue's messages, in bytes.

    octets     bytes of the whole log
    in_memory  bytes of the log's blocks in memory
    ready      bytes of the ready messages; with one group, of what is neither held nor dead
    unacked    bytes of the messages that consumers hold, in each group
    """

    def __init__(self, queue: Queue) -> None:
        log = queue.log
        self.octets: int = log.octets
        self.in_memory = in_memory(log)
        there: int = log.octets_from(queue.start())
        wanted: int = queue.wanted()
        ready: int = queue.ready()
        totals = GroupTotals(queue)
        held: int = totals.unacked
        groups = totals.groups
        self.unacked: int = 0
        if held and len(groups) == 1 and held == wanted and not ready:
            self.unacked = there
        elif held:
            for group in groups:
                self.unacked += held_octets(log, group, there, wanted)
        left = there
        others = wanted
        if len(groups) == 1 and queue.kind != STREAM:
            left = max(there - self.unacked, 0)
            others -= held
        self.ready = share(left, ready, others)

    def count_in_memory(self, messages: int) -> int:
        """Return how many of `messages` messages are in memory, estimated by the bytes of the log in memory."""
        return share(messages, self.in_memory, self.octets) if self.octets else messages


def share(amount: int, part: int, whole: int) -> int:
    """Return the share of `amount` that `part` has of `whole`.

    Numbers may be of any length, as a product may be long.
    """
    return amount * part // whole if part < whole else amount if part else 0


def in_memory(log: QueueLog) -> int:
    """Return the bytes of a log's blocks that are in memory."""
    return log.cached_octets - OBJECT_OCTETS * i64(len(log.cached)) if log.durable else log.octets


def held_octets(log: QueueLog, group: WorkGroup, octets: int, messages: int) -> int:
    """Return the bytes of the records that consumers of a group hold.

    With very many leases it is an estimate: their share, by number, of the `octets` bytes of all `messages` messages.
    """
    leases = group.leases
    if leases.live > LEASES_MAX:
        return share(octets, leases.count, messages)
    looks: i64 = LOOKS_MAX
    held: i64 = 0
    for lease in leases.all_live():
        if lease.left == lease.count:
            held += run_octets(log, lease.first, lease.count)
        elif lease.count <= looks:
            looks -= lease.count
            held += lease_octets(log, lease)
        else:
            held += run_octets(log, lease.first, lease.count) * lease.left // lease.count
    return held


def lease_octets(log: QueueLog, lease: Lease) -> i64:
    """Return the bytes of the records left in a lease."""
    held: i64 = 0
    for first, count in held_runs(lease, lease.first, lease.count):
        held += run_octets(log, first, count)
    return held


def run_octets(log: QueueLog, first: i64, count: i64) -> i64:
    """Return the bytes of consecutive records, as far as they are in the log."""
    index = log.index
    end = first + count
    octets: i64 = 0
    for at in range(log.find(first), index.size()):
        first = max(first, index.bases[at])
        stop = min(index.end(at), end)
        if first >= stop:
            break
        octets += part_octets(log, at, first - index.bases[at], stop - first)
        first = stop
    return octets


def part_octets(log: QueueLog, at: i64, first: i64, count: i64) -> i64:
    """Return the bytes of some records of a block.

    The number is exact if the block is in memory, or all of its records are counted. Otherwise it is an average.
    """
    index = log.index
    octets = i64(index.octets[at])
    total = i64(index.counts[at])
    if count == total:
        return octets
    block = log.cached.get(int(index.bases[at]))
    return octets * count // total if block is None else block.span(first, count)
