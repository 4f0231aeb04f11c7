"""Back-pressure: whom the broker does not read for now, why, and for how long.

Too much in hand, too little memory or too little disk concern every publisher: none is read until that is over. A queue
or a vhost over its share concerns only those who publish there: each is read once a second, which slows it down to next
to nothing, and still lets in the acknowledgement that it may have sent behind its publishes. What others send is read
all the time: acknowledgements above all make room.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from forebay.broker.limits.quota import Quota
from forebay.broker.mqtt.client_session import ClientSession
from forebay.core.options import Options
from forebay.log.store import Store
from forebay.node.back_pressure.disk_answer import DiskAnswer
from forebay.node.back_pressure.held_publishers import HeldPublishers
from forebay.node.back_pressure.reading import Reading
from forebay.node.back_pressure.send_buffers import SendBuffers
from forebay.node.link import CHOKED, Link
from forebay.node.telemetry.journal import Journal
from forebay.node.telemetry.losses import tell_losses, tell_quotas
from forebay.queue.queue import Queue

PENDING_OCTETS_MAX: Final = 64 << 20  # accepted but not yet on disk: beyond it publishers are not read
MEMORY: Final = "memory"
DISK: Final = "disk"
LOW_ON_MEMORY: Final = "low on memory"  # RabbitMQ's words
LOW_ON_DISK: Final = "low on disk"
NO_ANSWER: Final = "waiting for the disk, which does not answer"
MICROSECONDS_MS: Final = 1000


class Pressure:
    """The resources of which the broker has too much in use or too little left.

    options      those in force; replaced when they are reloaded
    connections  those with a session, by its number; the node's own
    is_crowded   publishers are not read, as of the end of the last turn: asking at each read would cost more
    choked       connections that are not read
    held_publishers  others that are not read, for a moment and without being told
    slowed       those that were told to stop because of a queue
    slow         connections that do not take what they are sent, and since when in microseconds
    ended_slow   how many of those the broker has ended
    disk_answer  whether the disk answers
    """

    def __init__(
        self,
        options: Options,
        store: Store,
        shares: Quota,
        connections: dict[int, Link],
        journal: Journal,
        reading: Reading,
    ) -> None:
        self.options = options
        self.store = store
        self.shares = shares
        self.common = shares.common
        self.connections = connections
        self.journal = journal
        self.reading = reading
        self.held_publishers = HeldPublishers(shares.common.crowding, reading)
        self.is_crowded = False
        self.choked: dict[Link, None] = {}
        self.slowed: dict[Link, Queue] = {}
        self.slow: dict[Link, int] = {}
        self.buffers = SendBuffers(options)
        self.disk_answer = DiskAnswer(options, store, journal)
        self.ended_slow = 0
        self.over_memory = False
        self.low_disk = False
        self.told_full = False
        self.told_lack = False

    # ---- what there is too much of

    def over_limit(self) -> bool:
        """True if nobody who publishes is read: too much is not on the disk yet, or there is no room for more."""
        return self.over_memory or self.low_disk or self.store.pending() > PENDING_OCTETS_MAX

    def alarms(self) -> list[str]:
        """The resources of which there is too little: MEMORY, DISK."""
        found = [MEMORY] if self.over_memory else []
        if self.low_disk or self.store.full or self.store.no_answer:
            found.append(DISK)
        return found

    def lack(self) -> str:
        """The resources that lack to take in more, in RabbitMQ's words; empty where none does."""
        if self.over_memory:
            return LOW_ON_MEMORY
        if self.low_disk or self.store.full:
            return LOW_ON_DISK
        return NO_ANSWER if self.store.no_answer else ""

    def end_turn(self) -> None:
        """Look at what this turn has brought in."""
        self.is_crowded = self.over_limit()
        self.held_publishers.end_turn()
        if self.buffers.is_tight:
            self.buffers.look()

    def written(self) -> None:
        """The disk has taken something."""
        if self.choked and not self.over_limit():
            self.release([each for each in self.choked if each not in self.slowed])

    # ---- who is not read

    def check(self, connection: Link) -> None:
        """Read no more, for now, of a connection that publishes while there is too much already."""
        if connection not in self.choked and connection.session is not None and connection.session.is_publisher():
            self.choke(connection, self.lack())

    def slow_down(self, connection: Link, pressing: Queue | ClientSession) -> None:
        """Read no more, for now, of a connection that has published to a queue or session that is over its share."""
        if isinstance(pressing, ClientSession):
            self.held_publishers.hold(connection, pressing)
        elif connection not in self.choked:
            self.slowed[connection] = pressing
            self.choke(connection, self.shares.reason(pressing))

    def choke(self, connection: Link, reason: str) -> None:
        session = connection.session
        assert session is not None
        self.reading.hold(connection, CHOKED)
        self.choked[connection] = None
        connection.attempt_with(session.blocked, reason)

    def release(self, connections: Iterable[Link]) -> None:
        """Read these again; one that goes on publishing where there is too much is choked again."""
        for connection in connections:
            del self.choked[connection]
            self.reading.let(connection, CHOKED)

    def forget(self, connection: Link) -> None:
        """The connection is gone."""
        self.choked.pop(connection, None)
        self.held_publishers.forget(connection)
        self.slowed.pop(connection, None)
        self.slow.pop(connection, None)
        self.buffers.forget(connection)

    # ---- who does not read

    def paused(self, connection: Link, paused: bool, now_us: int) -> None:
        """The connection takes no more of what it is sent, or takes it again."""
        if paused:
            self.slow.setdefault(connection, now_us)
        else:
            self.slow.pop(connection, None)
            self.buffers.released(connection)

    def end_slow(self, now_us: int) -> None:
        """End connections that have not read for too long, and where too much waits for all of them, the worst.

        What they held returns to its queues; what was settled as it was sent, QoS 0 above all, does not.
        """
        limit_us = self.options.slow_reader_timeout_ms * MICROSECONDS_MS
        waiting: list[tuple[int, Link]] = []
        for connection, since_us in list(self.slow.items()):
            if connection.closing:
                continue
            if limit_us and now_us - since_us > limit_us:
                self.end(connection, f"it has not read for {limit_us // 1_000_000} s")
            else:
                waiting.append((connection.waiting_octets(), connection))
        total = sum([octets for octets, _ in waiting])
        most = self.options.send_buffers_octets_max
        waiting.sort(key=itemgetter(0))
        while total > most and waiting:
            octets, connection = waiting.pop()
            total -= octets
            self.end(connection, f"{octets} octets wait for it, and for all together more than {most}")

    def end(self, connection: Link, why: str) -> None:
        self.journal.warning("connection from %s ended: %s%s", connection.peer, why, connection.named())
        self.ended_slow += 1
        self.slow.pop(connection, None)
        connection.node.cut(connection)

    # ---- time

    def tick(self, asked_us: int, now_us: int) -> None:
        """Several times a second: whom a client holds, and whether the disk answers (see `DiskAnswer.look`).

        While it does not, publishers are told, and read as long as there is not too much in hand.
        """
        self.held_publishers.tick()
        if self.disk_answer.look(asked_us, now_us):
            self.tell_lack(self.connections.values())

    def every_second(self, memory_octets: int, free_octets: int, now_us: int) -> None:
        """Look at memory, disk, queues and readers; tell publishers what has changed.

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
        self.end_slow(now_us)
        tell_losses(self.shares.vhosts, self.journal, now_us)
        tell_quotas(self.shares.vhosts, self.journal)
        if self.choked and not self.over_limit():
            self.release(list(self.choked))

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
        """Say once when the disk is full, and once when it no longer is."""
        if self.store.full == self.told_full:
            return
        self.told_full = self.store.full
        root = self.store.disk.path("")
        if self.store.full:
            self.journal.error("no room on the disk of %s: publishes are refused until there is", root)
        else:
            self.journal.info("there is room on the disk of %s again", root)

    def tell_slowed(self) -> None:
        """Let those go on whose queue is no longer over its share."""
        for connection, queue in list(self.slowed.items()):
            if queue.crowded:
                continue
            del self.slowed[connection]
            if connection.session is not None:
                connection.attempt_with(connection.session.blocked, self.lack())
                connection.node.touch(connection)

    def tell_lack(self, connections: Iterable[Link]) -> None:
        """Let publishers know once that nothing is taken in, and once that it is again."""
        lack = self.lack()
        if not lack and not self.told_lack:
            return
        self.told_lack = bool(lack)
        for connection in list(connections):
            if connection.session is not None:
                connection.attempt_with(connection.session.blocked, lack)
                connection.node.touch(connection)
