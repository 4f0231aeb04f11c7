"""Connections that are read or have to wait: for their turn, an answer, or for less of what is too much."""

from __future__ import annotations

from typing import final

from forebay.node.link import NEXT_TURN, PUT_OFF, UNREAD, Link


@final
class Reading:
    """The connections that are not read, by `Link.holds`.

    changed  connections that are to be read again, or no longer; as often as that came
    put_off  how often a read held more than one turn is for
    """

    def __init__(self) -> None:
        self.changed: list[Link] = []
        self.put_off = 0
        self._resting: list[Link] = []
        self._now: list[Link] = []  # to go on with what they have sent when the next turn begins
        self._next: list[Link] = []
        self._turns = 0  # in which some had to go on

    def hold(self, link: Link, why: int) -> None:
        """Read nothing more of this connection for now."""
        if not link.holds:
            self.changed.append(link)
        link.holds |= why
        if why & UNREAD and link.session is not None:
            link.session.unread = True

    def let(self, link: Link, why: int) -> None:
        """This is no reason any more not to read the connection."""
        if not link.holds & why:
            return
        link.holds &= ~why
        if not link.holds:
            self.changed.append(link)
        if why & UNREAD and not link.holds & UNREAD and link.session is not None:
            link.session.unread = False

    def let_all(self, link: Link) -> None:
        """Read a connection again, whatever the reasons against it were."""
        self.let(link, link.holds)

    def rest(self, link: Link) -> None:
        """Read nothing more of this connection before the turn is over."""
        self.hold(link, NEXT_TURN)
        self._resting.append(link)

    def defer(self, link: Link) -> None:
        """Let others have their turn first; the next goes on with what this connection has sent."""
        self.put_off += 1
        self.hold(link, PUT_OFF)
        self._next.append(link)

    def begin_turn(self) -> list[Link]:
        """The connections that go on now: another one first in each turn, as there may not be enough for all."""
        if not self._now:
            return self._now
        self._turns += 1
        first = self._turns % len(self._now)
        going_on, self._now = self._now[first:] + self._now[:first], []
        for link in going_on:
            self.let(link, PUT_OFF)
        return going_on

    def end_turn(self) -> bool:
        """Let those be read that had to wait for the turn; whether the next one is due for others."""
        if self._resting:
            resting, self._resting = self._resting, []
            for link in resting:
                self.let(link, NEXT_TURN)
        if self._next:
            self._now += self._next
            self._next = []
        return bool(self._now)
