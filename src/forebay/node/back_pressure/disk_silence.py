"""The silence of a member's own disk: while a sync does not return, a leader hands over, and nobody relies on it."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import RequestError
from forebay.core.units import US_PER_MS
from forebay.node.group.group_member import GroupMember

AGAIN_US: Final = 100 * US_PER_MS  # between two attempts to hand over


class DiskSilence:
    """The silence of one member's disk, for which a leader hands over.

    limit_us  a leader whose own write or sync has not returned for so long hands over
    since_us  since when this process has looked, without a pause, at what the disk has not answered: for `seen_us`
    tried_us  time of the last attempt to hand over
    """

    def __init__(self, group: GroupMember, limit_us: int) -> None:
        self.group = group
        self.limit_us = limit_us
        self.since_us = 0
        self.seen_us = 0
        self.tried_us = 0

    def waited_us(self) -> int:
        """Return for how many microseconds a write or sync of frames has been running; 0 if none is."""
        store = self.group.store
        return store.clock.now_us() - store.given_us if store.commit_running is not None else 0

    def is_silent(self) -> bool:
        """Return whether a write or sync of frames has been running for too long, as far as this process could see."""
        return self.group.store.commit_running is not None and self.seen_us >= self.limit_us

    def look(self, leads: bool, now: int) -> str:
        """Hand leadership over if this leader's disk is silent. Return a log line, or "". Call with each tick."""
        replica = self.group.replica
        if self.group.store.commit_running is None or replica.standing.has_paused(now):
            self.since_us = now
        elif self.waited_us() < now - self.since_us:
            self.since_us = now - max(0, self.waited_us())  # another commit has begun since
        self.seen_us = now - self.since_us
        is_silent = replica.standing.is_stalled = self.is_silent()
        if not is_silent or not leads or now - self.tried_us < AGAIN_US or replica.changes.pending is not None:
            return ""
        self.tried_us = now
        words = f"the own disk has not answered for {self.seen_us // US_PER_MS} ms"
        try:
            replica.drain(now)
        except RequestError as error:
            return f"{words}, and nobody can take over: {error.text}"
        return f"{words}: another member takes over"
