"""What has to be in the queues, as somebody knows who sees in which order the broker takes everything in.

The model follows the broker octet by octet: what has been taken in counts at once, what was answered is promised, and
of the rest a crash may leave nothing. After a crash, and whenever nothing is on its way, it is held against what is
stored; what then was uncertain no longer is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.broker import Broker, StoredQueue

NEVER: Final = 1 << 62
UNKNOWN: Final = -1
DELIVERY_LIMIT: Final = 20  # of a quorum queue that names none


class Wrong(AssertionError):
    """The broker has not done what it promised."""


def check(holds: bool, text: str) -> None:
    if not holds:
        raise Wrong(text)


@dataclass(eq=False)
class Message:
    """Something published: `number` is in its body.

    transaction  those of one are there together, or none of them is
    promised     the broker has answered that it has it; `refused`: that it has not
    taken        in which of the broker's lives it was taken in last; UNKNOWN if it may have been
    topic        where to it was published, if to topics
    qos          at which it was published
    late         it is delayed
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


@dataclass(eq=False)
class Settlement:
    """Something was settled, and must not come back once `mark` is durable: NEVER until the turn has ended."""

    mark: int = NEVER


@dataclass(eq=False)
class Copy(Settlement):
    """A message in a queue.

    came_us  when it was taken in
    place    how many came to this queue before it; -1 of a dead letter
    returns  of the queue, when it came
    settled  somebody has settled it
    died     it is settled, and goes where the dead letters of its queue go
    vague    nobody knows whether it is there
    found    it is stored, at the place `at`
    """

    message: Message = field(default_factory=lambda: Message(0, "", b""))
    came_us: int = 0
    place: int = 0
    returns: int = 0
    settled: bool = False
    died: bool = False
    vague: bool = False
    found: bool = False
    at: int = 0


