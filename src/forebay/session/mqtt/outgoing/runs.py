"""Runs of a queue's records: those that wait for room in the window of an MQTT client, and those it acknowledged."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.queue.leases.lease import Consumer, Lease


@final
class WaitingRun:
    """Records block[index .. end) of a queue, for which the window has no room yet."""

    def __init__(self, consumer: Consumer, block: Block, index: i64, end: i64, lease: Lease | None) -> None:
        self.consumer = consumer
        self.block = block
        self.index: i64 = index
        self.end: i64 = end
        self.lease = lease


@final
class AcknowledgedRun:
    """Records of one lease whose PUBACKs came one after the other, to be settled at once; `lease` is None of none."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.first: i64 = 0
        self.count: i64 = 0

    def begin(self, lease: Lease, offset: i64) -> None:
        """Begin a run with one record."""
        self.lease = lease
        self.first = offset
        self.count = 1

    def extend(self, lease: Lease, offset: i64) -> bool:
        """Add the record if it comes next in the run, and return whether it does."""
        if lease is not self.lease or offset != self.first + self.count:
            return False
        self.count += 1
        return True
