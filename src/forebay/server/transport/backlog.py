"""Octets that are still to be written to a connection after something long.

A transport hands the system all that it has, as long as the system takes it: a hundred megabytes to a reader on the
same machine in one go, over TLS encrypted before. So it is given a little at a time, and others have their turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from forebay.core.pieces import Part

WRITE_OCTETS: Final = 1 << 20  # given to a transport at a time


class Backlog:
    """Octets in pieces, the first to be written first."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts: deque[Part] = deque()
        self.octets = 0
        self.add(parts)

    def add(self, parts: Sequence[Part]) -> None:
        """Append octets to those that are there."""
        self.parts.extend(parts)
        self.octets += octets_of(parts)

    def take(self) -> list[Part]:
        """Remove and return the octets to write next. A long piece is cut without a copy."""
        taken: list[Part] = []
        room = WRITE_OCTETS
        while self.parts and room:
            part = self.parts.popleft()
            if len(part) > room:
                view = memoryview(part)
                self.parts.appendleft(view[room:])
                part = view[:room]
            taken.append(part)
            room -= len(part)
        self.octets -= WRITE_OCTETS - room
        return taken

    def take_all(self) -> list[Part]:
        """Take everything that is left."""
        taken = list(self.parts)
        self.parts.clear()
        self.octets = 0
        return taken


def octets_of(parts: Sequence[Part]) -> int:
    """Return the number of octets in these parts."""
    return sum(map(len, parts))
