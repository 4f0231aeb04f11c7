"""The leader's orders to rewrite WAL files: every member keeps of a file what the leader has kept.

An order is told once the member has acknowledged the file's last frame, and again after each new connection: one that
comes twice does nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.replica.messages import Interval, RewriteOrder
from forebay.replica.standing import Standing

ORDERS_MAX: Final = 1024  # a member that missed more keeps those files until they are ordered anew


@final
class GivenOrder:
    """One WAL file, with the LSN of its last frame, and the offsets of each queue that are wanted of it."""

    def __init__(self, serial: i64, number: i64, last: i64, wanted: dict[int, list[Interval]]) -> None:
        self.serial: i64 = serial
        self.number: i64 = number
        self.last: i64 = last
        self.wanted = wanted


@final
class Orders:
    """The orders of one epoch.

    given  the newest, in order
    told   of each member the serial number of the last one that it was told
    """

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.serial: i64 = 0
        self.given: deque[GivenOrder] = deque(maxlen=ORDERS_MAX)
        self.told: dict[str, i64] = {}

    def add(self, number: i64, last: i64, wanted: dict[int, list[Interval]]) -> None:
        self.serial += 1
        self.given.append(GivenOrder(self.serial, number, last, wanted))

    def tell(self, node: str, got: i64) -> None:
        """A member that has acknowledged so much, in the order in which they were given."""
        told = self.told.get(node, 0)
        if told == self.serial:
            return
        for order in self.given:
            if order.serial > told:
                if order.last > got:
                    return
                self.standing.say(node, RewriteOrder(self.standing.epoch, order.number, order.wanted))
                self.told[node] = order.serial

    def again(self, node: str, got: i64) -> None:
        """A connection is gone, and with it maybe what was told by it."""
        self.told[node] = 0
        self.tell(node, got)
