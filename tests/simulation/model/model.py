"""What has to be in the queues, as somebody knows who sees in which order the broker takes everything in.

The model follows the broker octet by octet: what has been taken in counts at once, what was answered is promised, and
of the rest a crash may leave nothing. After a crash, and whenever nothing is on its way, it is held against what is
stored (`audit.py`); what then was uncertain no longer is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from tests.simulation.broker import Inside
from tests.simulation.kinds import DEAD_KEY, GOVERNED, GROUPED, matches
from tests.simulation.model.facts import Change, Facts
from tests.simulation.model.groups import Group, Groups
from tests.simulation.model.promises import NEVER, Settlement, Wrong, check
from tests.simulation.model.queues import UNKNOWN, Bound, Copy, Delayed, Message, Queue
from tests.simulation.model.shares import Shares
from tests.simulation.model.wills import Wills


class Subscriber(ABC):
    """Somebody to whom what is published to topics may be owed."""

    @abstractmethod
    def published(self, message: Message) -> None:
        """The broker has taken in a message of a topic."""

    @abstractmethod
    def restarted(self, durable: int) -> None:
        """The broker has started again; what was durable before is there."""

    @abstractmethod
    def undone(self, number: int) -> None:
        """A message is still to be published, or again."""

    @abstractmethod
    def replaced(self, topic: str) -> None:
        """Another message is retained on a topic now, or none."""


class Numbers:
    """The numbers of messages and transactions: no vhost has one of another's."""

    def __init__(self) -> None:
        self.next = 1
        self.next_transaction = 1


