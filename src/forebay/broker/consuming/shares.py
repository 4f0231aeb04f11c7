"""MQTT shared subscriptions: `$share/<group>/<filter>` is a queue bound to the filter, and its members consume from it.

So what one member leaves unacknowledged goes to another, and nothing is lost while a durable member is away. The queue
is durable once a durable session is a member, and goes with its last member.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.catalog.commands.queues import DeclareQueue, RemoveQueue
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.fanout import properties_at
from forebay.core.errors import INVALID, RequestError
from forebay.log.block import Block
from forebay.message.address import TOPIC_EXCHANGE
from forebay.queue.queue import SHARE, Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.topic_trie import check_filter, swap_key
from forebay.wire.mqtt.codes import SHARE_PREFIX


@final
class Shares:
    """The shared subscriptions of a vhost, and the numbers of the sessions that are their members."""

    def __init__(self, catalog: Catalog, strategy: str) -> None:
        self.catalog = catalog
        self.strategy = strategy
        self.members: dict[bytes, set[int]] = {}

    def join(self, filter: bytes, client: ClientSession, now_us: i64) -> None:
        """Make a session a member; RequestError(INVALID) if it is no `$share/<group>/<filter>`."""
        topics = share_filter(filter)
        check_filter(topics)
        queue = self.catalog.queues.get(filter)
        if queue is None:
            self.make(filter, topics, client.durable)
        elif client.durable and not queue.log.durable:
            self.make_durable(queue, topics, now_us)
        self.members.setdefault(filter, set()).add(int(client.number))

    def make(self, filter: bytes, topics: bytes, durable: bool) -> Queue:
        queue = self.catalog.add_queue(DeclareQueue(int(self.catalog.next_queue), filter, durable=durable, kind=SHARE))
        self.catalog.bind(filter, TOPIC_EXCHANGE, swap_key(topics), {})
        return queue

    def make_durable(self, old: Queue, topics: bytes, now_us: i64) -> None:
        """Put a durable queue in the place of one in memory; the members' sessions consume from it anew.

        What is ready goes along; what is leased is settled or lost with its connection, as it would have been.
        """
        old.log.seal(old.log.stamp_us)
        ready: list[tuple[int, int]] = []
        for group in old.groups.values():
            if isinstance(group, WorkGroup):
                order = group.ready_queue.order
                ready = sorted(group.ready_queue.returned if order is None else order.take_all())
                ready.append((int(group.settlement.cursor), int(old.log.end - group.settlement.cursor)))
        if not old.groups:
            ready = [(int(old.log.start), int(old.log.end - old.log.start))]
        records: list[tuple[Block, int]] = []  # held here, as a log forgets them with its queue
        for first, count in ready:
            for offset in range(first, first + count):
                block = old.log.block(offset)
                assert block is not None
                records.append((block, int(offset - block.base)))
        self.catalog.remove_queue(old)
        queue = self.make(old.name, topics, True)
        for block, at in records:
            index: i64 = at
            queue.log.append_annotated(
                block.data[block.formats_at + index],
                block.exchange(index),
                block.routing_key(index),
                properties_at(block, index, now_us),
                block.body(index),
                block.annotations(index),
            )

    def leave(self, filter: bytes, number: i64) -> None:
        """Remove a session from a shared subscription. Removes the subscription with its last member."""
        members = self.members.get(filter)
        if members is None:
            return
        members.discard(int(number))
        queue = self.catalog.queues.get(filter)
        if not members:
            del self.members[filter]
            if queue is not None:
                self.catalog.remove_queue(queue)

    def recovered(self, clients: list[ClientSession], now_us: i64) -> None:
        """Find the members again; a queue without one goes."""
        for client in clients:
            for filter in client.subscriptions:
                if filter.startswith(SHARE_PREFIX):
                    self.join(filter, client, now_us)
        for queue in list(self.catalog.queues.values()):
            if queue.kind == SHARE and queue.name not in self.members:
                # As if the log had said so: the checkpoint of this start does, and before it nothing can be noted.
                self.catalog.apply(RemoveQueue(int(queue.id)))

    def equip(self, group: WorkGroup) -> None:
        """Have the group pick members by the strategy."""
        group.share_by(self.strategy)


def share_filter(filter: bytes) -> bytes:
    """Return the topic filter in `$share/<group>/<filter>`. Raises RequestError(INVALID) [MQTT-4.8.2-1, -2]."""
    cut = filter.find(b"/", len(SHARE_PREFIX))
    name = filter[len(SHARE_PREFIX) : cut] if cut >= 0 else b""
    if not name or b"+" in name or b"#" in name or cut + 1 == len(filter):
        raise RequestError(
            INVALID, f"shared subscription '{filter.decode('utf-8', 'replace')}': not $share/NAME/FILTER"
        )
    return filter[cut + 1 :]
