"""The leader's knowledge of the other members, in the epoch in which it leads."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from forebay.replica.settings import ReplicaSettings
from forebay.replica.standing import Entry

NEVER: Final = -(1 << 62)
MARK_US: Final = 20_000
MARKS_MAX: Final = 4096


@mypyc_attr(allow_interpreted_subclasses=True)
class Followers:
    """The words of the others: each thing counts for one store alone.

    began      when this leader began
    end        LSN of its last frame
    store_ids  of each member, as it said last
    synced     the highest LSN that a store has acknowledged
    answered   when the last heartbeat was sent that a store has answered, by the leader's clock
    marks      when the end was where
    progress   of a member that is behind: since when, and how far it was then
    """

    def __init__(self, settings: ReplicaSettings, end: i64, now: i64) -> None:
        self.settings = settings
        self.began: i64 = now
        self.end: i64 = end
        self.store_ids: dict[str, str] = {}
        self.synced: dict[Entry, i64] = {}
        self.answered: dict[Entry, i64] = {}
        self.progress: dict[str, tuple[i64, i64]] = {}
        self.marks: deque[tuple[int, int]] = deque(maxlen=MARKS_MAX)

    def appended(self, lsn: i64, now: i64) -> None:
        """The log has frames up to here."""
        self.end = max(self.end, lsn)
        if not self.marks or now - self.marks[-1][1] >= MARK_US:
            self.marks.append((int(self.end), int(now)))

    def lag_us(self, got: i64, now: i64) -> i64:
        """The time for which a store has lacked frames; at least that, if it is longer than the marks go back."""
        if got >= self.end:
            return 0
        for lsn, since in self.marks:
            if lsn > got:
                return now - since
        return 0

    def entry(self, node: str) -> Entry:
        """The store that a member said it has; with "" for its id until it has said so."""
        return (node, self.store_ids.get(node, ""))

    def got(self, entry: Entry) -> i64:
        return self.synced.get(entry, 0)

    def answer(self, entry: Entry, sent: i64, now: i64) -> None:
        """A heartbeat that was sent then is answered. No lease begins before that, whenever the answer came."""
        self.store_ids[entry[0]] = entry[1]
        if sent <= now:
            self.answered[entry] = max(sent, self.answered.get(entry, NEVER))

    def refused(self, entry: Entry, tried: i64) -> None:
        """Note that nobody listened there when this was tried."""
        if self.answered.get(entry, NEVER) < tried:
            self.answered[entry] = NEVER

    def acknowledge(self, entry: Entry, lsn: i64) -> bool:
        """True where that is news."""
        self.store_ids[entry[0]] = entry[1]
        if lsn <= self.got(entry) or lsn > self.end:
            return False
        self.synced[entry] = lsn
        return True

    def is_alive(self, entry: Entry, now: i64) -> bool:
        """True if a member answers, and is at the end or makes progress."""
        if now - self.answered.get(entry, self.began) > self.settings.put_out_us:
            return False
        got = self.got(entry)
        if got >= self.end:
            return True
        progress = self.progress.get(entry[0])
        return progress is None or progress[1] != got or now - progress[0] < self.settings.lag_us

    def note(self, node: str, now: i64) -> bool:
        """Look how far a member that is behind is; whether it is no further than when it was looked at before."""
        got = self.got(self.entry(node))
        progress = self.progress.get(node)
        if progress is None or progress[1] != got:
            self.progress[node] = (now, got)
            return False
        return True
