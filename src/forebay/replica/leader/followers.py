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
    """The progress and the answers of the other members. Each fact counts for one store alone.

    began      time at which this leader began to lead
    end        LSN of the leader's last frame
    store_ids  store id of each member, as last reported
    synced     the highest LSN acknowledged by each store
    answered   time at which the last heartbeat answered by each store was sent, by the leader's clock
    marks      pairs of an end LSN and the time at which the log had reached it, oldest first
    progress   of each member that is behind: since when it is at an LSN, and that LSN
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
        """Record that the leader's log ends with the frame `lsn` now."""
        self.end = max(self.end, lsn)
        if not self.marks or now - self.marks[-1][1] >= MARK_US:
            self.marks.append((int(self.end), int(now)))

    def lag_us(self, got: i64, now: i64) -> i64:
        """Return for how long a store at LSN `got` has lacked frames, in µs.

        A lag older than the oldest mark counts from it.
        """
        if got >= self.end:
            return 0
        for lsn, since in self.marks:
            if lsn > got:
                return now - since
        return 0

    def entry(self, node: str) -> Entry:
        """Return the node and the store id last reported by it. The store id is "" until the node has reported one."""
        return (node, self.store_ids.get(node, ""))

    def got(self, entry: Entry) -> i64:
        return self.synced.get(entry, 0)

    def answer(self, entry: Entry, sent: i64, now: i64) -> None:
        """Record an answer to the heartbeat sent at `sent`, where a lease begins, however late the answer came."""
        self.store_ids[entry[0]] = entry[1]
        if sent <= now:
            self.answered[entry] = max(sent, self.answered.get(entry, NEVER))

    def refused(self, entry: Entry, tried: i64) -> None:
        """Record that a connection attempt begun at `tried` was refused.

        An answer to a heartbeat sent at that time or later still counts.
        """
        if self.answered.get(entry, NEVER) < tried:
            self.answered[entry] = NEVER

    def acknowledge(self, entry: Entry, lsn: i64) -> bool:
        """Record that a store has synced the frames up to `lsn`. Return whether the store advanced."""
        self.store_ids[entry[0]] = entry[1]
        if lsn <= self.got(entry) or lsn > self.end:
            return False
        self.synced[entry] = lsn
        return True

    def is_alive(self, entry: Entry, now: i64) -> bool:
        """Return whether a store answers heartbeats, and has all frames or makes progress."""
        if now - self.answered.get(entry, self.began) > self.settings.put_out_us:
            return False
        got = self.got(entry)
        if got >= self.end:
            return True
        progress = self.progress.get(entry[0])
        return progress is None or progress[1] != got or now - progress[0] < self.settings.lag_us

    def note(self, node: str, now: i64) -> bool:
        """Record how far a member that is behind has come. Return whether it made no progress since the last call."""
        got = self.got(self.entry(node))
        progress = self.progress.get(node)
        if progress is None or progress[1] != got:
            self.progress[node] = (now, got)
            return False
        return True
