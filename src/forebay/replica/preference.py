"""The preferred leader: leadership is handed over to it once it could have led well for a while.

A node that has just come back may go away again, and each change of leader disconnects clients. The preferred node must
therefore be in sync and keep up for `preferred_us` without a break, and the leader must have led for as long.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.replica.leader.leading import Leading
from forebay.replica.settings import ReplicaSettings


@final
class Preference:
    """The preference of one group.

    since  time since which the preferred node could lead; -1 if it cannot
    """

    def __init__(self, settings: ReplicaSettings) -> None:
        self.settings = settings
        self.since: i64 = -1

    def is_due(self, leading: Leading, avoided: set[str], now: i64) -> bool:
        """Return whether this leader should hand over to the preferred one now."""
        if not self.settings.preferred or self.settings.preferred in avoided or not self.keeps_up(leading, now):
            self.since = -1
            return False
        if self.since < leading.followers.began:
            self.since = now
        return now - self.since >= self.settings.preferred_us and leading.changes.pending is None

    def keeps_up(self, leading: Leading, now: i64) -> bool:
        """Return whether the preferred node is in sync, answers, and lacks next to no frames."""
        followers = leading.followers
        entry = followers.entry(self.settings.preferred)
        if entry not in leading.in_sync.stores or not followers.is_alive(entry, now):
            return False
        got = followers.got(entry)
        return got >= leading.barrier and followers.lag_us(got, now) <= self.settings.heartbeat_us
