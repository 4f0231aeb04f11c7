"""Connections whose clients have not logged in: few places and little memory, for all of them together.

Nobody knows who they are, so that they must not take the places of those who are known. Where there are too many, or
too much of their unfinished packets waits, the oldest one ends. A connection that has just come is left alone while
the broker has places: after a restart all clients come at one time, and need a moment to log in.
"""

from __future__ import annotations

from typing import Final

from forebay.core.options import Options
from forebay.node.link import Link
from forebay.node.telemetry.journal import Journal

GRACE_US: Final = 2_000_000
# Why a connection was ended, as metrics name it.
PLACES: Final = "places"
MEMORY: Final = "memory"


class Newcomers:
    """The connections of a node that have not logged in.

    open    all connections of the node; its own
    links   the octets of an unfinished packet by connection, in the order in which they came
    octets  of all of them
    ended   connections that were ended for others, by why
    """

    def __init__(self, options: Options, journal: Journal, open: dict[Link, None]) -> None:
        self.options = options
        self.journal = journal
        self.open = open
        self.links: dict[Link, int] = {}
        self.octets = 0
        self.ended = {PLACES: 0, MEMORY: 0}
        self._logged = 0

    def add(self, link: Link) -> None:
        """Add a new connection to those without a login."""
        self.links[link] = 0
        link.is_new = True

    def forget(self, link: Link) -> None:
        """Remove a connection whose client has logged in, or that is gone."""
        link.is_new = False
        self.octets -= self.links.pop(link, 0)

    def make_room(self, is_full: bool, now_us: int) -> bool:
        """Return whether there is a place for one more connection, for which the oldest one may have to go.

        is_full  the broker has as many connections as it may have
        """
        if not is_full and len(self.links) < self.options.connections_login_max:
            return True
        for link in self.links:
            if not is_full and now_us - link.opened_us < GRACE_US:
                return True
            if not link.is_proving():
                self.end(link, PLACES)
                return True
        return not is_full

    def note(self, link: Link, octets: int) -> None:
        """Record the bytes of a connection's unfinished packet. End the oldest of these if their total is too much."""
        if link not in self.links:
            return
        self.octets += octets - self.links[link]
        self.links[link] = octets
        most = self.options.login_buffers_octets_max
        if self.octets <= most:
            return
        for each in [each for each, held in self.links.items() if held]:
            self.end(each, MEMORY)
            if self.octets <= most:
                return

    def end(self, link: Link, why: str) -> None:
        """End a connection for others."""
        self.ended[why] += 1
        self.forget(link)
        link.rest = b""
        link.parts = None
        self.open.pop(link, None)
        link.broker.cut(link)

    def every_second(self) -> None:
        """Log the number of connections that were ended for newer ones since the last call."""
        ended = sum(self.ended.values())
        if ended > self._logged:
            words = "%d connections that had not logged in were ended for newer ones: connections_login_max is %d, "
            words += "login_buffers_octets_max %d"
            options = self.options
            self.journal.warning(
                words, ended - self._logged, options.connections_login_max, options.login_buffers_octets_max
            )
            self._logged = ended
