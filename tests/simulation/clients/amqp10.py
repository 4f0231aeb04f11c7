"""A client of AMQP 1.0 that works at random, in one session."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from tests.conformance.amqp10.raw import (
    ACCEPTED,
    AMQP_HEADER,
    APPLICATION_PROPERTIES,
    CLOSE,
    DATA,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    HEADER,
    MODIFIED,
    OPEN,
    PROPERTIES,
    RECEIVER,
    REJECTED,
    RELEASED,
    SENDER,
    TRANSFER,
    Described,
    Symbol,
    Uint,
    Ulong,
    attach,
    begin,
    decode,
    disposition,
    encode,
    flow,
    performative,
    sasl_plain,
    sections,
    source,
    target,
    transfer,
)
from tests.simulation.clients.channel import LABELS, Consuming
from tests.simulation.clients.client import Client
from tests.simulation.kinds import DEAD, DEAD_LETTERS, GROUPED, KEYS, KINDS, OWN, TOPIC, VIEWS
from tests.simulation.model.model import Model
from tests.simulation.model.promises import check
from tests.simulation.model.queues import Message, Queue

SASL_OCTETS: Final = 8
ANONYMOUS: Final = 0  # handle of the link by which it publishes
HANDLES_MAX: Final = 1000
WINDOW: Final = 1 << 30
NOT_CONSUMED: Final = ("stream", GROUPED, OWN)


@dataclass(eq=False)
class Consumer(Consuming):
    """A link by which it consumes.

    handle   its handle
    limit    deliveries that it has given credit for
    count    deliveries that have come
    refused  messages that it has said it cannot take
    taken    deliveries that it has not settled, by their number
    """

    handle: int = 0
    limit: int = 0
    count: int = 0
    refused: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Taken:
    """A delivery that is not settled."""

    link: Consumer
    queue: Queue
    number: int
    moves: int

    @property
    def is_held(self) -> bool:
        """Whether it may be settled: of what goes on elsewhere nothing is."""
        return self.moves == self.queue.moves


class Amqp10Client(Client):
    """One connection with one session, which publishes unsettled and consumes by credit.

    open_ids   publishes that have no outcome
    credit_to  deliveries that it may have sent
    links      those that it consumes by, by handle
    taken      deliveries that are not settled, by their number
    """

    def __init__(self, name: str, model: Model, kinds: tuple[str, ...]) -> None:
        self.kinds = tuple(kind for kind in kinds if kind not in NOT_CONSUMED)
        super().__init__(name, model)

    def begin(self) -> None:
        super().begin()
        self.is_logged_in = False
        self.next_id = 0
        self.credit_to = 0
        self.open_ids: dict[int, Message] = {}
        self.next_handle = 1
        self.links: dict[int, Consumer] = {}
        self.taken: dict[int, Taken] = {}
        self.used: list[Queue] = []
        self.half: deque[bytes] = deque()

    def open(self, chance: Random) -> None:
        vhost = None if self.model.name == "/" else f"vhost:{self.model.name}"
        self.send(sasl_plain() + AMQP_HEADER + performative(0, OPEN, self.name, vhost))
        self.send(begin(window=WINDOW))
        self.send(attach("out", ANONYMOUS, SENDER, source(None), target(None)))

    # ---- what it does

    def act(self, chance: Random) -> str:
        if self.dead:
            return "waits for the end of its connection"
        return chance.choices(ACTIONS, WEIGHTS)[0](self, chance)

    def publish(self, chance: Random) -> str:
        exchange = chance.choice(("", "", TOPIC))
        names = [kind for kind in (*self.kinds, "stream") if kind not in VIEWS]
        key = chance.choice(KEYS) if exchange else chance.choice(names)
        first = self.next_id
        for _ in range(chance.choice((1, 1, 2, 5))):
            if self.next_id < self.credit_to:
                self.publish_one(chance, exchange, key)
        return f"publishes {self.next_id - first} to {exchange or 'default'} {key}"

    def publish_one(self, chance: Random, exchange: str, key: str) -> None:
        message = self.model.new_message(self.name, chance.choice((0, 20, 300, 300, 3000)))
        fields: list[Any] = [True]
        if key == "priority":
            message.priority = chance.randint(0, 4)
            fields = [True, message.priority]
        payload = encode(Described(HEADER, fields))
        where = f"/exchanges/{exchange}/{key}" if exchange else f"/queues/{key}"
        payload += encode(Described(PROPERTIES, [None, None, where]))
        if chance.random() < 0.5:
            message.label = chance.choice(LABELS)
            payload += encode(Described(APPLICATION_PROPERTIES, {"label": message.label}))
        payload += encode(Described(DATA, message.body))
        self.open_ids[self.next_id] = message
        effect = partial(self.model.published, message, exchange, key)
        half = len(payload) // 2
        if chance.random() < 0.2:
            self.send(transfer(self.next_id, payload[:half], more=True))
            payload = payload[half:]
        self.send(transfer(self.next_id, payload), effect)
        self.next_id += 1

    def consume(self, chance: Random) -> str:
        dead = [DEAD + name for name in self.kinds if DEAD_LETTERS in KINDS[name]]
        name = chance.choice([*self.kinds, *dead])
        if self.next_handle >= HANDLES_MAX:
            return self.publish(chance)
        link = Consumer(handle=self.next_handle)
        self.next_handle += 1
        asked: dict[Any, Any] = {}
        if chance.random() < 0.2:
            link.label = chance.choice(LABELS)
            asked = {Symbol("x-filter"): f"header.label = '{link.label}'"}
        self.links[link.handle] = link

        def done() -> None:
            queue = link.queue = self.model.queues.get(name)
            if queue is not None:
                queue.users += 1
                self.used.append(queue)

        ends = source(f"/queues/{name}"), target(None)
        self.send(attach(f"in {link.handle}", link.handle, RECEIVER, *ends, settled=0, properties=asked), done)
        self.give_credit(link, chance)
        return f"consumes {link.label} {name} by link {link.handle}"

    def give_credit(self, link: Consumer, chance: Random) -> None:
        credit = chance.choice((1, 3, 20))
        link.limit = max(link.limit, link.count + credit)
        drains = chance.random() < 0.1
        self.send(flow(link.handle, credit, link.count, window=WINDOW, next_incoming=None, drain=drains))

    def credit(self, chance: Random) -> str:
        if not self.links:
            return self.consume(chance)
        link = chance.choice(list(self.links.values()))
        self.give_credit(link, chance)
        return f"gives link {link.handle} credit"

    def detach(self, chance: Random) -> str:
        if not self.links:
            return self.consume(chance)
        link = chance.choice(list(self.links.values()))
        self.leave(link)

        def done() -> None:
            if link.queue is not None:
                link.queue.returns += 1

        self.send(performative(0, DETACH, Uint(link.handle), True), done)
        return f"detaches link {link.handle}"

    def leave(self, link: Consumer) -> None:
        """Forget a link, and what was delivered by it."""
        self.links.pop(link.handle, None)
        self.taken = {number: each for number, each in self.taken.items() if each.link is not link}

    def settle(self, chance: Random) -> str:
        if not self.taken:
            return self.credit(chance)
        first = chance.choice(list(self.taken))
        last = max(self.taken) if chance.random() < 0.3 else first
        states = {
            "accepts": Described(ACCEPTED, []),
            "rejects": Described(REJECTED, []),
            "releases": Described(RELEASED, []),
            "fails": Described(MODIFIED, [True, None, {Symbol("x-opt-by"): self.name}]),
            "refuses": Described(MODIFIED, [None, True]),
        }
        word = chance.choices(list(states), (40, 10, 10, 10, 10))[0]
        chosen = [number for number in self.taken if first <= number <= last]
        if word == "refuses" and any(DEAD_LETTERS in self.taken[each].queue.arguments for each in chosen):
            word = "releases"  # it would be a dead letter if nobody else consumed the queue
        settled = [self.taken.pop(number) for number in chosen]
        if word == "refuses":
            for each in settled:
                each.link.refused.add(each.number)

        def done() -> None:
            for each in settled:
                if word in {"releases", "fails", "refuses"}:
                    each.queue.returns += 1
                elif each.is_held:
                    keeps = self.model.dead(each.queue) is not None or each.queue.keeps_dead
                    self.model.settle(each.queue, each.number, word == "rejects" and keeps)

        self.send(disposition(first, last, states[word], settled=chance.random() < 0.5), done)
        return f"{word} {[each.number for each in settled]}"

    def extend(self, chance: Random) -> str:
        if not self.taken:
            return self.settle(chance)
        self.send(disposition(min(self.taken), max(self.taken), Described(0x23, [Uint(0), Ulong(0)]), settled=False))
        return "asks for more time"

    # ---- what it is told

    def take(self, data: bytes) -> int:
        at = 0
        while at + 8 <= len(data) and not self.is_over:
            if data[at : at + 4] == b"AMQP":
                at += 8
                continue
            end = at + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            if end > at + 8 and data[at + 5] == 0:
                found, stop = decode(data[at + 8 : end])
                fields = found.value + [None] * (14 - len(found.value))
                self.performative(found.code, fields, data[at + 8 + stop : end])
            at = end
        return at

    def performative(self, code: int, fields: list[Any], payload: bytes) -> None:
        if code == TRANSFER:
            self.half.append(payload)
            if not fields[5]:
                octets = b"".join(self.half)
                self.half.clear()
                self.message(fields, octets)
            elif len(self.half) == 1:
                self.first = fields
        elif code == FLOW and fields[4] == ANONYMOUS:
            self.credit_to = (fields[5] or 0) + (fields[6] or 0)
        elif code == FLOW:
            link = self.links.get(fields[4])
            if link is not None and fields[8]:
                link.count = fields[5]
                link.limit = max(link.limit, link.count)  # credit may have been given since the drain was asked for
        elif code == DISPOSITION and fields[0] is RECEIVER:
            last = fields[1] if fields[2] is None else fields[2]
            for number in range(fields[1], last + 1):
                self.answered(number, fields[4].code)
        elif code == DETACH:
            self.detached(fields)
        elif code in (END, CLOSE):
            error = fields[0]
            by_right = self.dead or (error is not None and error.value[0] in FAREWELLS)
            check(by_right, f"{self.name}: the broker ended the session or connection: {error}")
            self.is_over = True

    def answered(self, number: int, code: int) -> None:
        message = self.open_ids.pop(number, None)
        check(message is not None, f"{self.name}: publish {number} was answered twice, or never made")
        assert message is not None
        message.promised, message.refused = code == ACCEPTED, code != ACCEPTED

    def detached(self, fields: list[Any]) -> None:
        """The broker has ended a link, or says that it knows of the client's end."""
        link = self.links.get(fields[0])
        if link is None:
            return
        condition = "" if fields[2] is None else fields[2].value[0]
        check(condition in ENDINGS, f"{self.name}: the broker ended link {fields[0]}: {fields[2]}")
        self.leave(link)
        if link.queue is not None:
            link.queue.returns += 1
        self.send(performative(0, DETACH, Uint(link.handle), True))

    def message(self, fields: list[Any], payload: bytes) -> None:
        if len(fields) and fields[1] is None:
            fields = self.first
        link = self.links.get(fields[0])
        if link is None:
            return  # it is on its way back already
        link.count += 1
        check(link.count <= link.limit, f"{self.name} was sent more than it gave link {link.handle} credit for")
        if link.queue is None or self.dead:
            return
        found = {each.code: each.value for each in sections(payload)}
        head = found.get(HEADER, []) + [None] * 5
        queue = link.queue
        got = self.model.delivered(queue, found[DATA], self.name)
        check(got not in link.refused, f"{self.name} got message {got} of {queue} again, which it cannot take")
        copy = queue.copies[got]
        link.check_redelivered(self.name, copy, not head[3])
        link.check_place(self.model, self.name, copy, "x-acquired-count" in found.get(0x72, {}))
        self.taken[fields[1]] = Taken(link, queue, got, queue.moves)

    # ---- its end

    def follow(self) -> None:
        if self.line is not None and self.line.is_ending():
            self.dead = True
        super().follow()

    def ended(self) -> None:
        pass  # for its silence, or as its vhost is gone

    def gone(self) -> None:
        for queue in self.used:
            queue.users -= 1
            queue.returns += 1
        self.used.clear()


ENDINGS: Final = ("amqp:resource-deleted", "amqp:precondition-failed", "amqp:not-found", "amqp:link:detach-forced")
FAREWELLS: Final = (
    "amqp:resource-limit-exceeded",
    "amqp:connection:forced",
    "amqp:not-found",
    "amqp:unauthorized-access",
)
ACTIONS: Final = (
    Amqp10Client.publish,
    Amqp10Client.consume,
    Amqp10Client.credit,
    Amqp10Client.settle,
    Amqp10Client.extend,
    Amqp10Client.detach,
)
WEIGHTS: Final = (30, 8, 15, 30, 2, 3)
