"""The messages of a turn, for whoever traces them."""

from __future__ import annotations

from typing import final

from forebay.log.block import Block
from forebay.queue.leases.lease import Delivery
from forebay.queue.queue import Queue


@final
class SealedBlock:
    """Records that a queue took in this turn."""

    def __init__(self, vhost: bytes, queue: Queue, block: Block) -> None:
        self.vhost = vhost
        self.queue = queue
        self.block = block


@final
class TurnTrace:
    """The blocks and early deliveries of a turn.

    is_on   somebody traces messages: note the blocks that are sealed
    sealed  those blocks
    early   deliveries that sessions took before the turn's end
    """

    def __init__(self) -> None:
        self.is_on = False
        self.sealed: list[SealedBlock] = []
        self.early: list[Delivery] = []
