"""Traces: what the server tells of messages on their way, where somebody wants to know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from forebay.broker.shared.turn_trace import SealedBlock
from forebay.broker.vhost import Vhost
from forebay.queue.leases.lease import Delivery


class Tracer(ABC):
    """A listener to messages on their way. It is called within the turn, so no method may take long."""

    @abstractmethod
    def sealed(self, sealed: Sequence[SealedBlock], now_us: int) -> None:
        """Trace the records that were published in this turn."""

    @abstractmethod
    def delivered(self, delivery: Delivery, vhost: Vhost, now_us: int) -> None:
        """Trace the records of a delivery that is being sent now."""

    @abstractmethod
    def turned(self, now_us: int) -> None:
        """End the turn, in which messages delivered earlier may have been settled."""
