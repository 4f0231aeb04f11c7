"""The work done for one client before everybody else has their turn.

What a read holds is mostly cheap, and not counted: publishes to known places, acknowledgements. What is not — another
place, a declaration, a subscription — is, at about a microsecond a point. Where the points of a turn are used up, or
while readers wait for their turn as many messages as it may bring in, `Later` is raised before anything was done, and
what is left of the read comes again in the next turn.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.limits.hold_reasons import CONSUMERS_WAIT, SEARCH_BUDGET, TURN_WORK, WIDE_DELIVERY
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.wide_deliveries import Batch
from forebay.core.errors import Later
from forebay.queue.pace import UNLIMITED, Pace
from forebay.queue.queue import Queue
from forebay.wire.amqp091.methods import BASIC_CANCEL, BASIC_CONSUME, BASIC_GET

WORK_A_TURN: Final = 10_000
DECLARE_POINTS: Final = 100  # of a method that makes or takes away a queue, an exchange, a binding or a consumer
EXCHANGE: Final = 40  # classes of methods
QUEUE: Final = 50
TX: Final = 90
METHOD_POINTS: Final = 5  # of any other


@final
class Meter:
    """The meter of one connection.

    is_over   the last read was not dealt with to its end
    messages  how many more this read may publish
    awaited   deliveries to very many clients, before the end of which this connection publishes nothing more
    pressing  a queue or MQTT session over its share to which this read has published
    """

    def __init__(self, pace: Pace | None = None) -> None:
        self.pace = Pace() if pace is None else pace
        self.left: i64 = WORK_A_TURN
        self.messages: i64 = UNLIMITED
        self.awaited: Batch | None = None
        self.is_over = False
        self.pressing: Queue | ClientSession | None = None

    def begin(self) -> None:
        """A turn of its own."""
        self.pressing = None
        self.left = WORK_A_TURN
        self.messages = self.pace.messages
        self.is_over = False
        if self.awaited is not None:
            if self.awaited.done:
                self.awaited = None
            else:
                self.messages = 0

    def note_pressing(self, pressing: Queue | ClientSession | None) -> None:
        """Note what a publish of this read presses on, if anything: of several the last queue, or else a session."""
        if self.pressing is None or isinstance(pressing, Queue):
            self.pressing = pressing

    def hold_reason(self) -> int:
        """Return the reason for which the rest of a read that `is_over` comes in the next turn."""
        if self.messages <= 0:
            return CONSUMERS_WAIT if self.awaited is None else WIDE_DELIVERY
        return TURN_WORK if self.left <= 0 else SEARCH_BUDGET

    def await_delivery(self, batch: Batch) -> None:
        """Publish nothing more before all of this is delivered."""
        self.awaited = batch
        self.messages = 0

    def start(self, points: i64) -> None:
        """Begin something; Later, where it has to wait."""
        if self.left <= 0:
            raise Later
        self.left -= points

    def start_message(self, is_last: bool) -> None:
        """A publish is about to be taken in; where much goes to many already, no more of this client in this turn."""
        if self.messages <= 0:
            raise Later
        self.messages -= 1
        if is_last:
            self.start(WORK_A_TURN)

    def take(self, points: i64) -> None:
        """Count the points of something that was done."""
        self.left -= points


def points_of(method: i64) -> i64:
    """The points at which a method of AMQP 0.9.1, class << 16 | method, is counted."""
    if method >> 16 in (EXCHANGE, QUEUE, TX) or method in (BASIC_CONSUME, BASIC_CANCEL, BASIC_GET):
        return DECLARE_POINTS
    return METHOD_POINTS
