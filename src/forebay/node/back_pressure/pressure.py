"""Back-pressure: whom the broker does not read for now, why, and for how long.

Too much in hand, too little memory or too little disk concern every publisher: none is read until that is over. A queue
or a vhost over its share concerns only those who publish there: each is read once a second, which slows it down to next
to nothing, and still lets in the acknowledgement that it may have sent behind its publishes. What others send is read
all the time: acknowledgements above all make room.

An MQTT session that does not keep up holds its publishers for a bounded time (broker/mqtt/crowding.py). One that
awaits acknowledgements itself is read a little all the time: they may stand behind its publishes, and two clients that
publish to each other must not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from forebay.broker.limits.hold_reasons import (
    CHOKED,
    DISK_ALARM,
    DISK_BEHIND,
    DISK_SILENT,
    FOR_SUBSCRIBER,
    MEMORY_ALARM,
    QUEUE_SHARE,
    RESOURCES,
    SESSION_QUOTA,
    SLOW_SUBSCRIBER,
)
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.crowding import Crowding
from forebay.broker.quota import Quota
from forebay.core.options import Options
from forebay.log.store import Store
from forebay.node.back_pressure.disk_answer import DiskAnswer
from forebay.node.back_pressure.flow_control import FlowControl
from forebay.node.back_pressure.send_buffers import SendBuffers
from forebay.node.link import Link
from forebay.node.telemetry.journal import Journal
from forebay.node.telemetry.losses import tell_losses, tell_quotas
from forebay.queue.queue import Queue

PENDING_OCTETS_MAX: Final = 64 << 20  # accepted but not yet on disk: beyond it publishers are not read
MEMORY: Final = "memory"
DISK: Final = "disk"
LOW_ON_MEMORY: Final = "low on memory"  # RabbitMQ's words
LOW_ON_DISK: Final = "low on disk"
NO_ANSWER: Final = "waiting for the disk, which does not answer"


class Pressure:
    """The resources of which the broker has too much in use or too little left.

    options      those in force; replaced when they are reloaded
    connections  those with a session, by its number; the node's own
    is_crowded   publishers are not read, as of the end of the last turn: asking at each read would cost more
    has_choked   connections may be held because of what the broker lacks
    flow         the table of connections that are held
    disk_answer  whether the disk answers
    """

    def __init__(
        self,
        options: Options,
        store: Store,
        shares: Quota,
        crowding: Crowding,
        connections: dict[int, Link],
        journal: Journal,
        flow: FlowControl,
    ) -> None:
        self.options = options
        self.store = store
        self.shares = shares
        self.connections = connections
        self.journal = journal
        self.crowding = crowding
        self.flow = flow
        self.is_crowded = False
        self.has_choked = False
        self.buffers = SendBuffers(options, flow, journal)
        self.disk_answer = DiskAnswer(options, store, journal)
        self.over_memory = False
        self.low_disk = False
        self.told_full = False
        self.told_lack = False

    # ---- what there is too much of

    def over_limit(self) -> bool:
        """Return whether no publisher may be read: memory or disk is low, or too much is not on the disk yet."""
        return self.over_memory or self.low_disk or self.store.pending() > PENDING_OCTETS_MAX

    def alarms(self) -> list[str]:
        """Return the resources that are short: MEMORY, DISK."""
        found = [MEMORY] if self.over_memory else []
        if self.low_disk or self.store.full or self.store.no_answer:
            found.append(DISK)
        return found

    def lack(self) -> str:
        """Return the resource that is short, in RabbitMQ's words. Returns "" if none is."""
        if self.over_memory:
            return LOW_ON_MEMORY
        if self.low_disk or self.store.full:
            return LOW_ON_DISK
        return NO_ANSWER if self.store.no_answer else ""

    def reason(self) -> int:
        """Return the reason for which no publisher is read. Call only while `over_limit`."""
        if self.over_memory:
            return MEMORY_ALARM
        if self.low_disk or self.store.full:
            return DISK_ALARM
        return DISK_SILENT if self.store.no_answer else DISK_BEHIND

    def end_turn(self) -> None:
        """Update whether publishers are held, and release those whose MQTT session keeps up again."""
        self.is_crowded = self.over_limit()
        if self.crowding.relieved:
            self.release_relieved()
        if self.buffers.is_tight:
            self.buffers.look()

    def written(self) -> None:
        """Release publishers held for a resource, as the disk has accepted a write and no limit is exceeded."""
        if self.has_choked and not self.over_limit():
            held = self.flow.held
            for reason in RESOURCES:
                for connection in list(held[reason]):
                    if connection not in held[QUEUE_SHARE]:
                        self.flow.release(connection, reason)

    # ---- who is not read

    def check(self, connection: Link) -> None:
        """Read no more, for now, of a connection that publishes while there is too much already."""
        session = connection.session
        if not connection.holds & CHOKED and session is not None and session.is_publisher():
            self.choke(connection)
            connection.attempt_with(session.blocked, self.lack())

    def slow_down(self, connection: Link, pressing: Queue | ClientSession) -> None:
        """Read no more, for now, of a connection that has published to a queue or session that is over its share."""
        if isinstance(pressing, ClientSession):
            self.hold_for_session(connection, pressing)
            return
        session = connection.session
        if session is not None and not connection.holds & CHOKED:
            self.flow.hold(connection, QUEUE_SHARE, pressing)
            connection.attempt_with(session.blocked, self.shares.reason(pressing))

    def choke(self, connection: Link) -> None:
        """Hold a publisher because the broker is short of a resource."""
        self.has_choked = True
        self.flow.hold(connection, self.reason())

    def hold_for_session(self, connection: Link, client: ClientSession) -> None:
        """Hold a publisher to an MQTT session that does not keep up. The publisher is not notified."""
        if client.crowded and connection.session is not None and not connection.holds & FOR_SUBSCRIBER:
            self.flow.hold(connection, reason_of(client), client)

    def release_relieved(self) -> None:
        """Release publishers whose MQTT session keeps up again, or is given up."""
        self.crowding.relieved = False
        for reason in (SLOW_SUBSCRIBER, SESSION_QUOTA):
            for connection, entry in list(self.flow.held[reason].items()):
                client = entry.held_for
                assert isinstance(client, ClientSession)
                if not client.crowded:
                    self.release_publisher(connection, reason)
                elif reason_of(client) != reason:
                    self.flow.change(connection, reason, reason_of(client))

    def release_publisher(self, connection: Link, reason: int) -> None:
        """Release a publisher that was held for an MQTT session, and go on with what it has sent."""
        self.flow.release(connection, reason)
        if not connection.closing:
            connection.go_on()

    def choked(self) -> int:
        """Return how many publishers are not read because of a resource or a queue."""
        held = self.flow.held
        told = [connection for connection in held[QUEUE_SHARE] if connection.holds & 1 << QUEUE_SHARE]
        return len(told) + sum([len(held[reason]) for reason in RESOURCES])

    def forget(self, connection: Link) -> None:
        """Remove a connection that is gone from flow control and send buffers."""
        self.flow.forget(connection)
        self.buffers.forget(connection)

    # ---- time

    def tick(self, asked_us: int, now_us: int) -> None:
        """Release publishers, and check the disk (see `DiskAnswer.look`). Call several times a second.

        While it does not, publishers are told, and read as long as there is not too much in hand.
        """
        held = self.flow.held
        if self.crowding.relieved or held[SLOW_SUBSCRIBER] or held[SESSION_QUOTA]:
            self.release_relieved()
            for reason in (SLOW_SUBSCRIBER, SESSION_QUOTA):
                for connection in list(held[reason]):
                    if connection.session is not None and connection.session.is_reader():
                        self.release_publisher(connection, reason)
        if self.disk_answer.look(asked_us, now_us):
            self.tell_lack(self.connections.values())

    def every_second(self, memory_octets: int, free_octets: int, now_us: int) -> None:
        """Check memory, disk, queues and slow readers, and notify publishers of changes.

        memory_octets  that the process has
        free_octets    that the disk of the data directory has left
        """
        self.look_at_memory(memory_octets)
        self.look_at_disk(free_octets)
        self.shares.look()
        self.store.look_for_room()
        self.tell_full()
        self.tell_lack(self.connections.values())
        self.tell_slowed()
        self.buffers.end_slow(now_us)
        tell_losses(self.shares.vhosts, self.journal, now_us)
        tell_quotas(self.shares.vhosts, self.journal)
        self.read_choked()

    def read_choked(self) -> None:
        """Release publishers held for a resource if no limit is exceeded, and read those held for a queue once."""
        self.has_choked = is_over = self.over_limit()
        reason = self.reason()
        for each in RESOURCES:
            for connection in list(self.flow.held[each]):
                if not is_over:
                    self.flow.release(connection, each)
                elif each != reason:
                    self.flow.change(connection, each, reason)
        if not is_over:
            for connection in self.flow.held[QUEUE_SHARE]:
                self.flow.read_once(connection, QUEUE_SHARE)

    def look_at_memory(self, resident: int) -> None:
        """Stop reading publishers before there is too little memory."""
        limit = self.options.memory_octets_max
        if (resident > limit) != self.over_memory:
            self.over_memory = resident > limit
            self.tell_state(self.over_memory, "%d octets of memory, memory_octets_max is %d: %s", resident, limit)

    def look_at_disk(self, free_octets: int) -> None:
        """Stop reading publishers before the disk is full."""
        limit = self.options.disk_free_min_octets
        if (free_octets < limit) != self.low_disk:
            self.low_disk = free_octets < limit
            self.tell_state(
                self.low_disk, "%d octets free on the disk, disk_free_min_octets is %d: %s", free_octets, limit
            )

    def tell_state(self, begins: bool, words: str, value: int, limit: int) -> None:
        state = "publishers are not read until that is over" if begins else "publishers are read again"
        self.journal.warning(words, value, limit, state)
        self.is_crowded = self.over_limit()

    def tell_full(self) -> None:
        """Log once when the disk is full, and once when it no longer is."""
        if self.store.full == self.told_full:
            return
        self.told_full = self.store.full
        root = self.store.disk.path("")
        if self.store.full:
            self.journal.error("no room on the disk of %s: publishes are refused until there is", root)
        else:
            self.journal.info("there is room on the disk of %s again", root)

    def tell_slowed(self) -> None:
        """Release publishers whose queue is no longer over its share."""
        for connection, entry in list(self.flow.held[QUEUE_SHARE].items()):
            queue = entry.held_for
            assert isinstance(queue, Queue)
            if queue.crowded:
                continue
            if connection.holds & 1 << QUEUE_SHARE and self.over_limit():
                self.choke(connection)
            self.flow.release(connection, QUEUE_SHARE)
            if connection.session is not None:
                connection.attempt_with(connection.session.blocked, self.lack())
                connection.broker.touch(connection)

    def tell_lack(self, connections: Iterable[Link]) -> None:
        """Notify publishers of a resource that is short, and once when none is any more."""
        lack = self.lack()
        if not lack and not self.told_lack:
            return
        self.told_lack = bool(lack)
        for connection in list(connections):
            if connection.session is not None:
                connection.attempt_with(connection.session.blocked, lack)
                connection.broker.touch(connection)


def reason_of(client: ClientSession) -> int:
    """Return the reason for which publishers to a crowded MQTT session are held."""
    return SESSION_QUOTA if client.over_quota else SLOW_SUBSCRIBER
