"""A durable log of the broker's own: what must outlive a restart and is no queue's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import i64

from forebay.log.store import Entry, Store

# Numbers of the logs: far above those of queues, which count from 1.
SESSIONS_LOG: Final = 4_294_967_041
RETAINED_LOG: Final = 4_294_967_042
DELAYED_LOG: Final = 4_294_967_043

INTERNAL: Final = 6  # kind of entry in the write-ahead log: its owner is the log of that number


class InternalLog(ABC):
    """One such log, and what its owner notes beside the records."""

    def __init__(self, number: int, name: str, store: Store) -> None:
        self.number = number
        self.store = store
        self.log = store.create_log(number, name, True)

    def note(self, group: int, payload: bytes, urgent: bool) -> None:
        """Write something down for `restore`; if urgent, with this turn's commit."""
        self.store.note(INTERNAL, self.number, group, payload, urgent)

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
    def live(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """The intervals of [first, end) that are still wanted."""

    @abstractmethod
    def checkpoint(self) -> list[Entry]:
        """All that `restore` needs to come to this state."""

    @abstractmethod
    def restore(self, group: int, payload: bytes) -> None:
        """Apply a note, in recovery and in order."""

    @abstractmethod
    def recovered(self, now_us: i64) -> None:
        """All notes are applied, and the records are there to be read."""
