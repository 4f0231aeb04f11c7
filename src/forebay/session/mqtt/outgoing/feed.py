"""Retained messages on their way to the new subscriptions of one MQTT connection.

They are read and given as the client's window has places, so that a wide filter fills neither memory nor the message
queue. What is replaced before its turn comes is not given: the newer message comes by itself.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import ClientSession

RECORDS_MAX: Final = 256  # given in one turn to one client whose window sets no limit


@final
class Feed:
    """The records that one subscription has yet to be given, by number."""

    def __init__(self, filter: bytes, qos: i64, identifier: i64, numbers: list[int]) -> None:
        self.filter = filter
        self.qos: i64 = qos
        self.identifier: i64 = identifier
        self.numbers = numbers
        self.next: i64 = 0


@final
class Feeder:
    """The feeds of one connection, one after the other.

    given  messages in this turn: they have taken their places in the window, or are about to
    """

    def __init__(self, vhost: VhostContract) -> None:
        self.vhost = vhost
        self.feeds: deque[Feed] | None = None
        self.given: i64 = 0

    def add(self, feed: Feed) -> None:
        if self.feeds is None:
            self.feeds = deque()
        self.feeds.append(feed)

    def give(self, client: ClientSession, places: i64) -> None:
        """Publish retained messages to this client, for so many places in its window."""
        feeds = self.feeds
        if feeds is None:
            return
        room = min(places, i64(RECORDS_MAX)) - self.given
        vhost = self.vhost
        while feeds and room > 0:
            feed = feeds[0]
            if feed.next >= i64(len(feed.numbers)):
                feeds.popleft()
                continue
            message = vhost.mqtt_clients.retained_message(feed.numbers[feed.next])
            feed.next += 1
            if message is not None:
                vhost.mqtt_clients.give_retained(client, feed.qos, feed.identifier, message)
                self.given += 1
                room -= 1
        if not feeds:
            self.feeds = None

    def stop(self, filter: bytes) -> None:
        """A subscription has ended: nothing more for it."""
        if self.feeds is not None:
            self.feeds = deque([feed for feed in self.feeds if feed.filter != filter]) or None
