"""A follower's suspicion of its leader, and its takeover.

A refused connection means that the leader is dead at once, if the attempt began after the leader's last message. A
reset proves nothing. Silence means that the leader is dead after a while. The member that first takes over in the
register leads. Ranks only save vain attempts.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from forebay.replica.changes import Changes
from forebay.replica.register import TAKE_OVER, View
from forebay.replica.standing import FOLLOWS, Standing

NEVER: Final = -(1 << 62)


@mypyc_attr(allow_interpreted_subclasses=True)
class Suspicion:
    """The suspicion of one member while it follows.

    heard  time of the last message from the leader, or from the member taken for it
    dead   time since when the leader is known to be dead; NEVER while it is not
    """

    def __init__(self, standing: Standing, changes: Changes) -> None:
        self.standing = standing
        self.changes = changes
        self.heard: i64 = NEVER
        self.dead: i64 = NEVER

    def start(self, now: i64) -> None:
        self.heard = now
        self.dead = NEVER

    def hear(self, now: i64) -> None:
        """Record a message from the leader, or the start of a new epoch."""
        self.heard = now
        self.dead = NEVER

    def refused(self, peer: str, tried: i64, now: i64) -> None:
        view = self.standing.view
        if view is not None and view.value.leader == peer and self.heard <= tried and self.dead == NEVER:
            self.dead = now
            self.suspect(now)

    def suspect(self, now: i64) -> None:
        """Take over if the leader is dead or was silent for too long.

        Probe the leader if it was silent for half that time.
        """
        standing = self.standing
        view = standing.view
        if standing.role != FOLLOWS or view is None or self.changes.pending is not None:
            return
        if standing.promised > view.value.epoch or not standing.is_in_sync() or not standing.can_lead:
            return
        leader = view.value.leader
        if leader == standing.name:
            # This member led the epoch before its restart, or may have, and must not lead it again.
            self.take_over(view, dict(view.value.in_sync), now)
            return
        silence = standing.settings.silence_us
        wait = self.rank(view) * standing.settings.rank_us
        if now - self.heard > silence + wait or (self.dead != NEVER and now - self.dead >= wait):
            in_sync = dict(view.value.in_sync)
            if len(in_sync) > view.value.min_in_sync:
                in_sync.pop(leader, None)
            self.take_over(view, in_sync, now)
        elif now - self.heard > silence // 2 and self.dead == NEVER:
            standing.out.probe.append(leader)

    def rank(self, view: View) -> i64:
        """Return the number of in-sync members that try to take over before this one."""
        before: i64 = 0
        for node in view.value.in_sync:
            if node != view.value.leader and node < self.standing.name:
                before += 1
        return before

    def take_over(self, view: View, in_sync: dict[str, str], now: i64) -> None:
        value = view.value.copy(TAKE_OVER, self.standing.name)
        value.epoch = view.value.epoch + 1
        value.leader = self.standing.name
        value.in_sync = in_sync
        self.standing.out.events.append(f"takes over from {view.value.leader!r} in epoch {value.epoch}")
        self.changes.propose(value, now)
