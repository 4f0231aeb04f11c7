"""The disk's answers: whether a write or sync has been under way for too long.

It is over once one has come back in time, or none has been under way for as long: on a disk that takes longer each time
it is said once.
"""

from __future__ import annotations

from typing import Final

from forebay.core.options import Options
from forebay.core.units import US_PER_MS
from forebay.log.store import Store
from forebay.node.telemetry.journal import Journal

PAUSE_US: Final = 500_000  # between two checks: longer means that the process was paused


class DiskAnswer:
    """The state of a disk that does not answer, as reported in the log and in `Store.no_answer`.

    options   options in force; replaced on a reload
    since_us  start of the oldest unanswered request; 0 if there is none
    began_us  `since_us` of the silence that the log has reported
    busy_us   last time at which a commit was running
    looked_us  time of the last check; `resumed_us` is the first check after a pause of the process
    """

    def __init__(self, options: Options, store: Store, journal: Journal) -> None:
        self.options = options
        self.store = store
        self.journal = journal
        self.since_us = 0
        self.began_us = 0
        self.busy_us = 0
        self.looked_us = 0
        self.resumed_us = 0

    def look(self, asked_us: int, now_us: int) -> bool:
        """Update for how long the disk has not answered. Return whether the state has changed.

        asked_us  when the disk was asked what it has not answered, beside commits; 0 for nothing
        """
        store = self.store
        since_us = 0
        if store.commit_running is not None:
            since_us = store.given_us
            self.busy_us = now_us
        if asked_us and (not since_us or asked_us < since_us):
            since_us = asked_us
        self.since_us = since_us
        if now_us - self.looked_us > PAUSE_US:
            self.resumed_us = now_us  # the process was paused, so the disk may have answered long ago
        self.looked_us = now_us
        limit_us = self.options.disk_answer_timeout_ms * US_PER_MS
        if since_us and now_us - max(since_us, self.resumed_us) >= limit_us:
            return self.begin(limit_us)
        if store.no_answer and (store.took_us < limit_us or now_us - self.busy_us >= limit_us):
            return self.end(now_us)
        return False

    def begin(self, limit_us: int) -> bool:
        self.store.took_us = limit_us  # of no other commit
        if self.store.no_answer:
            return False
        self.store.no_answer = True
        self.began_us = self.since_us
        self.journal.error("%s: nothing is confirmed until it does, what needs no disk goes on", self.words())
        return True

    def end(self, now_us: int) -> bool:
        self.store.no_answer = False
        lasted_ms = (now_us - self.began_us) // US_PER_MS
        self.journal.warning("the disk of %s answers again, after %d ms", self.store.disk.path(""), lasted_ms)
        return True

    def words(self) -> str:
        """Return a sentence for people that says how long the disk has not answered."""
        limit = self.options.disk_answer_timeout_ms
        return f"the disk of {self.store.disk.path('')} has not answered within disk_answer_timeout_ms={limit}"

    def waited_s(self, now_us: int) -> float:
        """Seconds for which the disk has not answered; 0 while it does."""
        if not self.store.no_answer:
            return 0.0
        return max(0, now_us - self.began_us) / (1000 * US_PER_MS)
