"""The calls by which sessions consume: the part of a vhost's contract that `Consumers` implements."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64

from forebay.broker.publish.replies import ReplyConsumer
from forebay.queue.leases.lease import Consumer, Delivery


class ConsumingContract(ABC):
    """The consumers of a vhost, as its sessions see them."""

    @abstractmethod
    def consume(
        self,
        queue: bytes,
        session_id: i64,
        channel: i64,
        tag: bytes,
        no_ack: bool,
        exclusive: bool,
        credit: i64,
        arguments: dict[str, object],
        cancels: bool = False,
    ) -> Consumer:
        """Attach a consumer to a group of a queue: see `Consumers.consume`."""

    @abstractmethod
    def browse(
        self, queue: bytes, session_id: i64, channel: i64, tag: bytes, no_ack: bool, arguments: dict[str, object]
    ) -> Consumer:
        """Attach a consumer of copies of what waits in a queue: see `Consumers.browse`."""

    @abstractmethod
    def consume_replies(self, session_id: i64, channel: i64, tag: bytes) -> ReplyConsumer:
        """Attach a consumer of direct replies."""

    @abstractmethod
    def get(self, queue: bytes, session_id: i64, channel: i64, no_ack: bool) -> Delivery | None:
        """Lease one record of a queue at once; return None if none is ready."""

    @abstractmethod
    def cancel(self, consumer: Consumer) -> None:
        """Detach a consumer, and return the records that it holds."""

    @abstractmethod
    def detach(self, consumer: Consumer) -> None:
        """Deliver nothing more to a consumer; it keeps the records that it holds."""

    @abstractmethod
    def take_early(self, consumer: Consumer) -> list[Delivery]:
        """Return the deliveries that a consumer about to go would get at the end of the turn."""

    @abstractmethod
    def set_window(self, consumer: Consumer, size: i64) -> None:
        """Set how many records a consumer may hold unsettled."""

    @abstractmethod
    def flow(self, consumer: Consumer, credit: i64, drains: bool) -> None:
        """Set how many more records a consumer gets, whatever it settles; `drains`: those that there are now alone."""

    @abstractmethod
    def close_channel(self, session_id: i64, channel: i64) -> None:
        """Cancel the consumers of a channel, and return what it got and did not settle."""

    @abstractmethod
    def has_consumers(self, session_id: i64) -> bool:
        """Return whether a session has consumers."""

    @abstractmethod
    def is_paused(self, session_id: i64) -> bool:
        """Return whether a session's connection takes no more octets for now."""
