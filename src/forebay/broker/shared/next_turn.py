"""The vhosts and connections that take part in the next turn, and the deletions that come before anything else."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.watch import Watch


@final
class NextTurn:
    """The participants of the next turn, beside connections that have received something.

    vhosts    numbers of vhosts in which something has changed, or may have
    sessions  of connections whose wait for a queue is over
    watches   of connections that wait until a queue has more
    now_us    when the turn before ended, or the last tick was
    """

    def __init__(self) -> None:
        self.now_us: i64 = 0
        self.vhosts: list[int] = []
        self.sessions: list[int] = []
        self.watches: list[Watch] = []

    def wake(self, watch: Watch) -> None:
        """Have a waiting connection take part: its queue has more, or its time is over."""
        if not watch.woken:
            watch.woken = True
            self.sessions.append(int(watch.session_id))

    def wake_overdue(self, now_us: i64) -> None:
        """Wake the connections that have waited for as long as they wanted to."""
        for watch in self.watches:
            if watch.until_us <= now_us:
                self.wake(watch)


@final
class Deletions:
    """Vhosts and users that were deleted.

    pending  connections that had to do with one of them are not ended yet
    """

    def __init__(self) -> None:
        self.pending = False
