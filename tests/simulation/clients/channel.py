"""The octets of AMQP 0.9.1 that a simulated client says on its channel, and what it knows of its deliveries."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import method, number, short, table
from tests.simulation.kinds import GROUPED, KEEPERS, READERS, rejects
from tests.simulation.model.model import Model
from tests.simulation.model.promises import NEVER, check
from tests.simulation.model.queues import Copy, Message, Queue

PLAIN, CONFIRMS, TRANSACTIONS = "plain", "confirms", "transactions"
TX_SELECT, TX_SELECT_OK = (90, 10), (90, 11)
TX_COMMIT, TX_COMMIT_OK, TX_ROLLBACK, TX_ROLLBACK_OK = (90, 20), (90, 21), (90, 30), (90, 31)
BIND, BIND_OK, PURGE, PURGE_OK, DELETE, DELETE_OK = (50, 20), (50, 21), (50, 30), (50, 31), (50, 40), (50, 41)
UNBIND, UNBIND_OK = (50, 50), (50, 51)
LOGIN: Final = table(raw.CLIENT) + short("PLAIN") + raw.long("\0guest\0guest") + short("en_US")
NO_ACK: Final = 2
OFFSET: Final = b"\x0fx-stream-offsetl"  # and eight octets
NO_GET: Final = ("stream", "single", GROUPED)  # basic.get is refused there, or takes it from no named group
NOT_FOUND, PRECONDITION = 404, 406

READER_OF: Final = {"a0": READERS, "a1": KEEPERS}  # who reads streams in a group, of which it is the only one
KEEPER_COMMITS: Final = "$queue/stream/$commit"
RESENT_MAX: Final = 6  # publishes that may be repeated
RESENT_US: Final = 200_000_000
LABELS: Final = ("odd", "even")


def opening(vhost: str = "/") -> bytes:
    """The octets by which a client comes to have a channel in a vhost."""
    tuned = method(0, raw.TUNE_OK, number(10, 2) + number(131072, 4) + number(0, 2))
    opened = method(0, raw.OPEN, short(vhost) + b"\0\0") + method(1, raw.CHANNEL_OPEN, b"\0")
    return raw.HEADER + method(0, raw.START_OK, LOGIN) + tuned + opened


@dataclass(eq=False)
class Taken:
    """A delivery that is not settled."""

    queue: Queue
    number: int
    moves: int = 0  # of the queue, when it came

    @property
    def is_held(self) -> bool:
        """Whether it may be settled: of what goes on elsewhere nothing is."""
        return self.moves == self.queue.moves


@dataclass(eq=False)
class Consuming:
    """A consumer.

    label  what its filter wants; all where it has none
    group  of readers of a stream; it reads on from where that was
    work   the group of a work queue that it is in
    moves  how often its queue had gone on elsewhere when it was last handed something
    turns  it may begin anew once: what was delivered before its queue went on elsewhere may have waited for the disk
    begin  the first offset that it has to get, where that is known
    last   the highest in place that it was handed for the first time, by priority
    """

    queue: Queue | None = None
    no_ack: bool = False
    label: str = ""
    group: str = ""
    work: str = ""
    moves: int = 0
    turns: bool = False
    begin: int = -1
    last: dict[int, Copy] = field(default_factory=dict)

    def check_redelivered(self, who: str, copy: Copy, redelivered: bool) -> None:
        """Nobody has had a message that is not marked."""
        queue = self.queue
        assert queue is not None
        if not queue.is_stream and not queue.moves:  # a group that goes on elsewhere begins anew
            text = f"{who} got message {copy.message.number} of {queue} again, and it is not marked"
            check(redelivered or not copy.taken, text)
            copy.taken = True

    def check_place(self, model: Model, who: str, copy: Copy, came_back: bool) -> None:
        """It is what the consumer wants, and behind what it was handed before, unless it came back from a consumer."""
        message = copy.message
        queue = self.queue
        assert queue is not None
        if self.moves != queue.moves:
            self.moves = queue.moves
            self.turns = True
            self.last.clear()
        text = f"{who} got message {message.number} of {queue}"
        check(self.label in ("", message.label), f"{text}, which its filter does not want")
        before = self.last.get(message.priority)
        if queue.is_stream:
            self.check_stream(model, text, copy, self.before(queue, copy) if before is None else before.at)
        elif came_back or copy.place < 0:
            return
        elif before is not None and copy.place <= before.place:
            check(self.turns, f"{text} behind a later one")
            self.turns = False
            self.last.clear()
        self.last[message.priority] = copy

    def before(self, queue: Queue, copy: Copy) -> int:
        """The offset before the first that is delivered."""
        if self.group == KEEPERS:
            return self.begin - 1 if self.begin >= 0 else copy.at - 1
        return min(queue.read_to, copy.at - 1) if self.group else -1

    def check_stream(self, model: Model, text: str, copy: Copy, last: int) -> None:
        queue = self.queue
        assert queue is not None
        if self.group == READERS:
            queue.read_to = max(queue.read_to, copy.at)
        check(copy.at > last, f"{text} behind a later one")
        if copy.at > last + 1 and not (model.is_tight or model.put_off or queue.was_careless):
            for each in queue.copies.values():
                is_wanted = self.label in ("", each.message.label) and each.message.expiry_ms == NEVER
                is_wanted = is_wanted and not each.vague and not each.settled
                check(not (is_wanted and last < each.offset < copy.at), f"{text}, and was not given one before")


def may_be_named(mode: str, exchange: str, key: str) -> bool:
    """Whether a publish may have a name by which the broker knows it again: the model follows it to one queue."""
    return not exchange and mode != TRANSACTIONS and not rejects(key) and key != GROUPED


def names_of(chance: Random, who: str, message: Message) -> dict[str, object]:
    """The headers by which the broker knows that it has a message already."""
    if chance.random() < 0.5:
        return {"x-producer-id": who, "x-sequence": message.number}
    return {"x-deduplication-key": f"{who} {message.number}"}


@dataclass(eq=False)
class Sent:
    """A publish with a name by which the broker knows it again."""

    message: Message
    key: str
    properties: bytes
    sent_us: int


def packed(headers: dict[str, object], priority: int, expiry_ms: int) -> bytes:
    """Flags and values of a persistent message."""
    flags, values = 0x1000, b""
    if headers:
        flags |= 0x2000
        values += table(headers)
    values += b"\x02"
    if priority:
        flags |= 0x0800
        values += number(priority, 1)
    if expiry_ms:
        flags |= 0x0100
        values += short(str(expiry_ms))
    return number(flags, 2) + values
