"""Packet identifiers in flight towards one MQTT client, and what each of them waits for.

Identifiers run through a ring of slots not much larger than the window. A slot holds the run of consecutive
identifiers that its message was sent in, so that a message in flight costs a reference and no object of its own.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.queue.leases.lease import Lease

IDS_MAX: Final = 65_535
IDS_LEAST: Final = 64

# Kinds of messages in flight, by what their acknowledgement settles.
QUEUED: Final = 0  # leased from a queue, by the rules of `$queue/`
SHARED_1: Final = 1  # leased from a shared subscription, at QoS 1
SHARED_2: Final = 2
DIRECT_1: Final = 3  # nothing is kept of it
DIRECT_2: Final = 4
LOGGED_1: Final = 5  # of a durable session
LOGGED_2: Final = 6
RELEASED: Final = 7  # PUBREC came, PUBCOMP has not
RELEASED_LOGGED: Final = 8


@final
class Flight:
    """Messages in flight under consecutive packet identifiers; `lease` is None where there is none."""

    def __init__(self, kind: i64, first_id: i64, first_offset: i64, lease: Lease | None) -> None:
        self.kind: i64 = kind
        self.first_id: i64 = first_id
        self.first_offset: i64 = first_offset
        self.lease = lease


@final
class Window:
    """The identifiers of one connection.

    size      most messages in flight
    inflight  messages in flight: those whose PUBACK or PUBCOMP has not come
    """

    def __init__(self, size: i64) -> None:
        self.size: i64 = size
        self.inflight: i64 = 0
        self.slots: list[Flight | None] = []  # by identifier; made with the first message
        self.ids: i64 = 0
        self.last_id: i64 = 0

    def is_full(self) -> bool:
        return self.inflight >= self.size

    def next_id(self) -> i64:
        """The next free identifier; there is one, as there are more of them than the window is wide."""
        if self.ids == 0:
            self.make_slots(0)
        id = self.last_id + 1
        while True:
            if id > self.ids:
                id = 1
            if self.slots[id] is None:
                self.last_id = id
                return id
            id += 1

    def make_slots(self, highest: i64) -> None:
        """Have slots for the window, and for an identifier that an earlier connection used."""
        ids = max(2 * self.size, i64(IDS_LEAST))
        ids = max(ids, highest + self.size)
        self.ids = min(ids, i64(IDS_MAX))
        self.slots = [None] * (self.ids + 1)

    def take(self, id: i64, flight: Flight) -> None:
        """An identifier is in flight from now on."""
        self.slots[id] = flight
        self.inflight += 1

    def find(self, id: i64) -> Flight | None:
        """The exchange that the client acknowledges; None for none that we know of."""
        return self.slots[id] if id <= self.ids and self.ids else None

    def free(self, id: i64) -> None:
        self.slots[id] = None
        self.inflight -= 1
