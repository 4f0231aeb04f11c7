"""Messages, and the queues that they are in, as the model has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tests.simulation.kinds import LAST_VALUE_KEY, LATEST_KEYS, OWN, PICKED_LABEL, TRANSIENT
from tests.simulation.model.promises import NEVER, Settlement

UNKNOWN: Final = -1
DELIVERY_LIMIT: Final = 20  # of a quorum queue that names none


@dataclass(eq=False)
class Message:
    """Something published: `number` is in its body.

    transaction  those of one are there together, or none of them is
    promised     the broker has answered that it has it; `refused`: that it has not
    taken        in which of the broker's lives it was taken in last; UNKNOWN if it may have been
    topic        where to it was published, if to topics
    qos          at which it was published
    late         it may come behind what was published later
    label        what filters go by
    priority     as its publisher has it
    expiry_ms    it may go after so long
    routed       it had a queue to go to
    void         it must not come any more
    is_silent    nobody is told where it is refused
    """

    number: int
    publisher: str
    body: bytes
    transaction: int = 0
    promised: bool = False
    refused: bool = False
    taken: int = 0
    topic: str = ""
    qos: int = 1
    late: bool = False
    label: str = ""
    priority: int = 0
    expiry_ms: int = NEVER
    routed: bool = False
    void: bool = False
    is_silent: bool = False


@dataclass(eq=False)
class Copy(Settlement):
    """A message in a queue.

    came_us  when it was taken in
    place    how many may have come to this queue before it; -1 where nobody knows
    returns  of the queue, when it came
    lives_ms what the queue gives it to live
    settled  somebody has settled it
    died     it is settled, and goes where the dead letters of its queue go
    vague    nobody knows whether it is there
    found    it is stored
    at       its offset; -1 as long as the broker has not said it
    is_sent  it may have been sent without acknowledgement, behind an answer that waits for room on the disk
    taken    somebody has got it
    deliveries  how often clients have got it
    source   of a dead letter: the queue that it died in, as long as a crash may leave it there
    """

    message: Message = field(default_factory=lambda: Message(0, "", b""))
    came_us: int = 0
    place: int = 0
    returns: int = 0
    lives_ms: int = NEVER
    settled: bool = False
    died: bool = False
    vague: bool = False
    found: bool = False
    at: int = -1
    is_sent: bool = False
    taken: bool = False
    deliveries: int = 0
    source: Queue | None = None

    @property
    def offset(self) -> int:
        """Of a stream: where it is, or, as long as nobody has read it, the highest that it may have."""
        return self.at if self.at >= 0 else self.place


@dataclass(eq=False)
class Queue:
    """One queue from its declaration to its end: another of the same name is another.

    promised  its declaration was answered
    ending    the deletion was taken in; `ended`: and answered
    users     consumers, and whoever got something by itself
    careless  those without acknowledgements: what they are sent is settled, whether it comes or not
    returns   how often something may have come back to it
    came      how many messages have come
    governed  the lowest that policies have set since all was last compared
    moves     how often it has gone on elsewhere: groups of work queues do
    read_to   of a stream: the highest offset that its group of readers was handed
    put_off   delayed messages of the whole broker that may come at any time
    source    of a view: its stream
    replaced_below  by key of a last-value queue: a later message than that was there, and is gone
    """

    id: int
    name: str
    arguments: dict[str, object]
    promised: bool = False
    ending: bool = False
    ended: bool = False
    users: int = 0
    careless: int = 0
    was_careless: bool = False
    returns: int = 0
    came: int = 0
    read_to: int = -1
    moves: int = 0
    governed: dict[str, int] = field(default_factory=dict)
    copies: dict[int, Copy] = field(default_factory=dict)
    put_off: set[int] = field(default_factory=set)
    source: Queue | None = None
    replaced_below: dict[int, int] = field(default_factory=dict)

    def takes(self, message: Message) -> bool:
        """Whether a view has a message that comes into its stream."""
        return "x-filter" not in self.arguments or message.label == PICKED_LABEL

    @property
    def has_keys(self) -> bool:
        """Whether it keeps the latest of each key."""
        return LAST_VALUE_KEY in self.arguments

    def is_replaced(self, copy: Copy, now_us: int = -1) -> bool:
        """Whether a later message of its key may have replaced one; with a time, one that was there by all means."""
        if not self.has_keys:
            return False
        key = key_of(copy.message)
        if copy.place < self.replaced_below.get(key, 0):
            return True
        for other in self.copies.values():
            is_later = other.place > copy.place or other.place < 0 or copy.place < 0
            was_there = now_us < 0 or other.found or other.settled or self.is_over(other, now_us)
            if other is not copy and key_of(other.message) == key and is_later and was_there:
                return True
        return False

    def number_of(self, argument: str) -> int:
        found = self.arguments.get(argument, NEVER)
        assert isinstance(found, int)
        return min(found, self.governed.get(argument, NEVER))

    @property
    def is_stream(self) -> bool:
        return self.arguments.get("x-queue-type") == "stream"

    @property
    def is_transient(self) -> bool:
        return self.name in (TRANSIENT, OWN)

    @property
    def rejects(self) -> bool:
        """Whether it refuses what it has no room for."""
        return "x-overflow" in self.arguments

    @property
    def deliveries_max(self) -> int:
        """How often clients may get one message, whatever becomes of the broker."""
        return 1 if "x-semantics" in self.arguments else self.number_of("x-max-deliveries")

    @property
    def keeps_dead(self) -> bool:
        """Whether what has died stays until it is elsewhere."""
        return "x-dead-letter-strategy" in self.arguments

    @property
    def rests(self) -> bool:
        """Whether what comes back waits before it is delivered again."""
        return "x-delayed-retry-type" in self.arguments

    def may_go(self, copy: Copy, now_us: int) -> bool:
        """Whether the queue itself may have ended a message that nobody has settled."""
        return self.is_replaced(copy) or self.is_over(copy, now_us)

    def is_over(self, copy: Copy, now_us: int) -> bool:
        """Whether a message may have ended without a later one of its key."""
        lives_ms = min(self.number_of("x-message-ttl"), copy.lives_ms, copy.message.expiry_ms)
        if now_us - copy.came_us >= lives_ms * 1000:
            return True
        most = self.number_of("x-max-length")
        if not self.rejects and (
            copy.place + most < self.came + len(self.put_off) or (copy.place < 0 and most < NEVER)
        ):
            return True
        limit = self.number_of("x-delivery-limit")
        if self.arguments.get("x-queue-type") == "quorum":
            limit = min(limit, DELIVERY_LIMIT)
        returns = self.returns - copy.returns
        return returns > limit or returns >= min(self.number_of("x-max-deliveries"), self.number_of("x-max-cancels"))

    def must_have(self, number: int, now_us: int) -> bool:
        """Whether a message that came here is here still."""
        copy = self.copies[number]
        is_gone = (
            copy.settled or copy.vague or self.was_careless or self.is_transient or "x-semantics" in self.arguments
        )
        return not (is_gone or self.may_go(copy, now_us))

    def __str__(self) -> str:
        return f"queue {self.name} (number {self.id})"


def key_of(message: Message) -> int:
    """The key of a message in a last-value queue."""
    return len(message.body) % LATEST_KEYS


@dataclass(eq=False)
class Bound:
    """A binding: promised when it was answered, gone when its end was answered."""

    promised: bool = False
    ending: bool = False
    ended: bool = False


@dataclass(eq=False)
class Delayed:
    """A message whose time is yet to come.

    left  it has come: it went to queues, in the frame of that number
    """

    message: Message
    exchange: str
    key: str
    due_us: int
    left: Settlement | None = None
    vague: bool = False
