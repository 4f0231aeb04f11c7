"""The notifications that wait for an observer: the newest message of each topic."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from forebay.server.net import Connection
from forebay.server.transport.coap_traffic import DROPPED, REPLACED, CoapTraffic
from forebay.session.coap import END, HEAD_OCTETS, LENGTHS_OCTETS

TOPICS_MAX: Final = 100  # of which one observer may have a message waiting
OVERHEAD_OCTETS: Final = 200  # memory of one waiting message, beside its octets


class Notification:
    """The content of one notification.

    is_last  the observation ends with it, and `body` is the reason
    """

    __slots__ = ("body", "content_type", "is_last", "octets")

    def __init__(self, content_type: bytes, body: bytes, is_last: bool) -> None:
        self.content_type = content_type
        self.body = body
        self.is_last = is_last
        self.octets = len(body) + len(content_type) + OVERHEAD_OCTETS


class NotificationTransport(asyncio.Transport):
    """Stands in for a connection's socket; the observation takes the notifications out of it.

    A message that waits gives way to a newer one of its topic, so that the session is never held back.

    address  of the listener
    waiting  by topic, the one that has waited longest first
    """

    def __init__(self, connection: Connection, traffic: CoapTraffic, memory_max: int, address: tuple[str, int]) -> None:
        super().__init__(extra={"sockname": address})
        self.connection = connection
        self.traffic = traffic
        self.memory_max = memory_max
        self.waiting: OrderedDict[bytes, Notification] = OrderedDict()
        self._data = b""
        self._closing = False
        self._ready = asyncio.Event()

    # ---- what the connection does

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: what waits is bounded by newer messages that replace older ones."""

    def get_write_buffer_size(self) -> int:
        return len(self._data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        data = self._data + bytes(data) if self._data else bytes(data)
        at = 0
        while len(data) - at >= HEAD_OCTETS:
            end = at + HEAD_OCTETS + int.from_bytes(data[at : at + HEAD_OCTETS], "big")
            if end > len(data):
                break
            self._add(data[at + HEAD_OCTETS : end])
            at = end
        self._data = data[at:]

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:  # which others may have as well
            self.write(data)

    def _add(self, content: bytes) -> None:
        """Queue a notification, in place of an older one of its topic."""
        topic_octets = int.from_bytes(content[:2], "big")
        type_octets = int.from_bytes(content[2:LENGTHS_OCTETS], "big")
        at = LENGTHS_OCTETS + topic_octets
        topic = content[LENGTHS_OCTETS:at]
        if type_octets == END:
            self._put(b"", Notification(b"", content[at:], is_last=True))
            return
        made = Notification(content[at : at + type_octets], content[at + type_octets :], is_last=False)
        older = self.waiting.get(topic)
        if older is not None:
            self._drop(older, REPLACED)
        elif len(self.waiting) == TOPICS_MAX:
            self._drop(self.waiting.popitem(last=False)[1], DROPPED)
        if self.traffic.take(made.octets, self.memory_max):
            self._put(topic, made)
            return
        self.traffic.notifications[DROPPED] += 1
        self.waiting.pop(topic, None)

    def _put(self, topic: bytes, made: Notification) -> None:
        self.waiting[topic] = made
        self._ready.set()

    def _drop(self, older: Notification, outcome: str) -> None:
        self.traffic.give_back(older.octets)
        self.traffic.notifications[outcome] += 1

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Take nothing more; what waits is still taken."""
        self._closing = True
        self._ready.set()

    def abort(self) -> None:
        """Take nothing more, and forget what waits."""
        for each in self.waiting.values():
            if not each.is_last:
                self.traffic.give_back(each.octets)
        self.waiting.clear()
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        """Do nothing: nothing is read here."""

    def resume_reading(self) -> None:
        """Do nothing: nothing is read here."""

    # ---- what the observation does

    async def take(self) -> Notification | None:
        """Return the message that has waited longest, as soon as there is one; None at the end.

        Its memory is the caller's to give back, unless it is the last.
        """
        await self._ready.wait()
        if not self.waiting:
            return None
        _, found = self.waiting.popitem(last=False)
        if not self.waiting and not self._closing:
            self._ready.clear()
        return found
