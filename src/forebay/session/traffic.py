"""The publishes and requests of AMQP clients, summed over channels."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Traffic:
    """Counters of channels that are gone, or of some and those.

    channels     that were opened: sessions, of AMQP 1.0
    received     messages published
    expecting    of these, on channels that confirm
    confirmed    of these, confirmed
    returned     mandatory messages given back, as nobody was to have them
    dropped      others that nobody was to have
    gets_empty   basic.get that found nothing
    """

    def __init__(self) -> None:
        self.channels: i64 = 0
        self.received: i64 = 0
        self.expecting: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        self.gets_empty: i64 = 0

    def add(self, other: Traffic) -> None:
        """Take the other's into this sum."""
        self.channels += other.channels
        self.received += other.received
        self.expecting += other.expecting
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped
        self.gets_empty += other.gets_empty
