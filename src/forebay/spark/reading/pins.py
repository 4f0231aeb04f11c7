"""Retention pins of a stream, which keep unread records in the broker despite retention and other consumers.

A thread with its own connection renews them, as a batch may take longer than a pin lives. Pins are never released
early: after a query ends or dies they live for their time, so that the query finds all records when it is restarted.
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
    """Renews a stream's retention pins for as long as the process runs.

    ttl_s  seconds for which the pins outlive the process
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
        """Pin these queues from these offsets on. Blocks only on the first call.

        Later calls leave it to the thread to move the pins; until then more records are pinned than needed.
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
        """Move and renew the pins forever. Runs in the thread."""
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
        """Set the pins in the broker. For a queue that cannot be pinned, log a warning once."""
        for queue, offset in offsets.items():
            try:
                self.logs.hold(queue, self.group, offset, self.ttl_s)
                self.held[queue] = offset
            except RequestError as error:
                if queue not in self.refused:
                    self.refused.add(queue)
                    LOGGER.warning("queue %r is read without a retention pin: %s", queue, error)
