"""The parts that all vhosts of one store share."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.audit import Audit
from forebay.broker.joining import BodyJoins
from forebay.broker.mqtt.crowding import Crowding
from forebay.broker.shared.next_turn import Deletions, NextTurn
from forebay.broker.shared.queue_numbers import QueueNumbers
from forebay.broker.shared.queue_shares import QueueShares
from forebay.broker.shared.store_room import StoreRoom
from forebay.broker.shared.turn_budgets import TurnBudgets
from forebay.broker.shared.turn_trace import TurnTrace
from forebay.log.store import Store
from forebay.message.events import Events


@final
class SharedParts:
    """The parts that a vhost is made with.

    Only constructors read it, and hand each part to who needs that one. Nobody but `Vhosts` and the node keeps it.

    room            in the store, for what is published
    next_turn       who takes part in it
    deletions       of vhosts and users
    trace           of the turn's messages
    shares          of the disk and the memory, of each queue
    queue_numbers   no two queues have one
    events, audit   what happens, and who has changed what
    joins           long bodies to be put together
    crowding        MQTT sessions that do not keep up
    budgets         of what a turn may cost
    secret          random bytes, of which names are made that nobody may guess
    """

    def __init__(self, store: Store, secret: bytes, filter_work: i64) -> None:
        self.room = StoreRoom(store)
        self.next_turn = NextTurn()
        self.deletions = Deletions()
        self.trace = TurnTrace()
        self.shares = QueueShares()
        self.queue_numbers = QueueNumbers()
        self.events = Events()
        self.audit = Audit()
        self.joins = BodyJoins()
        self.crowding = Crowding()
        self.budgets = TurnBudgets(filter_work)
        self.secret = secret