class Model:
    """All queues and messages of one vhost's life.

    promised  the vhost's making was answered
    ending    its deletion was taken in; `ended`: and answered
    queues  those that there are, by name
    known   by number, also those of which nobody can say whether a crash would leave them
    past    those that are no more, whose dead letters may be there
    """

    def __init__(self, name: str = "/", numbers: Numbers | None = None) -> None:
        self.name: Final = name
        self.numbers: Final = Numbers() if numbers is None else numbers
        self.promised = name == "/"
        self.ending = False
        self.ended = False
        self.broker: Inside | None = None
        self.groups: dict[Queue, Groups] = {}
        self.queues: dict[str, Queue] = {}
        self.known: dict[int, Queue] = {}
        self.past: list[Queue] = []
        self.bound: dict[tuple[str, int, str], Bound] = {}
        self.messages: dict[int, Message] = {}
        self.settled: list[Settlement] = []  # in this turn
        self.subscribers: list[Subscriber] = []
        self.delayed: dict[int, Delayed] = {}
        self.put_off: set[int] = set()  # delayed messages for which there was perhaps no room when their time had come
        self.users = Facts("user")
        self.permissions = Facts("permission of")
        self.policies = Facts("policy")
        self.retained = Facts("retained message of")
        self.places = Facts("place of")
        self.wills = Wills(self)
        self.shares = Shares()
        self.life = 1
        self.doubts = False  # what comes now may not have been heeded
        self.is_tight = False  # the disk has, or had in this life of the broker, little room
        self.now_us = 0

    # ---- what the broker takes in

    def declared(self, name: str, arguments: dict[str, object]) -> Queue:
        """The queue that a declaration makes, or finds."""
        assert self.broker is not None
        queue = self.queues.get(name)
        if queue is None:
            # Where what came next has deleted it, there is none any more; nor may there be later.
            id = self.broker.queue_id(name) or -self.numbers.next
            source = self.queues.get(str(arguments.get("x-source", "")))
            queue = Queue(id, name, arguments, put_off=self.put_off, source=source)
            if id < 0 and self.doubts:
                return queue  # it was made and deleted, or the broker has never heeded who asked for it
            self.queues[name] = queue
            if name == GOVERNED:
                self.govern(queue)
            if name == GROUPED:
                self.groups[queue] = Groups(self, queue)
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
        for name in self.places.names():
            if name.startswith(place_of(queue, "")):
                self.places.change(name, None, self.doubts)

    def reads(self, queue: Queue, group: str) -> int:
        """A group that says itself where it is begins to read a stream; its place, -1 where that is in doubt."""
        assert self.broker is not None
        name = place_of(queue, group)
        if self.places.value(name) is None and not self.doubts:
            first = self.broker.places(group).get(name, 0)  # a purge may have taken what was before
            assert isinstance(first, int)
            for copy in queue.copies.values() if not queue.was_careless else []:
                skipped = 0 <= copy.offset < first  # below 0: nobody knows where it is
                check(copy.settled or copy.vague or not skipped, f"{name} does not begin at the first record")
            self.places.change(name, first)
        place = self.places.value(name)
        return place if isinstance(place, int) and self.places.is_sure(name) and not self.doubts else -1

    def stays(self, queue: Queue, group: str, offset: int) -> Change:
        """A group has said where it goes on."""
        return self.places.change(place_of(queue, group), offset, self.doubts)

    def groups_there(self) -> Groups | None:
        """The groups of the work queue that has some, if it is there."""
        queue = self.queues.get(GROUPED)
        return None if queue is None else self.groups[queue]

    def group_names(self) -> list[str]:
        groups = self.groups_there()
        return [] if groups is None else list(groups.by_name)

    def bind(self, exchange: str, queue: Queue, key: str) -> Bound:
        there = self.bound.get((exchange, queue.id, key))
        if there is None or there.ending:
            there = self.bound[exchange, queue.id, key] = Bound()
        return there

    def new_message(self, publisher: str, padding: int) -> Message:
        number = self.numbers.next
        self.numbers.next += 1
        message = Message(number, publisher, b"%d;" % number + b"." * padding)
        self.messages[number] = message
        return message

    def published(self, message: Message, exchange: str, key: str) -> None:
        """A message goes where it leads now. One that comes again is not taken again, if the broker can know it."""
        is_new = message.taken == 0
        if self.has(message):
            return
        message.late = message.late or self.is_tight  # it may be refused, and come behind others
        message.taken = UNKNOWN if self.doubts else self.life
        queues = self.routed(exchange, key, message)
        message.routed = bool(queues)
        for queue in queues:
            there = queue.copies.get(message.number)
            if there is None or there.settled:
                self.put(queue, message)
                is_silent = message.is_silent and queue.rejects
                queue.copies[message.number].vague = not is_new or self.doubts or is_silent
                if queue in self.groups:
                    self.groups[queue].published(message)
            elif not is_new:
                there.place = -1  # it may have come only now,
                queue.came += 1  # and then it takes the place of one more
        if exchange:
            message.topic = key
            share = self.shares.of_topic(key)
            if share is not None and is_new and not self.doubts:
                share.published(message)
            for subscriber in self.subscribers if is_new and not self.doubts else []:
                subscriber.published(message)

    def has(self, message: Message) -> bool:
        """Whether the broker has taken a message already; without room it may have refused it, and its word be lost."""
        return message.taken == self.life and not self.is_tight

    def repeated(self, message: Message, exchange: str, key: str) -> None:
        """A publish comes again under a name by which the broker knows whether it has it."""
        if message.refused or not message.routed:  # then it was not taken, and what answers that promises nothing
            message.taken, message.refused, message.promised = 0, False, False
        elif message.promised:
            return
        self.published(message, exchange, key)
        for queue in self.routed(exchange, key, message):  # a later one of its producer may have come in between
            if message.number in queue.copies and not queue.copies[message.number].found:
                queue.copies[message.number].vague = True

    def retain(self, message: Message, topic: str, value: int | None) -> Change | None:
        """A message is retained, or with None what is retained goes; None where the broker knows it already."""
        if self.has(message):
            return None
        vague = message.taken != 0 or self.doubts or self.is_tight
        for subscriber in self.subscribers:
            subscriber.replaced(topic)
        return self.retained.change(topic, value, vague)

    def changed(self, facts: Facts, name: str, value: object) -> list[Change]:
        """Do what follows from a change of an administrator; further changes that its answer promises."""
        if facts is self.users and value is None:
            return [self.permissions.change(name, None, self.doubts)]
        if facts is self.policies and GOVERNED in self.queues:
            self.govern(self.queues[GOVERNED])
        return []

    def govern(self, queue: Queue) -> None:
        """Reckon with the lowest of everything that policies say, or may have said."""
        values = [each.value for changes in self.policies.changes.values() for each in changes]
        for value in values:
            if isinstance(value, tuple):
                for key, number in value[0].items():
                    queue.governed[f"x-{key}"] = min(number, queue.governed.get(f"x-{key}", NEVER))
        lives_ms = queue.governed.get("x-message-ttl", NEVER)
        for copy in queue.copies.values():
            copy.lives_ms = min(copy.lives_ms, lives_ms)

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
            if each.vague:
                self.undone(number)  # perhaps it was published before the crash: then it does not come again
            for queue in self.routed(each.exchange, each.key, each.message):
                if not queue.is_stream:
                    queue.copies[number].place = -1
                queue.copies[number].vague = each.vague or queue.rejects

    def undone(self, number: int) -> None:
        """A crash has undone that a delayed message was published: it still waits."""
        for subscriber in self.subscribers:
            subscriber.undone(number)
        for share in self.shares.by_filter.values():
            share.owed.pop(number, None)

    def tighten(self) -> None:
        """The disk is full from now on: also for what the broker is about to publish."""
        self.is_tight = True
        self.wills.tighten()
        self.put_off |= {number for number, each in self.delayed.items() if each.left is not None}

    def pass_on(self, waiting: set[int]) -> None:
        """Of delayed messages that were put off these wait on; the others are over, and may have been in any queue."""
        over = self.put_off - waiting
        self.put_off -= over
        for queue in self.known.values():
            queue.came += len(over)

    def turn_back(self) -> None:
        """The clock goes back; what may have expired by now may have done so for good."""
        groups = [group for each in self.groups.values() for group in each.known.values()]
        for queue in (*self.known.values(), *groups):
            for copy in queue.copies.values():
                if queue.may_go(copy, self.now_us):
                    copy.came_us = 0

    def routed(self, exchange: str, key: str, message: Message) -> list[Queue]:
        """The queues that a message goes to, and the views of those that are streams."""
        found = self.bound_to(exchange, key)
        views = [queue for queue in self.queues.values() if queue.source in found and queue.source is not None]
        return [*found, *(view for view in views if view.takes(message))]

    def bound_to(self, exchange: str, key: str) -> list[Queue]:
        if not exchange:
            return [self.queues[key]] if key in self.queues else []
        names = [
            queue.name
            for queue in self.queues.values()
            for (source, id, pattern), bound in self.bound.items()
            if source == exchange and id == queue.id and not bound.ending and matches(pattern, key)
        ]
        return [self.queues[name] for name in sorted(set(names))]

    def put(self, queue: Queue, message: Message) -> None:
        lives_ms = queue.governed.get("x-message-ttl", NEVER)
        copy = Copy(NEVER, message, self.now_us, queue.came, queue.returns, lives_ms)
        queue.copies[message.number] = copy
        queue.came += 1

    def settle(self, queue: Queue, number: int, died: bool = False) -> None:
        copy = queue.copies.get(number)
        if copy is not None and not copy.settled:
            copy.settled = True
            copy.died = died
            copy.mark = NEVER
            self.settled.append(copy)
            if isinstance(queue, Group):
                queue.of.settled(number)

    def purged(self, queue: Queue) -> list[Copy]:
        """Everything is settled but what is delivered, of which nobody knows."""
        # What has died may wait for room elsewhere, and what came back for its time.
        waits = queue.keeps_dead or queue.rests or (self.is_tight and self.dead(queue) is not None)
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
        check(not copy.settled or copy.is_sent, f"{who} got message {number} from {queue}, and it was settled there")
        copy.is_sent = False
        copy.deliveries += 1
        most = queue.deliveries_max
        check(copy.deliveries <= most, f"{who} got message {number} from {queue}, which {most} deliveries were to end")
        assert self.broker is not None and message is not None
        message.promised = message.promised or self.broker.delivers_committed
        return number

    def arrived(self, queue: Queue, number: int) -> Copy:
        """A message is in a queue where nobody has put it: it came as a dead letter, or not by right."""
        for other in (*self.known.values(), *self.past):
            copy = other.copies.get(number)
            if self.dead(other) is queue and copy is not None and (copy.died or other.may_go(copy, self.now_us)):
                copy.settled = copy.died = True
                made = queue.copies[number] = Copy(NEVER, copy.message, self.now_us, -1, queue.returns)
                made.source = other
                return made
        if number in self.put_off:
            queue.came += 1
            lives_ms = 0 if queue.name == GOVERNED else NEVER  # by a policy that was there when it came
            made = queue.copies[number] = Copy(NEVER, self.messages[number], 0, -1, queue.returns, lives_ms)
            made.vague = True  # a crash may have it wait again
            return made
        if isinstance(queue, Group) and queue.moves and queue.of.may_have(number):
            made = queue.copies[number] = Copy(NEVER, self.messages[number], 0, -1, queue.returns)
            made.vague = True
            return made
        raise Wrong(f"{queue} has message {number}, which never came there or is gone for good")

    def dead(self, queue: Queue) -> Queue | None:
        """The queue that takes its dead letters."""
        return self.queues.get(str(queue.arguments.get(DEAD_KEY)))


def place_of(queue: Queue, group: str) -> str:
    """The name of a group's place in the model."""
    return f"{queue.id}/{group}"


def number_of(body: bytes) -> int:
    digits = body.partition(b";")[0]
    return int(digits) if digits.isdigit() else 0
