"""A transaction of AMQP 0.9.1: it holds publishes, and what settles deliveries, back until its commit."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError
from forebay.session.shared.held_publishes import HELD_OCTETS, HeldPublishes


@final
class HeldSettlement:
    """One basic.ack, basic.nack or basic.reject."""

    def __init__(self, tag: i64, multiple: bool, how: i64) -> None:
        self.tag: i64 = tag
        self.multiple = multiple
        self.how: i64 = how


@final
class Transaction:
    """The transaction of one channel.

    publishes   that it holds back
    floor       tags up to here that were outstanding are settled by the commit, and so are those in `tags`
    """

    def __init__(self, octets_max: i64) -> None:
        self.publishes = HeldPublishes(octets_max)
        self.settlements: list[HeldSettlement] = []
        self.floor: i64 = 0
        self.tags: set[int] = set()

    def settles(self, tag: i64) -> bool:
        """True if the commit settles this tag."""
        return tag <= self.floor or int(tag) in self.tags

    def settle(self, tag: i64, multiple: bool, how: i64) -> None:
        """Hold back what settles an outstanding tag; RequestError if something does already."""
        if self.settles(tag):
            raise RequestError(PRECONDITION, f"unknown delivery tag {tag}")
        self.publishes.charge(HELD_OCTETS)
        self.settlements.append(HeldSettlement(tag, multiple, how))
        if multiple:
            self.floor = tag
        else:
            self.tags.add(int(tag))

    def clear(self) -> None:
        """Begin anew."""
        self.publishes.clear()
        self.settlements = []
        self.floor = 0
        self.tags = set()
