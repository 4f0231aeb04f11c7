"""Retention pins of a stream: what it has not read yet stays, whatever retention and other consumers do.

Renewed by a thread with a connection of its own: a batch may take longer than a pin lives. Nothing releases them: a
query that ends or dies leaves them for their time, so that it finds everything when it is started again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from forebay.core.errors import ForebayError, RequestError
from forebay.spark.access import Access
from forebay.spark.reading.logs import RemoteLogs

LOGGER = logging.getLogger("forebay.spark")


class PinKeeper:
    """Keeps a stream's pins alive for as long as the process runs.

    ttl_s  how long they outlive it
    """

    def __init__(self, access: Access, ttl_s: float) -> None:
        self.ttl_s = ttl_s
        self.logs = RemoteLogs(access)
        self.group = ""
        self.offsets: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.refused: set[str] = set()
        self.moved = threading.Event()
        self.thread: threading.Thread | None = None

    def move(self, group: str, offsets: Mapping[str, int]) -> None:
        """Pin these queues from these offsets on; returns at once but for the first time.

        Later the thread follows: until it does, more is held than has to be.
        """
        if offsets == self.offsets and group == self.group:
            return
        self.group = group
        self.offsets = dict(offsets)
        if self.thread is None:
            self.renew(self.offsets)
            self.thread = threading.Thread(target=self.keep, name="forebay-pins", daemon=True)
            self.thread.start()
        else:
            self.moved.set()

    def keep(self) -> None:
        """The thread."""
        while True:
            moved = self.moved.wait(self.ttl_s / 3)
            self.moved.clear()
            offsets = self.offsets
            changed = {queue: offset for queue, offset in offsets.items() if self.held.get(queue) != offset}
            try:
                self.renew(changed if moved else offsets)
            except ForebayError as error:
                LOGGER.warning("retention pins of %s are not renewed: %s", self.group, error)

    def renew(self, offsets: Mapping[str, int]) -> None:
        """Ask for the pins; of a queue that cannot be pinned the log says so once."""
        for queue, offset in offsets.items():
            try:
                self.logs.hold(queue, self.group, offset, self.ttl_s)
                self.held[queue] = offset
            except RequestError as error:
                if queue not in self.refused:
                    self.refused.add(queue)
                    LOGGER.warning("queue %r is read without a retention pin: %s", queue, error)
