"""Limits on connections and request memory, shared by all HTTP listeners.

Whoever asks need not have logged in yet, so that each limit holds for strangers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from forebay.node.back_pressure.pressure import Pressure

# Why a connection or a request is refused, as metrics name it.
CONNECTIONS: Final = "connections"
ADDRESS: Final = "address"
HEAD: Final = "head"
MEMORY: Final = "memory"
SLOW: Final = "slow"
UNREAD: Final = "unread"
SMALL_OCTETS: Final = 64 << 10  # a request this long is taken in however much the others hold
LONG_ANSWERS: Final = 4  # long answers made at a time


class Door:
    """The connections over HTTP of one broker.

    connections  number of open connections
    octets       of requests that are on their way in, or whose answers are awaited
    unread       connections whose clients do not read on for now, and what is written to each waits
    long         whoever makes an answer that may be long is within it meanwhile: the others' are not in memory yet
    refused      connections and requests, by why
    """

    def __init__(self, pressure: Pressure) -> None:
        self.pressure = pressure
        self.connections = 0
        self.octets = 0
        self.addresses: Counter[str] = Counter()
        self.unread: set[asyncio.Transport] = set()
        self.long = asyncio.Semaphore(LONG_ANSWERS)
        self.refused: Counter[str] = Counter()

    def enter(self, address: str) -> str:
        """Count a new connection, and return why it must go; empty if it may stay. Call `leave` in either case."""
        options = self.pressure.options
        self.connections += 1
        self.addresses[address] += 1
        if self.connections > options.http_connections_max:
            self.refused[CONNECTIONS] += 1
            return f"there are {options.http_connections_max} connections over HTTP, http_connections_max"
        if self.addresses[address] > options.http_address_connections_max:
            self.refused[ADDRESS] += 1
            most = options.http_address_connections_max
            return f"there are {most} connections over HTTP from {address}, http_address_connections_max"
        return ""

    def leave(self, address: str) -> None:
        """Count a connection as gone."""
        self.connections -= 1
        self.addresses[address] -= 1
        if not self.addresses[address]:
            del self.addresses[address]

    def lack(self, octets: int) -> str:
        """Return why a request that holds `octets` octets cannot be taken in; empty if it can."""
        if octets <= SMALL_OCTETS:
            return ""
        most = self.pressure.options.http_requests_octets_max
        if self.octets > most:
            self.refused[MEMORY] += 1
            return f"requests hold more than {most} octets together, http_requests_octets_max"
        if self.pressure.over_memory:
            self.refused[MEMORY] += 1
            return "the broker is over memory_octets_max"
        return ""

    def add_unread(self, transport: asyncio.Transport) -> None:
        """Add a client that has stopped reading. If too much waits for all such clients, end those with the most."""
        self.unread.add(transport)
        waiting = {each: each.get_write_buffer_size() for each in self.unread}
        total = sum(waiting.values())
        while total > self.pressure.options.send_buffers_octets_max:
            worst = max(waiting, key=waiting.__getitem__)
            total -= waiting.pop(worst)
            self.unread.discard(worst)
            self.refused[UNREAD] += 1
            worst.abort()

    def head_fault(self, octets: int) -> str:
        """Return why a head of `octets` octets cannot be taken in; empty if it can."""
        most = self.pressure.options.http_head_octets_max
        if octets <= most:
            return ""
        self.refused[HEAD] += 1
        return f"the head takes more than {most} octets, http_head_octets_max"
