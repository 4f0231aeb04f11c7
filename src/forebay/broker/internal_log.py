"""A durable log of the broker's own: what must outlive a restart and is no queue's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import DamagedBlock
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.block import Block
from forebay.log.store import FrameEntry, Store
from forebay.queue.source.reader import SourceReader
from forebay.queue.source.source import LogSource
from forebay.queue.work.ledger import Ledger

# Numbers of the logs of vhost 0: far above those of queues, which count from 1. Those of the vhost of number n lie
# n times as far below.
SESSIONS_LOG: Final = 4_294_967_041
RETAINED_LOG: Final = 4_294_967_042
DELAYED_LOG: Final = 4_294_967_043
DEDUPLICATION_LOG: Final = 4_294_967_044
STAGING_LOG: Final = 4_294_967_045
MESSAGE_SESSIONS_LOG: Final = 4_294_967_046

LOGS_A_VHOST: Final = 256
VHOSTS_MAX: Final = 65_536  # beyond it their logs would come down to the numbers of queues

RECORD_OVERHEAD: Final = 176  # octets a record takes on disk beside its contents, annotations and address, at most
ANNOTATION_OVERHEAD: Final = 40  # and one with annotations beside those of these that are no numbers


def vhost_of_log(number: int) -> int:
    """Number of the vhost whose internal log has this number; for one of a queue, a number that no vhost has."""
    return (SESSIONS_LOG // LOGS_A_VHOST) - number // LOGS_A_VHOST


class InternalLog(ABC):
    """One such log, and what its owner notes beside the records."""

    def __init__(self, number: int, name: str, store: Store, vhost: i64) -> None:
        self.number = number - LOGS_A_VHOST * int(vhost)
        self.store = store
        self.log = store.create_log(self.number, name, True)
        self.source = LogSource(self.log)
        self.source.add_reader(LogOwner(self))

    def note(self, group: int, payload: bytes, urgent: bool) -> None:
        """Write something down for `restore`; if urgent, with this turn's commit."""
        self.store.note(INTERNAL, self.number, group, payload, urgent)

    def gathered(self) -> i64:
        """Octets that the end of the turn will give to the store."""
        return self.log.writer.octets()

    def seal(self, now_us: i64) -> bool:
        """Give what was appended since the last call to the store; whether there was anything."""
        block = self.log.seal(now_us)
        if block is None:
            return False
        self.store.append(self.log, block)
        return True

    @abstractmethod
    def end_turn(self, now_us: i64) -> None:
        """Seal what was appended, note what was settled, let the log forget what nobody wants."""

    @abstractmethod
    def needed_from(self) -> i64:
        """Return the offset below which the owner needs no record."""

    @abstractmethod
    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of [first, end) that the owner needs."""

    @abstractmethod
    def checkpoint(self) -> list[FrameEntry]:
        """All that `restore` needs to come to this state."""

    @abstractmethod
    def restore(self, group: int, payload: bytes) -> None:
        """Apply a note, in recovery and in order."""

    @abstractmethod
    def recovered(self, now_us: i64) -> None:
        """All notes are applied, and the records are there to be read."""


@final
class LogOwner(SourceReader):
    """The one reader of an internal log: its owner."""

    def __init__(self, owner: InternalLog) -> None:
        self.owner = owner

    def needed_from(self) -> i64:
        return self.owner.needed_from()

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        return self.owner.needed(first, end)


class LedgerLog(InternalLog):
    """An internal log of which each record is wanted until its owner settles it."""

    def __init__(self, number: int, name: str, store: Store, vhost: i64) -> None:
        super().__init__(number, name, store, vhost)
        self.ledger = Ledger(self.log, store)

    def make_readable(self, now_us: i64) -> None:
        """Seal what was appended in this turn before it ends."""
        if self.seal(now_us):
            self.ledger.sealed()

    def needed_from(self) -> i64:
        return self.ledger.needed_from()

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        return self.ledger.wanted(first, end)

    def checkpoint(self) -> list[FrameEntry]:
        return [FrameEntry(INTERNAL, self.number, 0, self.ledger.snapshot())]

    def restore(self, group: int, payload: bytes) -> None:
        self.ledger.restore(payload)

    def recovered(self, now_us: i64) -> None:
        wanted = self.ledger.wanted(0, self.log.end)
        self.ledger.sealed()
        for first, end in wanted:
            at: i64 = first
            while at < end:
                try:
                    block = self.log.block(at)
                except DamagedBlock as error:
                    at = min(end, i64(error.end))  # what it is is not known; it stays wanted
                    continue
                base: i64 = end
                if block is not None:
                    base = min(base, max(block.base, self.log.start))
                if block is None or base > at:
                    # The settlement of a hole was lost, what compaction left out because of it was not.
                    self.ledger.settle(at, base - at)
                    at = base
                    continue
                stop = min(block.end, end)
                self.take_in(block, at, stop, now_us)
                at = stop

    @abstractmethod
    def take_in(self, block: Block, first: i64, end: i64, now_us: i64) -> None:
        """The records [first, end) of a block, found by recovery, are wanted."""
