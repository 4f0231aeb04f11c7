"""The room in the store that all vhosts share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64

from forebay.log.store import Store


class PendingBytes(ABC):
    """A holder of records that the store does not have yet."""

    @abstractmethod
    def gathered(self) -> i64:
        """Return the bytes on their way to the disk of which the store does not know yet."""


@final
class StoreRoom:
    """The bytes that may be accepted before the store has to reserve more.

    octets   that may be accepted now
    holders  of what was accepted and the store does not have yet
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.octets: i64 = 0
        self.holders: list[PendingBytes] = []

    def gathered(self) -> i64:
        """Return the bytes that all holders have for the store."""
        octets: i64 = 0
        for holder in self.holders:
            octets += holder.gathered()
        return octets

    def grow(self, octets: i64) -> bool:
        """Let the log grow by so much. Return False, and leave no room, if the disk is full."""
        gathered = self.gathered()
        if self.store.reserve(gathered + octets):
            self.octets = self.store.room() - gathered
            return True
        self.octets = 0
        return False

    def end_turn(self) -> None:
        """Ask the store for its room anew: it has now what was accepted in this turn."""
        self.octets = self.store.room()
