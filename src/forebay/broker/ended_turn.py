"""The results of a turn of the vhosts, and who is gone, for whoever has the connections."""

from __future__ import annotations

from typing import final

from forebay.broker.common import Sealed
from forebay.broker.vhost import Vhost
from forebay.queue.leases.lease import Consumer, Delivery


@final
class EndedTurn:
    """The results of one turn of all vhosts.

    deliveries  for the sessions of their consumers to write
    cancelled   consumers that lost their queue
    woken       connections whose wait for a queue is over
    early       deliveries that sessions took before, for whoever follows deliveries
    sealed      records that queues took in, for whoever traces messages
    """

    def __init__(
        self,
        deliveries: list[Delivery],
        cancelled: list[Consumer],
        woken: list[int],
        early: list[Delivery],
        sealed: list[Sealed],
    ) -> None:
        self.deliveries = deliveries
        self.cancelled = cancelled
        self.woken = woken
        self.early = early
        self.sealed = sealed


@final
class Departures:
    """The vhosts and users that are gone, whose connections are to end."""

    def __init__(self, vhosts: list[Vhost], users: list[str]) -> None:
        self.vhosts = vhosts
        self.users = users
