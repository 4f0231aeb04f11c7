"""Quotas: queues and vhosts that hold more than their share of disk or memory.

Whoever publishes to such a queue is slowed down by the server; everybody else goes on. What takes a queue over its
share is seen when its records are sealed, at the end of the turn; that it is below again, once a second.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options
from forebay.queue.queue import Queue
from forebay.queue.source.retained import RetainedRecords
from forebay.routing.exchange import text

PERCENT: Final = 100
BELOW_PERCENT: Final = 90  # of a share, at which it is no longer too much: else publishers would stop and go


class Quota:
    """The shares, and who is over.

    full_vhosts  over the octets that all their queues may hold
    """

    def __init__(self, vhosts: Vhosts, options: Options) -> None:
        self.vhosts = vhosts
        self.shares = vhosts.shared.shares
        self.full_vhosts: list[Vhost] = []
        self.set(options)

    def set(self, options: Options) -> None:
        """Take the shares from the options."""
        self.shares.disk_octets = options.queue_octets_max
        self.shares.memory_octets = options.memory_octets_max * options.queue_memory_percent_max // PERCENT

    def look(self) -> None:
        """Let go of what is below its share again, and look which vhosts are over theirs."""
        self.full_vhosts = [vhost for vhost in self.vhosts.all() if self.is_full(vhost)]
        for vhost in self.full_vhosts:
            for queue in vhost.catalog.queues.values():
                self.shares.crowd(queue)
        crowded, self.shares.crowded = self.shares.crowded, []
        for queue in crowded:
            queue.crowded = False
            behind = self.shares.behind.get(queue)
            if behind is not None and (not self.is_over(behind) or self.owner_of(queue) is None):
                del self.shares.behind[queue]
                behind = None
            if behind is not None or self.is_over(queue):
                self.shares.crowd(queue)

    def is_full(self, vhost: Vhost) -> bool:
        """True if all queues of a vhost together hold too much; one that did, until it is well below."""
        most = int(vhost.catalog.settings.octets_max)
        if most < 0:
            return False
        if vhost in self.full_vhosts:
            most = most * BELOW_PERCENT // PERCENT
        return octets_of(vhost) > most

    def is_over(self, queue: Queue) -> bool:
        """True if a queue that was over its share still is, or its vhost is."""
        owner = self.owner_of(queue)
        if owner is None:
            return False  # it is deleted
        share = int(self.shares.share_of(queue))
        return owner in self.full_vhosts or (share > 0 and queue.log.octets > share * BELOW_PERCENT // PERCENT)

    def owner_of(self, queue: Queue) -> Vhost | None:
        """The vhost that has the queue; None once it is deleted."""
        return next((vhost for vhost in self.vhosts.all() if vhost.catalog.queues.get(queue.name) is queue), None)

    def reason(self, queue: Queue) -> str:
        """The reason to slow publishers of a queue down."""
        behind = self.shares.behind.get(queue)
        if behind is not None:
            return f"{self.own_reason(behind)}, and dead letters of queue '{text(queue.name)}' go there"
        return self.own_reason(queue)

    def own_reason(self, queue: Queue) -> str:
        owner = self.owner_of(queue)
        if owner is not None and owner in self.full_vhosts:
            return f"vhost '{text(owner.name)}' is over its octets_max"
        share = f"queue '{text(queue.name)}' is over its share of {'disk' if queue.log.durable else 'memory'}"
        keeper = queue.source.lowest_reader() if queue.source.is_shared else None
        if keeper is None or keeper.reader is queue:
            return share
        if isinstance(keeper.reader, RetainedRecords):
            return f"{share}: {keeper.free - keeper.offset} messages that are settled are retained"
        assert isinstance(keeper.reader, Queue)
        return f"{share}: view '{text(keeper.reader.name)}' alone keeps {keeper.free - keeper.offset} messages"


def octets_of(vhost: Vhost) -> int:
    """The octets that the queues of a vhost hold."""
    return sum(int(queue.stored_octets()) for queue in vhost.catalog.queues.values())
