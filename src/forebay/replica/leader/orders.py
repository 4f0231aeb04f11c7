"""The leader's orders to rewrite WAL files: every member keeps of a file what the leader has kept.

An order is sent once the member has acknowledged the last frame of the file, and again after each new connection. An
order that arrives twice does nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.replica.messages import Interval, RewriteOrder
from forebay.replica.standing import Standing

ORDERS_MAX: Final = 1024  # a member that missed more orders keeps those files until the next order for them


@final
class GivenOrder:
    """An order to rewrite one WAL file.

    serial  serial number of the order
    number  number of the WAL file
    last    LSN of the file's last frame
    wanted  offsets of each queue that are kept
    """

    def __init__(self, serial: i64, number: i64, last: i64, wanted: dict[int, list[Interval]]) -> None:
        self.serial: i64 = serial
        self.number: i64 = number
        self.last: i64 = last
        self.wanted = wanted


@final
class Orders:
    """The orders of one epoch.

    given  the newest orders, oldest first
    told   serial number of the last order sent to each member
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
        """Send a member the orders it has not been sent yet, up to the first whose file ends behind `got`.

        `got` is the LSN that the member has acknowledged.
        """
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
        """Send a member all orders again, because orders sent over a lost connection may not have arrived."""
        self.told[node] = 0
        self.tell(node, got)
