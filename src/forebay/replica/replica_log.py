"""The store of a member, as far as replication asks for it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from forebay.log.shipment import Shipment
from forebay.replica.messages import Run


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaLog(ABC):
    """The frames that a member has, those included that are gathered and not yet written."""

    @abstractmethod
    def end(self) -> tuple[int, int]:
        """Epoch and LSN of the last frame; (0, 0) where there is none."""

    @abstractmethod
    def runs(self) -> list[Run]:
        """Stretches of frames of one epoch, newest first, as far back as the log knows."""

    @abstractmethod
    def epoch_of(self, lsn: int) -> int | None:
        """The epoch of the frame with this LSN; None where the log knows none, or does not know it any more."""

    @abstractmethod
    def frames_from(self, lsn: int, octets_max: int) -> list[Shipment] | None:
        """Frames one after the other, beginning with this one, of at most so many octets unless the first is longer.

        None: it is in no WAL file any more.
        """


def last_common(ours: list[Run], theirs: list[Run]) -> int:
    """The highest LSN at which two logs have the same epoch; 0 where they have none, as far as is known."""
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