@dataclass(eq=False)
class Queue:
    """One queue from its declaration to its end: another of the same name is another.

    promised  its declaration was answered
    ending    the deletion was taken in; `ended`: and answered
    users     consumers, and whoever got something by itself
    careless  those without acknowledgements: what they are sent is settled, whether it comes or not
    returns   how often something may have come back to it
    came      how many messages have come
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
    copies: dict[int, Copy] = field(default_factory=dict)

    def number_of(self, argument: str) -> int:
        found = self.arguments.get(argument, NEVER)
        assert isinstance(found, int)
        return found

    @property
    def is_stream(self) -> bool:
        return self.arguments.get("x-queue-type") == "stream"

    def may_go(self, copy: Copy, now_us: int) -> bool:
        """Whether the queue itself may have ended a message that nobody has settled."""
        if now_us - copy.came_us >= self.number_of("x-message-ttl") * 1000:
            return True
        if copy.place + self.number_of("x-max-length") < self.came or (
            copy.place < 0 and "x-max-length" in self.arguments
        ):
            return True
        limit = self.number_of("x-delivery-limit")
        if self.arguments.get("x-queue-type") == "quorum":
            limit = min(limit, DELIVERY_LIMIT)
        return self.returns - copy.returns > limit

    def __str__(self) -> str:
        return f"queue {self.name} (number {self.id})"


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


class Subscriber(ABC):
    """Somebody to whom what is published to topics may be owed."""

    @abstractmethod
    def published(self, message: Message) -> None:
        """The broker has taken in a message of a topic."""

    @abstractmethod
    def restarted(self, durable: int) -> None:
        """The broker has started again; what was durable before is there."""


class Model:
    """All queues and messages of one broker's life.

    queues  those that there are, by name
    known   by number, also those of which nobody can say whether a crash would leave them
    past    those that are no more, whose dead letters may be there
    """

    def __init__(self) -> None:
        self.broker: Broker | None = None
        self.queues: dict[str, Queue] = {}
        self.known: dict[int, Queue] = {}
        self.past: list[Queue] = []
        self.bound: dict[tuple[str, int, str], Bound] = {}
        self.messages: dict[int, Message] = {}
        self.next_message = 1
        self.next_transaction = 1
        self.settled: list[Settlement] = []  # in this turn
        self.subscribers: list[Subscriber] = []
        self.delayed: dict[int, Delayed] = {}
        self.put_off: set[int] = set()  # delayed messages for which there was perhaps no room when their time had come
        self.life = 1
        self.doubts = False  # what comes now may not have been heeded
        self.is_tight = False  # the disk has, or had in this life of the broker, little room
        self.now_us = 0
        self.checked = 0

    # ---- what the broker takes in

    def declared(self, name: str, arguments: dict[str, object]) -> Queue:
        """The queue that a declaration makes, or finds."""
        assert self.broker is not None
        queue = self.queues.get(name)
        if queue is None:
            # Where what came next has deleted it, there is none any more; nor may there be later.
            id = self.broker.queue_id(name) or -self.next_message
            queue = self.queues[name] = Queue(id, name, arguments)
            if id > 0:
                self.known[id] = queue
        return queue

    def deleted(self, queue: Queue) -> None:
        queue.ending = True
        if self.queues.get(queue.name) is queue:
            del self.queues[queue.name]
        for (_, id, _), bound in self.bound.items():
            if id == queue.id:
                bound.ending = True

    def bind(self, exchange: str, queue: Queue, key: str) -> Bound:
        there = self.bound.get((exchange, queue.id, key))
        if there is None or there.ending:
            there = self.bound[exchange, queue.id, key] = Bound()
        return there

    def new_message(self, publisher: str, padding: int) -> Message:
        number = self.next_message
        self.next_message += 1
        message = Message(number, publisher, b"%d;" % number + b"." * padding)
        self.messages[number] = message
        return message

    def published(self, message: Message, exchange: str, key: str) -> None:
        """A message goes where it leads now. One that comes again is not taken again, if the broker can know it."""
        is_new = message.taken == 0
        if message.taken == self.life:
            return
        message.taken = UNKNOWN if self.doubts else self.life
        for queue in self.routed(exchange, key):
            there = queue.copies.get(message.number)
            if there is None or there.settled:
                self.put(queue, message)
                queue.copies[message.number].vague = not is_new or self.doubts
            elif not is_new:
                there.place = -1  # it may have come only now
        if exchange:
            message.topic = key
            for subscriber in self.subscribers if is_new and not self.doubts else []:
                subscriber.published(message)

    def delay(self, message: Message, exchange: str, key: str, delay_ms: int) -> None:
        """A message is to go there later."""
        message.late = True
        message.topic = key if exchange else ""
        self.delayed[message.number] = Delayed(message, exchange, key, self.now_us + delay_ms * 1000)

    def release(self) -> None:
        """The broker has looked whose time has come."""
        due = [each for each in self.delayed.values() if each.left is None and each.due_us <= self.now_us]
        for each in sorted(due, key=lambda each: each.due_us):
            number = each.message.number
            each.left = Settlement()
            self.settled.append(each.left)
            if self.is_tight or each.message.refused:
                self.put_off.add(number)
                del self.delayed[number]
                continue
            each.message.taken = 0
            self.published(each.message, each.exchange, each.key)
            for queue in self.routed(each.exchange, each.key):
                if not queue.is_stream:
                    queue.copies[number].place = -1
                queue.copies[number].vague = each.vague

    def check_delayed(self, durable: int) -> None:
        """After a restart a message is where it went, or still waits."""
        for number, each in list(self.delayed.items()):
            if each.left is None:
                each.vague = not each.message.promised
                continue
            copies = [queue.copies[number] for queue in self.known.values() if number in queue.copies]
            if each.left.mark <= durable or any(copy.found or copy.settled for copy in copies):
                del self.delayed[number]
            else:
                each.left = None
                for copy in copies:
                    copy.vague = True

    def routed(self, exchange: str, key: str) -> list[Queue]:
        if not exchange:
            return [self.queues[key]] if key in self.queues else []
        names = [
            queue.name
            for queue in self.queues.values()
            for (source, id, pattern), bound in self.bound.items()
            if source == exchange and id == queue.id and not bound.ending and pattern in (key, "#")
        ]
        return [self.queues[name] for name in sorted(set(names))]

    def put(self, queue: Queue, message: Message) -> None:
        copy = Copy(NEVER, message, self.now_us, queue.came, queue.returns)
        queue.copies[message.number] = copy
        queue.came += 1

    def settle(self, queue: Queue, number: int, died: bool = False) -> None:
        copy = queue.copies.get(number)
        if copy is not None and not copy.settled:
            copy.settled = True
            copy.died = died
            copy.mark = NEVER
            self.settled.append(copy)

    def purged(self, queue: Queue) -> list[Copy]:
        """Everything is settled but what is handed out, of which nobody knows."""
        waits = self.is_tight and self.dead(queue) is not None  # what has died may wait for room elsewhere
        if queue.users or waits:
            queue.was_careless = True
            return []
        gone = [copy for copy in queue.copies.values() if not copy.settled]
        for copy in gone:
            self.settle(queue, copy.message.number)
        return gone

    def turned(self, mark: int) -> None:
        """A turn has ended: what it settled is in the frame of that number."""
        for copy in self.settled:
            copy.mark = mark
        self.settled.clear()

    # ---- what clients get

    def delivered(self, queue: Queue, body: bytes, who: str) -> int:
        """Somebody gets a message; its number."""
        number = number_of(body)
        message = self.messages.get(number)
        check(message is not None and message.body == body, f"{who} got {body[:40]!r}, which nobody has published")
        copy = queue.copies.get(number)
        if copy is None:
            copy = self.arrived(queue, number)
            copy.vague = True  # a crash may leave a dead letter where it was
        check(not copy.settled, f"{who} got message {number} from {queue}, and it was settled there")
        return number

    # ---- against what is stored

    def audit(self, restarted: bool, durable: int = NEVER) -> None:
        """Compare with what is stored; from then on that is certain.

        durable  what was on the disk before the restart, as far as the broker knew
        """
        broker = self.broker
        assert broker is not None
        self.checked += 1
        self.check_queues(broker, restarted)
        self.check_bindings(broker)
        stored = {id: broker.stored(id) for id in self.known}
        for queue in self.known.values():
            found = stored[queue.id]
            assert found is not None
            self.check_found(queue, found, durable, restarted)
        if restarted:
            self.check_delayed(durable)
        for queue in self.known.values():
            self.check_missing(queue, restarted)
        self.check_dead(restarted, durable)
        if restarted:
            self.life += 1
            self.is_tight = False
            self.check_transactions()
            for subscriber in self.subscribers:
                subscriber.restarted(durable)
        for queue in self.known.values():
            self.resolve(queue, restarted)

    def check_queues(self, broker: Broker, restarted: bool) -> None:
        for queue in list(self.known.values()):
            found = broker.stored(queue.id)
            if found is None:
                check(queue.ending or not queue.promised, f"{queue} was declared and answered, and is not there")
                self.past.append(self.known.pop(queue.id))
                if self.queues.get(queue.name) is queue:
                    del self.queues[queue.name]
            else:
                check(not queue.ended, f"{queue} was deleted and answered, and is there again")
                check(restarted or not queue.ending, f"{queue} was deleted, and is there")
                queue.promised = True
                queue.ending = False
                self.queues[queue.name] = queue
        for name, queue in self.queues.items():
            check(broker.queue_id(name) == queue.id, f"{queue} is not the one of that name")

    def check_bindings(self, broker: Broker) -> None:
        there = broker.bindings()
        for key, bound in list(self.bound.items()):
            if key in there:
                check(not bound.ended, f"binding {key} was removed and answered, and is there again")
                bound.promised = True
                bound.ending = False
            else:
                gone = bound.ending or not bound.promised or key[1] not in self.known
                check(gone, f"binding {key} was made and answered, and is not there")
                del self.bound[key]

    def check_found(self, queue: Queue, stored: StoredQueue, durable: int, restarted: bool) -> None:
        """What one queue has, against what it may have."""
        for each in queue.copies.values():
            each.found = False
        order = -1
        for at, body in enumerate(stored.bodies):
            number = number_of(body)
            message = self.messages.get(number)
            check(message is not None and message.body == body, f"{queue} has {body[:40]!r}: nobody published that")
            copy = queue.copies.get(number) or self.arrived(queue, number)
            check(not copy.found, f"{queue} has message {number} twice")
            copy.found = True
            copy.at = at
            if copy.place >= 0 and not self.is_tight:
                check(copy.place > order, f"{queue} has message {number} behind a later one")
                order = copy.place
            if copy.settled and not copy.died:
                check(copy.mark > durable, f"{queue} has message {number}, which was settled, and that was on the disk")
                check(restarted, f"{queue} has message {number}, which was settled")
            check(not copy.message.refused, f"{queue} has message {number}, which was refused")
        count = len(stored.bodies)
        check(stored.counted == count, f"{queue} counts {stored.counted} messages, and {count} can be read")

    def check_missing(self, queue: Queue, restarted: bool) -> None:
        """What one queue has not, against what it must have."""
        broker = self.broker
        assert broker is not None
        for number, copy in queue.copies.items():
            if copy.found or copy.settled:
                continue
            copy.settled = True
            copy.mark = broker.mark()
            if copy.vague or queue.was_careless:
                continue
            if not copy.message.promised and (restarted or broker.was_full):
                continue  # it never was there
            copy.died = True
            promise = "which was confirmed" if copy.message.promised else "which nobody has taken"
            check(queue.may_go(copy, self.now_us), f"{queue} has lost message {number}, {promise}")

    def arrived(self, queue: Queue, number: int) -> Copy:
        """A message is in a queue where nobody has put it: it came as a dead letter, or not by right."""
        for other in (*self.known.values(), *self.past):
            copy = other.copies.get(number)
            if self.dead(other) is queue and copy is not None and (copy.died or other.may_go(copy, self.now_us)):
                copy.settled = copy.died = True
                made = queue.copies[number] = Copy(NEVER, copy.message, self.now_us, -1, queue.returns)
                return made
        if number in self.put_off:
            queue.came += 1
            made = queue.copies[number] = Copy(NEVER, self.messages[number], 0, -1, queue.returns)
            return made
        raise Wrong(f"{queue} has message {number}, which never came there or is gone for good")

    def dead(self, queue: Queue) -> Queue | None:
        """The queue that takes its dead letters."""
        return self.queues.get(str(queue.arguments.get("x-dead-letter-routing-key")))

    def check_dead(self, restarted: bool, durable: int) -> None:
        """A dead letter is in exactly one of the two queues."""
        for queue in self.known.values():
            target = self.dead(queue)
            if target is None:
                continue
            for number, copy in queue.copies.items():
                there = target.copies.get(number)
                is_there = there is not None and (there.found or there.settled)
                is_both = there is not None and (there.found or (there.settled and there.mark <= durable))
                check(not (copy.found and is_both), f"message {number} is in {queue} and, dead, in {target}")
                if copy.died and not copy.found and (copy.message.promised or not restarted):
                    check(is_there or target.was_careless, f"message {number} has died in {queue}, and is nowhere")

    def check_transactions(self) -> None:
        """Of a transaction that was not answered everything is there, or nothing."""
        there: dict[int, set[bool]] = {}
        for queue in self.known.values():
            for copy in queue.copies.values():
                if copy.message.transaction and not copy.settled and not copy.died:
                    there.setdefault(copy.message.transaction, set()).add(copy.found)
        for transaction, states in there.items():
            check(len(states) == 1, f"of transaction {transaction} a part is there, and a part is not")

    def resolve(self, queue: Queue, restarted: bool) -> None:
        """What was found is certain, and what was not is gone."""
        assert self.broker is not None
        durable = self.broker.durable()
        gone: list[int] = []
        for copy in queue.copies.values():
            if copy.found:
                if restarted or not copy.died:  # else it waits until there is room where it goes
                    copy.settled = copy.died = False
                copy.vague = False
                copy.message.promised = True
                copy.message.taken = self.life
            elif copy.mark > durable and not restarted:
                copy.died = False  # a crash may undo it
            else:
                gone.append(copy.message.number)
        for number in gone:
            del queue.copies[number]
        queue.was_careless = queue.careless > 0
        if queue.is_stream:
            queue.came = len(queue.copies)
            for copy in queue.copies.values():
                copy.place = copy.at


def number_of(body: bytes) -> int:
    digits = body.partition(b";")[0]
    return int(digits) if digits.isdigit() else 0
