"""The network between nodes: one connection a pair, in order, on which messages wait, and which breaks."""

from __future__ import annotations

from collections import deque
from itertools import combinations, permutations
from typing import Final

Way = tuple[str, str]  # from, to


class Network:
    """All connections.

    connected  pairs, by name, that have a connection
    blocked    ways on which nothing comes through
    delays_us  of what is sent on a way
    waiting    what is on its way, and when it is there
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.pairs: Final[list[Way]] = list(combinations(names, 2))
        self.ways: Final[list[Way]] = list(permutations(names, 2))
        self.connected: set[Way] = set()
        self.blocked: set[Way] = set()
        self.delays_us: dict[Way, int] = {}
        self.waiting: dict[Way, deque[tuple[int, bytes]]] = {way: deque() for way in self.ways}

    def is_open(self, a: str, b: str) -> bool:
        """Whether octets come through both ways."""
        return (a, b) not in self.blocked and (b, a) not in self.blocked

    def send(self, way: Way, octets: bytes, now_us: int) -> None:
        """What nobody is connected for is lost."""
        if pair_of(way) in self.connected:
            self.waiting[way].append((now_us + self.delays_us.get(way, 0), octets))

    def next(self, way: Way, now_us: int) -> bytes | None:
        """The message that is there now."""
        waiting = self.waiting[way]
        if way in self.blocked or not waiting or waiting[0][0] > now_us:
            return None
        return waiting.popleft()[1]

    def break_off(self, a: str, b: str) -> bool:
        """A connection is gone, with what was on its way; whether there was one."""
        pair = pair_of((a, b))
        self.waiting[a, b].clear()
        self.waiting[b, a].clear()
        was = pair in self.connected
        self.connected.discard(pair)
        return was

    def heal(self) -> None:
        self.blocked.clear()
        self.delays_us.clear()


def pair_of(way: Way) -> Way:
    """The pair of both ends, whichever sends."""
    return min(way), max(way)
