"""A leader's frames that are on its disk and not committed yet: it waits for the in-sync replicas to have them."""

from __future__ import annotations

from typing import final

from forebay.log.wal import Commit, GatheredFrame


@final
class Uncommitted:
    """The uncommitted frames of a leader in ascending order. `octets` is their total length."""

    def __init__(self) -> None:
        self.frames: list[GatheredFrame] = []
        self.octets = 0

    def add(self, commit: Commit) -> None:
        """Add the frames of a commit that is on the disk."""
        for frame in commit.frames:
            frame.let_go()
        self.frames += commit.frames
        self.octets += commit.octets

    def commit_to(self, lsn: int) -> None:
        """Commit the frames up to `lsn`, which makes their logs' records durable."""
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
