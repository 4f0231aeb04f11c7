"""The calls by which sessions settle what their consumers hold: a part of a vhost's contract."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64

from forebay.queue.leases.lease import NACKED, Consumer, Delivery, Lease


class SettlingContract(ABC):
    """Settles records of leases, in whichever queue they are: see `Settling`."""

    @abstractmethod
    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease, and return how many of them it held until now."""

    @abstractmethod
    def nack(self, lease: Lease, first: i64, count: i64, delay_ms: i64, how: i64 = NACKED) -> i64:
        """Give records of a lease back to the front of the queue, or after a delay."""

    @abstractmethod
    def modify(self, lease: Lease, first: i64, count: i64, annotations: bytes) -> None:
        """Give records of a lease message annotations, which they have from their next delivery on."""

    @abstractmethod
    def refuse(self, lease: Lease, first: i64, count: i64, delay_ms: i64, how: i64) -> i64:
        """Give records of a lease back that its consumer must not get again."""

    @abstractmethod
    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        """Have records of a lease die: to the queue's dead-letter exchange if it has one, else for good."""

    @abstractmethod
    def expire(self, lease: Lease, first: i64, count: i64) -> i64:
        """Let records of a lease die of their expiry, and return how many of them the lease held."""

    @abstractmethod
    def extend(self, lease: Lease, first: i64, count: i64, extend_ms: i64) -> i64:
        """Let records of a lease be held for so long from now on, 0 for as long as if they were delivered now."""

    @abstractmethod
    def defer(self, lease: Lease, offset: i64, how: i64) -> i64:
        """Defer a record until a client asks for its offset. Return 1 if the lease held it."""

    @abstractmethod
    def take_deferred(self, consumer: Consumer, offsets: list[int]) -> list[Delivery]:
        """Lease records that wait to be asked for; none if one of them does not."""

    @abstractmethod
    def find_lease(self, queue: bytes, group: bytes, offset: i64) -> Lease | None:
        """Return the lease of a record, None if nobody holds it."""

    @abstractmethod
    def may_settle(self, lease: Lease, session_id: i64) -> bool:
        """Return whether a connection may settle what a lease holds."""

    @abstractmethod
    def acknowledge_waiting(self, queue: bytes, group: bytes, offset: i64, session_id: i64) -> bool:
        """Settle a record of a sublet queue that nobody holds, or once it is published; return whether it will be."""

    @abstractmethod
    def commit_offset(self, queue: bytes, group: bytes, offset: i64) -> None:
        """Make a stream group resume at `offset`, which is on the disk with this turn's commit."""
