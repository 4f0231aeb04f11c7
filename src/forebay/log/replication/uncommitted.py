"""The frames of a leader that are on its disk, and of which it does not know yet that all who are in sync have them."""

from __future__ import annotations

from typing import final

from forebay.log.wal import Commit, GatheredFrame


@final
class Uncommitted:
    """The uncommitted frames of one leader, the older first; `octets` is the sum of all."""

    def __init__(self) -> None:
        self.frames: list[GatheredFrame] = []
        self.octets = 0

    def add(self, commit: Commit) -> None:
        """Add frames that are on the disk."""
        for frame in commit.frames:
            frame.let_go()
        self.frames += commit.frames
        self.octets += commit.octets

    def commit_to(self, lsn: int) -> None:
        """All frames up to this one are committed: their logs' records are durable."""
        frames = self.frames
        done = 0
        while done < len(frames) and frames[done].lsn <= lsn:
            frame = frames[done]
            ends = frame.ends
            for at, log in enumerate(frame.logs):
                log.durable_end = ends[at]
            self.octets -= frame.octets
            done += 1
        if done:
            self.frames = frames[done:]
