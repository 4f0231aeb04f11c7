"""Connections that nobody uses just now, kept for whoever next connects the same way.

A Python worker of Spark runs many tasks, one after the other: connecting and logging in for each would cost as much as
a small micro-batch.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from forebay.client.blocks import BlockClient
    from forebay.spark.access import Access

IDLE_MAX: Final = 8

Client = TypeVar("Client", bound="BlockClient")


class IdleConnections(Generic[Client]):
    """The idle connections of one process, of any thread.

    most  as many are kept: brokers go and secrets change, and nobody would ever ask for the old ones again
    """

    def __init__(self, most: int = IDLE_MAX) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._kept: list[tuple[Access, Client]] = []  # what was left last is at the end

    def take(self, access: Access) -> Client | None:
        """The connection that was left last, which may have broken since; None where there is none."""
        with self._lock:
            for at in reversed(range(len(self._kept))):
                if self._kept[at][0] == access:
                    return self._kept.pop(at)[1]
        return None

    def leave(self, access: Access, client: Client) -> None:
        """Keep a connection that works. The one that was left first is closed where there are too many."""
        with self._lock:
            self._kept.append((access, client))
            first = self._kept.pop(0)[1] if len(self._kept) > self.most else None
        if first is not None:
            first.close()

    def close(self, access: Access) -> None:
        """Close those to a broker that has gone."""
        while (client := self.take(access)) is not None:
            client.close()
