"""What the vhosts of one store have in common: the numbers of queues, and the room on the disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64


class Part(ABC):
    """Who gathers records before the store has them."""

    @abstractmethod
    def gathered(self) -> i64:
        """Octets on their way to the disk of which the store does not know yet."""


@final
class Common:
    """One for all vhosts.

    room        octets that may be accepted before the store has to make room
    next_queue  number of the next queue: no two vhosts have queues of one number
    touched     numbers of the vhosts in which somebody may have done something since the turn before
    secret      chance, of which names are made that nobody may guess
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.room: i64 = 0
        self.next_queue: i64 = 1
        self.touched: list[int] = []
        self.secret = b""

    def gathered(self) -> i64:
        """Octets gathered by all."""
        octets: i64 = 0
        for part in self.parts:
            octets += part.gathered()
        return octets
