"""The load of the thread that does everything: whether it has time for members that catch up.

The kernel says how long a thread has run and for how long it has waited to run; both together are what it would have
run on a machine of its own. Where the kernel does not say so, what it has run is all that is known.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

from forebay.server.cluster.cluster_node import ClusterNode

BUSY_PERCENT: Final = 70
LOOK_US: Final = 500_000
NANOSECONDS: Final = 1000  # a microsecond


class ThreadLoad:
    """The load of the thread that creates this object."""

    def __init__(self) -> None:
        self.path = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self.wanted_ns = self.wanted()

    def wanted(self) -> int:
        """Return the nanoseconds for which the thread has run, or has waited to run."""
        try:
            ran, waited = map(int, self.path.read_bytes().split()[:2])
        except (OSError, ValueError):
            return time.thread_time_ns()
        return ran + waited

    def since(self, us: int) -> int:
        """Return the thread's load in percent of the `us` microseconds that have passed since the last call."""
        before, self.wanted_ns = self.wanted_ns, self.wanted()
        return 100 * (self.wanted_ns - before) // (NANOSECONDS * max(1, us))


class LeaderLoad:
    """A periodic check whether a node's thread is busy."""

    def __init__(self, member: ClusterNode) -> None:
        self.member = member
        self.load = ThreadLoad()
        self.looked_us = member.now_us()

    def look(self) -> None:
        """Update whether the node is busy, if enough time has passed."""
        now_us = self.member.now_us()
        passed_us = now_us - self.looked_us
        if passed_us >= LOOK_US:
            self.looked_us = now_us
            self.member.group.replica.standing.is_busy = self.load.since(passed_us) >= BUSY_PERCENT
