"""What of the log the queues still want, asked by the store's housekeeping."""

from __future__ import annotations

from forebay.broker.vhosts import Vhosts
from forebay.log.housekeeping import Liveness


class Wanted(Liveness):
    """The answer of every vhost."""

    def __init__(self, vhosts: Vhosts) -> None:
        self.vhosts = vhosts

    def live(self, queue: int, first: int, end: int) -> list[tuple[int, int]]:
        return self.vhosts.live(queue, first, end)
