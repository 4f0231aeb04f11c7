"""The table of connections that are held: each with its reason, since when, and until when.

    source                        reasons                             ends
    Pressure                      memory_alarm, disk_…, queue_share   once there is room again
    Pressure, for `Crowding`      slow_subscriber, session_quota      once the session keeps up, or is given up
    Rates                         rate_limit                          at a time known before
    Meter, Pace, WorkBudget       turn_work, consumers_wait, …        with the next turn
    SendBuffers                   send_backlog, send_buffer, …        once clients have read
    NodeLogins                    login                               with the answer

Sources write an entry when they hold a connection and delete it when they release it. Whoever reads sockets asks
`Link.holds` alone, which is 0 unless the table has a reason against reading.
"""

from __future__ import annotations

from typing import final

from forebay.broker.limits.hold_reasons import COUNT, NEXT_TURN, PUT_OFF, SEND_BACKLOG, SEND_BUFFER, UNREAD
from forebay.broker.mqtt.client_session import ClientSession
from forebay.core.ports import Clock
from forebay.node.link import Link
from forebay.queue.queue import Queue

HeldFor = Queue | ClientSession | None


@final
class Hold:
    """An entry of the table: one reason for which a connection is held.

    reason    of `hold_reasons`
    held_for  the queue or MQTT session that cannot take what the client publishes; None for other reasons
    since_us  by the node's clock, which never goes back
    until_us  0 if the end depends on others
    """

    def __init__(self, reason: int, held_for: HeldFor, since_us: int, until_us: int) -> None:
        self.reason = reason
        self.held_for = held_for
        self.since_us = since_us
        self.until_us = until_us

    def ends_us(self) -> int:
        """Return the time at which the connection is released at the latest; 0 if that is unknown."""
        client = self.held_for
        return int(client.crowded_until_us) if isinstance(client, ClientSession) else self.until_us


@final
class FlowControl:
    """The connections of a node that are held.

    held     the entries, by reason and connection
    changed  connections to be read again, or no longer; as often as that came
    put_off  how often a read held more than one turn is for
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.held: list[dict[Link, Hold]] = [{} for _ in range(COUNT)]
        self.changed: list[Link] = []
        self.put_off = 0
        self._now: list[Link] = []  # to go on with what they have sent when the next turn begins
        self._next: list[Link] = []
        self._turns = 0  # in which some had to go on

    # ---- entries

    def hold(self, link: Link, reason: int, held_for: HeldFor = None, until_us: int = 0) -> None:
        """Hold a connection. An entry that is there already keeps its time."""
        entries = self.held[reason]
        entry = entries.get(link)
        if entry is None:
            entries[link] = Hold(reason, held_for, self.clock.now_us(), until_us)
        else:
            entry.held_for = held_for
        if reason < SEND_BUFFER:
            self._stop_reading(link, 1 << reason)

    def release(self, link: Link, reason: int) -> None:
        """Delete an entry, if there is one, and read the connection unless another reason is against it."""
        if self.held[reason].pop(link, None) is not None and reason < SEND_BUFFER:
            self._read(link, 1 << reason)

    def release_all(self, link: Link) -> None:
        """Read a connection again, whatever the reasons against it were."""
        for reason in range(SEND_BUFFER):
            self.release(link, reason)

    def read_once(self, link: Link, reason: int) -> None:
        """Read a connection until it is held again for the same reason; its entry stays."""
        self._read(link, 1 << reason)

    def change(self, link: Link, reason: int, another: int) -> None:
        """Replace the reason of an entry, if there is one, by another reason for which a connection is not read."""
        entry = self.held[reason].pop(link, None)
        if entry is None:
            return
        entry.reason = another
        self.held[another][link] = entry
        if link.holds & 1 << reason:
            link.holds ^= 1 << reason | 1 << another

    def forget(self, link: Link) -> None:
        """Delete all entries of a connection that takes part in nothing any more."""
        for entries in self.held:
            if entries:
                entries.pop(link, None)
        link.holds = 0

    def entries_of(self, link: Link) -> list[Hold]:
        """Return all entries of one connection, in the order of the reasons."""
        return [entries[link] for entries in self.held if link in entries]

    def _stop_reading(self, link: Link, bit: int) -> None:
        if not link.holds:
            self.changed.append(link)
        link.holds |= bit
        if bit & UNREAD and link.session is not None:
            link.session.unread = True

    def _read(self, link: Link, bit: int) -> None:
        if not link.holds & bit:
            return
        link.holds &= ~bit
        if not link.holds:
            self.changed.append(link)
        if bit & UNREAD and not link.holds & UNREAD and link.session is not None:
            link.session.unread = False

    # ---- until the next turn

    def defer(self, link: Link, reason: int) -> None:
        """Hold a connection until the next turn, so that other connections have this one."""
        self.put_off += 1
        self.hold(link, reason)
        self._next.append(link)

    def begin_turn(self) -> list[Link]:
        """Return the connections that go on now: another one first in each turn, as there may not be enough for all."""
        if not self._now:
            return self._now
        self._turns += 1
        first = self._turns % len(self._now)
        going_on, self._now = self._now[first:] + self._now[:first], []
        for link in going_on:
            if link.holds & PUT_OFF:
                for reason in NEXT_TURN:
                    self.release(link, reason)
        return going_on

    def end_turn(self) -> bool:
        """Read those again that had to wait for the turn. Return whether the next turn is due for others."""
        if self.held[SEND_BACKLOG]:
            for link in list(self.held[SEND_BACKLOG]):
                self.release(link, SEND_BACKLOG)
        if self._next:
            self._now += self._next
            self._next = []
        return bool(self._now)
