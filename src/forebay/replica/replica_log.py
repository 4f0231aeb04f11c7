"""A member's store, as far as replication reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from forebay.log.shipment import Shipment
from forebay.replica.messages import Run


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaLog(ABC):
    """The frames that a member has, including buffered ones that are not yet written."""

    @abstractmethod
    def end(self) -> tuple[int, int]:
        """Return the epoch and the LSN of the last frame, or (0, 0) if there is none."""

    @abstractmethod
    def runs(self) -> list[Run]:
        """Return the runs of frames of one epoch each, newest first, as far back as the log knows."""

    @abstractmethod
    def epoch_of(self, lsn: int) -> int | None:
        """Return the epoch of the frame `lsn`, or None if the log has no such frame or knows its epoch no longer."""

    @abstractmethod
    def frames_from(self, lsn: int, octets_max: int) -> list[Shipment] | None:
        """Return consecutive frames from `lsn`, of at most `octets_max` bytes unless the first frame is longer.

        Return None if no WAL file holds the frame `lsn` any more.
        """


def last_common(ours: list[Run], theirs: list[Run]) -> int:
    """Return the highest LSN at which two logs have the same epoch, or 0 if none is known."""
    spans: dict[int, tuple[int, int]] = {}
    for epoch, first, last in ours:
        spans[epoch] = (first, last)
    for epoch, first, last in theirs:
        span = spans.get(epoch)
        if span is not None:
            lsn = min(last, span[1])
            if lsn >= max(first, span[0]):
                return lsn
    return 0
