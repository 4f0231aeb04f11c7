"""A pool of idle connections to brokers, reused by the next task that connects with the same settings.

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
    """The pool of idle connections of one process. Safe to use from any thread.

    most  how many connections are kept. The bound matters as brokers go and secrets change: nobody would reuse the
      connections made with the old ones.
    """

    def __init__(self, most: int = IDLE_MAX) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._kept: list[tuple[Access, Client]] = []  # the most recently returned connection is last

    def take(self, access: Access) -> Client | None:
        """Remove and return the connection that was returned to the pool last, or None if there is none for `access`.

        The connection may have broken while it was idle.
        """
        with self._lock:
            for at in reversed(range(len(self._kept))):
                if self._kept[at][0] == access:
                    return self._kept.pop(at)[1]
        return None

    def leave(self, access: Access, client: Client) -> None:
        """Return a working connection to the pool. If the pool is full, close the oldest one."""
        with self._lock:
            self._kept.append((access, client))
            first = self._kept.pop(0)[1] if len(self._kept) > self.most else None
        if first is not None:
            first.close()

    def close(self, access: Access) -> None:
        """Close all idle connections made with `access`; call this when its broker has gone."""
        while (client := self.take(access)) is not None:
            client.close()
