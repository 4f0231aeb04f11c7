"""The room on a follower's disk: for the frames of its leader, and for the file with which it would lead itself.

A disk that is full is asked for room again after a second, then more and more seldom, by making a file as long as what
is lacking. Until it can be made no frames are asked for: they could not be kept.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from forebay.core.errors import DiskFull
from forebay.core.ports import Disk
from forebay.core.units import US_PER_MS
from forebay.log.store import Store
from forebay.log.wal import FOLDER

TRIAL: Final = f"{FOLDER}/room.tmp"
FOLLOWING: Final = "following"  # the room is for
LEADING: Final = "leading"
LOOK_US: Final = 1000 * US_PER_MS
LOOK_US_MAX: Final = 4000 * US_PER_MS


class RoomTrial:
    """A trial whether the disk has room for a file of `octets` bytes. `run`, on any thread, sets `fits`.

    purpose  FOLLOWING, LEADING
    """

    def __init__(self, room: DiskRoom, octets: int, purpose: str) -> None:
        self.room = room
        self.octets = octets
        self.purpose = purpose
        self.fits = False

    def run(self) -> None:
        self.fits = self.room.takes(self.octets)


class DiskRoom:
    """The free room on one follower's disk, tested after a write found none.

    lacking  bytes of the write that found no room; 0 if none did
    look_us  time of the next trial
    wait_us  time between the last two trials
    """

    def __init__(self, disk: Disk, store: Store) -> None:
        self.disk = disk
        self.store = store
        self.lacking = 0
        self.look_us = 0
        self.wait_us = 0

    def lack(self, octets: int, now: int) -> None:
        """Record that the disk had no room for so many bytes."""
        self.lacking = octets
        self.wait(now)

    def taken(self) -> None:
        """Reset the wait between trials, as the disk has accepted a write."""
        self.wait_us = 0

    def comes(self, now: int) -> bool:
        """Run a trial if one is due. Return whether there is room now for the write that failed."""
        trial = self.trial(now)
        if trial is None:
            return False
        trial.run()
        return self.tried(trial, now)

    def trial(self, now: int) -> RoomTrial | None:
        """Return a trial whether there is room for the write that failed. Returns None if no trial is due."""
        if not self.lacking or now < self.look_us:
            return None
        return RoomTrial(self, self.lacking, FOLLOWING)

    def tried(self, trial: RoomTrial, now: int) -> bool:
        """Record the result of a trial. Return whether there is room now for the write that failed."""
        if not trial.fits:
            self.wait(now)
            return False
        self.lacking = 0
        return True

    def wait(self, now: int) -> None:
        self.wait_us = min(max(2 * self.wait_us, LOOK_US), LOOK_US_MAX)
        self.look_us = now + self.wait_us

    def trial_to_lead(self) -> RoomTrial:
        """Return a trial whether this node has room to begin a log file now, as each new leader does."""
        store = self.store
        store.planner.checkpoint_octets(store.replay.entries, store.wals)
        return RoomTrial(self, store.maker.spare_octets, LEADING)

    def takes(self, octets: int) -> bool:
        """Return whether the disk has room for a file of so many bytes. Reserves and removes a trial file."""
        try:
            handle = self.disk.open(TRIAL, True)
        except DiskFull:
            return False
        try:
            self.disk.reserve(handle, octets)
        except DiskFull:
            return False
        finally:
            self.disk.close(handle)
            with suppress(DiskFull):
                self.disk.remove(TRIAL)
        return True
