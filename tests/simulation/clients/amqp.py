"""A client of AMQP 0.9.1 that works at random, on one channel."""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random
from typing import Final

from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import method, number, publish, short, table
from tests.simulation.broker import DAY_MS
from tests.simulation.clients import channel
from tests.simulation.clients.channel import (
    CONFIRMS,
    KEEPER_COMMITS,
    LABELS,
    NO_ACK,
    NO_GET,
    NOT_FOUND,
    OFFSET,
    PLAIN,
    PRECONDITION,
    READER_OF,
    RESENT_MAX,
    RESENT_US,
    TRANSACTIONS,
    Consuming,
    Sent,
    Taken,
    may_be_named,
    names_of,
    opening,
    packed,
)
from tests.simulation.clients.client import Client, Effect
from tests.simulation.kinds import (
    ADDRESSED,
    DEAD,
    DEAD_ARGUMENTS,
    DEAD_LETTERS,
    GROUPED,
    GROUPS,
    KEEPERS,
    KEYS,
    KINDS,
    OWN,
    PATTERNS,
    READERS,
    TOPIC,
    TRANSIENT,
    VIEWS,
    rejects,
)
from tests.simulation.model.facts import Change
from tests.simulation.model.model import Model
from tests.simulation.model.promises import check
from tests.simulation.model.queues import Bound, Copy, Message, Queue


class AmqpClient(Client):
    """One connection with one channel.

    expected   replies that have to come, in their order, each with what it means
    open_tags  publishes that are not confirmed
    taken      deliveries that are not settled, by their tag
    kinds      the queues that it uses
    own        the queue that ends with the connection
    recent     publishes that it may repeat, also over another connection
    held       what the broker has to do when the transaction is committed
    was_keeping  it had a consumer in the group that commits by itself
    places     changes of a group's place that are not confirmed, by message
    """

    def __init__(self, name: str, model: Model, kinds: tuple[str, ...]) -> None:
        self.kinds = kinds
        self.bindable = [kind for kind in kinds if not rejects(kind) and kind not in (GROUPED, *VIEWS)]
        self.own: Queue | None = None
        self.recent: deque[Sent] = deque(maxlen=RESENT_MAX)
        super().__init__(name, model)

    def begin(self) -> None:
        super().begin()
        self.mode = PLAIN
        self.end_code = 0  # for which the channel has to end
        self.expected: deque[tuple[raw.Method, Effect | None]] = deque()
        self.next_tag = 1
        self.open_tags: dict[int, Message] = {}
        self.taken: dict[int, Taken] = {}
        self.consumers: dict[str, Consuming] = {}
        self.used: list[tuple[Queue, bool]] = []
        self.held: list[Effect] = []
        self.held_messages: list[Message] = []
        self.held_taken: dict[int, Taken] = {}
        self.half: list[bytes] = []  # frames of a delivery that is not whole
        self.getting: deque[Consuming] = deque()
        self.places: dict[int, Change] = {}
        self.was_keeping = False
        self.repeated_to = 0  # the end of the last publish that comes again, in octets of this line

    def open(self, chance: Random) -> None:
        self.mode = chance.choice((PLAIN, CONFIRMS, CONFIRMS, CONFIRMS, TRANSACTIONS))
        self.send(opening(self.model.name))
        self.expected += [(each, None) for each in (raw.START, raw.TUNE, raw.OPEN_OK, raw.CHANNEL_OPEN_OK)]
        if self.mode == CONFIRMS:
            self.request(raw.CONFIRM_SELECT, b"\0", raw.CONFIRM_SELECT_OK)
        elif self.mode == TRANSACTIONS:
            self.request(channel.TX_SELECT, b"", channel.TX_SELECT_OK)
        if chance.random() < 0.7:
            self.request(raw.QOS, b"\0\0\0\0" + number(chance.choice((1, 3, 20)), 2) + b"\0", raw.QOS_OK)

    def request(
        self, which: raw.Method, args: bytes, reply: raw.Method, done: Effect | None = None, then: Effect | None = None
    ) -> None:
        """Ask for something that is answered: `done` when the broker has taken it in, `then` with the answer."""
        self.expected.append((reply, then))
        self.send(method(1, which, args), done)

    # ---- what it does

    def some(self, chance: Random, names: list[str]) -> str:
        """One of these, in most cases one that is there."""
        there = [name for name in names if name in self.model.queues]
        return chance.choice(there if there and chance.random() < 0.9 else names)

    def act(self, chance: Random) -> str:
        if self.dead:
            return "waits for the end of its channel"
        return chance.choices(ACTIONS, WEIGHTS)[0](self, chance)

    def prepare(self, chance: Random) -> str:
        # There have to be messages in a queue, or in hand.
        if self.dead or self.taken:
            return "has what it needs"
        name = chance.choice(self.addresses())
        if READER_OF.get(self.name) == KEEPERS and "stream" in self.kinds and chance.random() < 0.5:
            name = "stream"
        said = [self.declare_whole(name)]
        for _ in range(3):
            self.publish_one(chance, "", name)
        if self.mode == TRANSACTIONS:
            said.append(self.commit(chance))
        if chance.random() < 0.7:
            said.append(self.consume_from(name, chance))
        return ", ".join(said)

    def deed(self, chance: Random) -> str:
        if self.dead:
            return "waits for the end of its channel"
        return chance.choices(DEEDS, DEED_WEIGHTS)[0](self, chance)

    def declare(self, chance: Random) -> str:
        return self.declare_whole(chance.choice(self.kinds))

    def declare_whole(self, name: str) -> str:
        """Declare a queue, and that for its dead letters."""
        arguments = KINDS[name]
        if name in VIEWS:
            self.declare_one("stream", KINDS["stream"])
        if DEAD_LETTERS in arguments:
            self.declare_one(DEAD + name, DEAD_ARGUMENTS.get(name, {}))
        self.declare_one(name, arguments)
        return f"declares {name}"

    def declare_one(self, name: str, arguments: dict[str, object]) -> None:
        made: list[Queue] = []

        def done() -> None:
            there = self.model.queues.get(name)
            if there is not None and there.arguments != arguments:
                self.end_channel(PRECONDITION)
            elif there is not None or name not in VIEWS or self.needed("stream") is not None:
                made.append(self.model.declared(name, arguments))
                if name == OWN:
                    self.own = made[0]

        def then() -> None:
            made[0].promised = True

        bits = {TRANSIENT: b"\0", OWN: b"\4"}.get(name, b"\2")
        args = b"\0\0" + short(name) + bits + table(arguments)
        self.request(raw.QUEUE_DECLARE, args, raw.QUEUE_DECLARE_OK, done, then)

    def declare_otherwise(self, chance: Random) -> str:
        """Declare a queue with arguments of its own: where it is there, the channel ends."""
        name = chance.choice(self.kinds)
        if name not in self.model.queues or name == "stream":
            return self.declare(chance)
        self.declare_one(name, {**KINDS[name], "x-expires": DAY_MS * 10})
        return f"declares {name} with other arguments"

    def delete(self, chance: Random) -> str:
        name = chance.choice(self.kinds)
        gone: list[Queue] = []

        def done() -> None:
            queue = self.model.queues.get(name)
            if queue is not None:
                self.model.deleted(queue)
                gone.append(queue)

        def then() -> None:
            for queue in gone:
                queue.ended = True

        self.request(channel.DELETE, b"\0\0" + short(name) + b"\0", channel.DELETE_OK, done, then)
        return f"deletes {name}"

    def purge(self, chance: Random) -> str:
        name = self.some(chance, [name for name in self.kinds if name != GROUPED])
        gone: list[Copy] = []

        def done() -> None:
            queue = self.needed(name)
            if queue is not None:
                gone.extend(self.model.purged(queue))

        def then() -> None:
            for copy in gone:
                copy.mark = 0

        self.request(channel.PURGE, b"\0\0" + short(name) + b"\0", channel.PURGE_OK, done, then)
        return f"purges {name}"

    def needed(self, name: str) -> Queue | None:
        """The queue that a request needs: without it the channel ends."""
        queue = self.model.queues.get(name)
        if queue is None:
            self.end_channel(NOT_FOUND)
        return queue

    def end_channel(self, code: int) -> None:
        """The broker ends the channel by right."""
        self.dead = True
        self.end_code = code
        self.give_back()

    def bind(self, chance: Random) -> str:
        name, key = chance.choice(self.bindable), chance.choice(PATTERNS)
        unbind = chance.random() < 0.3
        made: list[Bound] = []

        def done() -> None:
            queue = self.model.queues.get(name) if unbind else self.needed(name)
            if queue is None:
                return
            if not unbind:
                made.append(self.model.bind(TOPIC, queue, key))
                return
            there = self.model.bound.get((TOPIC, queue.id, key))
            if there is not None:
                there.ending = True
                made.append(there)

        def then() -> None:
            for bound in made:
                bound.ended, bound.promised = bound.ending and unbind, bound.promised or not unbind

        args = b"\0\0" + short(name) + short(TOPIC) + short(key)
        if unbind:
            self.request(channel.UNBIND, args + table(), channel.UNBIND_OK, done, then)
            return f"unbinds {name} from {key}"
        self.request(channel.BIND, args + b"\0" + table(), channel.BIND_OK, done, then)
        return f"binds {name} to {key}"

    def publish(self, chance: Random) -> str:
        messages = chance.choice((1, 1, 2, 5))
        exchange = chance.choice(("", "", TOPIC))
        key = chance.choice(KEYS) if exchange else self.some(chance, self.addresses())
        first = self.model.numbers.next
        for _ in range(messages):
            self.publish_one(chance, exchange, key)
        return f"publishes {first} to {first + messages - 1} to {exchange or 'default'} {key}"

    def addresses(self) -> list[str]:
        """The queues to which it publishes: a transaction must not be refused as a whole."""
        return self.bindable if self.mode == TRANSACTIONS else [kind for kind in self.kinds if kind not in VIEWS]

    def publish_one(self, chance: Random, exchange: str, key: str) -> None:
        model = self.model
        message = model.new_message(self.name, chance.choice((0, 20, 300, 300, 3000)))
        message.is_silent = self.mode == PLAIN
        headers: dict[str, object] = {}
        expiry_ms = 0
        if chance.random() < 0.5:
            message.label = headers["label"] = chance.choice(LABELS)
        if key == "priority":
            message.priority = chance.randint(0, 4)
        if chance.random() < 0.05:
            expiry_ms = message.expiry_ms = chance.choice((500, 20_000))
        effect = partial(model.published, message, exchange, key)
        if chance.random() < 0.05 and key != GROUPED:
            delay_ms = headers["x-delay"] = chance.choice((500, 2000, 30_000))
            effect = partial(model.delay, message, exchange, key, delay_ms)
        elif may_be_named(self.mode, exchange, key) and chance.random() < 0.2:
            headers |= names_of(chance, self.name, message)
            self.recent.append(Sent(message, key, packed(headers, message.priority, expiry_ms), model.now_us))
        self.send_one(message, exchange, key, packed(headers, message.priority, expiry_ms), effect)

    def send_one(self, message: Message, exchange: str, key: str, properties: bytes, effect: Effect) -> None:
        if self.mode == TRANSACTIONS:
            self.held_messages.append(message)
            effect = partial(self.hold, effect)
        elif self.mode == CONFIRMS:
            self.open_tags[self.next_tag] = message
            self.next_tag += 1
        self.send(publish(1, key, message.body, exchange, properties), effect)

    def keep_place(self, chance: Random) -> str:
        """Say how far the group has come: there it is to go on after this consumer."""
        keeping = next((each for each in self.consumers.values() if each.group == KEEPERS and each.last), None)
        if keeping is None or keeping.queue is None or self.mode != CONFIRMS:
            return self.consume_from("stream", chance) if "stream" in self.model.queues else self.publish(chance)
        queue, last = keeping.queue, max(each.at for each in keeping.last.values())
        message, offset = self.model.new_message(self.name, 0), chance.randint(max(0, last - 3), last + 1)

        def done() -> None:
            if self.model.queues.get(queue.name) is queue:
                self.places[message.number] = self.model.stays(queue, KEEPERS, offset)
            else:
                self.end_channel(NOT_FOUND)  # a new one has no such group

        self.send_one(message, "", KEEPER_COMMITS, packed({"x-group-id": KEEPERS, "x-offset": offset}, 0, 0), done)
        return f"commits that it goes on at {offset}"

    def repeat(self, chance: Random) -> str:
        """Publish again what the broker may have: it knows, and takes it only once."""
        oldest_us = self.model.now_us - RESENT_US
        if self.mode == TRANSACTIONS or self.model.is_tight or not self.recent or self.recent[0].sent_us < oldest_us:
            self.recent.clear()
            return self.publish(chance)
        again = chance.choice(self.recent)
        effect = partial(self.model.repeated, again.message, "", again.key)
        self.send_one(again.message, "", again.key, again.properties, effect)
        self.repeated_to = self.sent
        return f"publishes {again.message.number} to default {again.key} again"

    def repeats(self) -> bool:
        """Whether a publish that comes again is on its way."""
        return self.sent - len(self.unsent) < self.repeated_to

    def hold(self, effect: Effect) -> None:
        self.held.append(effect)

    def commit(self, chance: Random) -> str:
        if self.mode != TRANSACTIONS or self.model.is_tight:
            return self.publish(chance)
        messages, self.held_messages = self.held_messages, []
        rolls_back = chance.random() < 0.2
        held_taken, self.held_taken = self.held_taken, {}
        if rolls_back:
            self.taken |= held_taken  # it holds them as before
        number = self.model.numbers.next_transaction
        self.model.numbers.next_transaction += 1

        def done() -> None:
            held, self.held = self.held, []
            for message in messages:
                message.transaction = number
            for effect in [] if rolls_back else held:
                effect()

        def then() -> None:
            for message in messages:
                message.promised = not rolls_back

        if rolls_back:
            self.request(channel.TX_ROLLBACK, b"", channel.TX_ROLLBACK_OK, done, then)
            return "rolls back"
        self.request(channel.TX_COMMIT, b"", channel.TX_COMMIT_OK, done, then)
        return f"commits transaction {number}"

    def consume(self, chance: Random) -> str:
        dead = [DEAD + name for name in self.kinds if DEAD_LETTERS in KINDS[name]]
        return self.consume_from(chance.choice([*self.kinds, ADDRESSED, *dead]), chance)

    def consume_from(self, name: str, chance: Random) -> str:
        tag = f"{self.name}.{self.next_key()}"
        no_ack = chance.random() < 0.1 and name not in ("stream", GROUPED)
        arguments: dict[str, object] = {"x-delivery-counts": True}
        if name == "stream":
            arguments = {"x-stream-offset": "first"}
        others = list(self.consumers.values())
        label = chance.choice(LABELS) if chance.random() < 0.2 and not no_ack else ""
        if label:
            arguments["x-filter"] = f"header.label = '{label}'"
        consuming = self.consumers[tag] = Consuming(None, no_ack, label)
        if name == "stream" and not label and not any(each.group for each in others):
            consuming.group = READER_OF.get(self.name, "")
            if consuming.group:
                arguments = {"x-consumer-group": consuming.group, "x-auto-commit": consuming.group == READERS}
        if name == GROUPED:
            arguments["x-consumer-group"] = consuming.work = chance.choice(GROUPS)

        def done() -> None:
            queue = self.needed(name)
            if queue is not None and consuming.work:
                queue = self.model.groups[queue].joined(consuming.work)
            consuming.queue = queue
            if queue is not None:
                self.use(queue, no_ack)
            if queue is not None and consuming.group == KEEPERS:
                place = self.model.reads(queue, KEEPERS)
                consuming.begin = -1 if self.was_keeping else place  # what a cancelled one holds is still its own
                self.was_keeping = True

        bits = number(NO_ACK if no_ack else 0, 1)
        args = b"\0\0" + short(name) + short(tag) + bits + table(arguments)
        self.request(raw.CONSUME, args, raw.CONSUME_OK, done)
        return f"consumes {label} {name} {consuming.work}" + (" without acknowledgements" if no_ack else "")

    def use(self, queue: Queue, no_ack: bool) -> None:
        queue.users += 1
        queue.careless += no_ack
        queue.was_careless = queue.was_careless or no_ack
        self.used.append((queue, no_ack))

    def cancel(self, chance: Random) -> str:
        if not self.consumers:
            return self.consume(chance)
        tag = chance.choice(list(self.consumers))

        def then() -> None:
            self.consumers.pop(tag, None)

        self.request(raw.CANCEL, short(tag) + b"\0", raw.CANCEL_OK, then=then)
        return f"cancels {tag}"

    def get(self, chance: Random) -> str:
        name = self.some(chance, [name for name in self.kinds if name not in NO_GET])
        no_ack = chance.random() < 0.1
        consuming = Consuming(None, no_ack)

        def done() -> None:
            queue = consuming.queue = self.needed(name)
            if queue is not None:
                self.use(queue, no_ack)

        self.expected.append((raw.GET_OK, None))
        self.getting.append(consuming)
        self.send(method(1, raw.GET, b"\0\0" + short(name) + number(no_ack, 1)), done)
        return f"gets from {name}"

    def settle(self, chance: Random) -> str:
        if not self.taken:
            return self.publish(chance) if self.consumers else self.consume(chance)
        tag = chance.choice(list(self.taken))
        which = chance.choice((raw.ACK, raw.ACK, raw.NACK, raw.REJECT))
        multiple = which != raw.REJECT and chance.random() < 0.4
        requeue = which != raw.ACK and chance.random() < 0.4
        tags = [each for each in self.taken if each <= tag] if multiple else [tag]
        settled = [self.taken.pop(each) for each in tags]
        if self.mode == TRANSACTIONS:
            self.held_taken.update(zip(tags, settled, strict=True))

        def done() -> None:
            for each in settled:
                if requeue:
                    each.queue.returns += 1
                elif each.is_held and not each.queue.is_stream:
                    died = which != raw.ACK and (self.model.dead(each.queue) is not None or each.queue.keeps_dead)
                    self.model.settle(each.queue, each.number, died)

        bits = multiple | requeue << 1 if which == raw.NACK else requeue if which == raw.REJECT else multiple
        effect: Effect = partial(self.hold, done) if self.mode == TRANSACTIONS else done
        self.send(method(1, which, number(tag, 8) + number(bits, 1)), effect)
        word = {raw.ACK: "acknowledges", raw.NACK: "nacks", raw.REJECT: "rejects"}[which]
        return f"{word} {[each.number for each in settled]}" + (" to come again" if requeue else "")

    # ---- what it is told

    def take(self, data: bytes) -> int:
        at = 0
        while at + 7 <= len(data) and not self.is_over:
            end = at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")
            if end > len(data):
                break
            if data[at] != 8:
                self.frame(data[at], data[at + 7 : end - 1])
            at = end
        return at

    def frame(self, kind: int, payload: bytes) -> None:
        if self.half or kind != 1:
            self.half.append(payload)
            octets = int.from_bytes(self.half[1][4:12], "big") if len(self.half) > 1 else 1
            if len(self.half) > 1 and sum(map(len, self.half[2:])) >= octets:
                head, properties, *parts = self.half
                self.half = []
                self.message(head, properties, b"".join(parts))
            return
        which = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        if which in (raw.DELIVER, raw.GET_OK):
            self.half = [payload]
        elif which in (raw.ACK, raw.NACK):
            self.confirmed(int.from_bytes(payload[4:12], "big"), payload[12] & 1 == 1, which == raw.ACK)
        elif which == raw.CANCEL:
            self.consumers.pop(payload[5 : 5 + payload[4]].decode(), None)
        elif which in (raw.CHANNEL_CLOSE, raw.CLOSE):
            by_right = self.dead and self.end_code in (0, int.from_bytes(payload[4:6], "big"))
            check(by_right, f"{self.name}: the broker ended the channel: {payload[4:]!r}")
            self.is_over = True
        else:
            self.reply(which)

    def reply(self, which: raw.Method) -> None:
        check(bool(self.expected), f"{self.name} was told {which}, which nobody has asked for")
        expected, then = self.expected.popleft()
        if which == raw.GET_EMPTY and expected == raw.GET_OK:
            self.getting.popleft()
            return
        check(which == expected, f"{self.name} was told {which} where {expected} has to come")
        if then is not None:
            then()

    def confirmed(self, upto: int, multiple: bool, taken: bool) -> None:
        for tag in [each for each in self.open_tags if each <= upto] if multiple else [upto]:
            message = self.open_tags.pop(tag, None)
            check(message is not None, f"{self.name}: publish {tag} was confirmed twice, or never made")
            assert message is not None
            message.promised, message.refused = taken, not taken
            change = self.places.pop(message.number, None)
            if change is not None:
                change.promised = taken and not change.vague

    def message(self, head: bytes, properties: bytes, body: bytes) -> None:
        args = head[4:]
        if head[:4] == number(60, 2) + number(60, 2):
            tag_end = 1 + args[0]
            consuming = self.consumers.get(args[1:tag_end].decode())
            args = args[tag_end:]
        else:
            self.reply(raw.GET_OK)
            consuming = self.getting.popleft()
        if consuming is None or consuming.queue is None or self.dead:
            return  # what an ended channel was handed may be anybody's by now
        tag, redelivered = int.from_bytes(args[:8], "big"), args[8] == 1
        queue = consuming.queue
        got = self.model.delivered(queue, body, self.name)
        if queue.is_stream:
            at = properties.index(OFFSET) + len(OFFSET)
            queue.copies[got].at = int.from_bytes(properties[at : at + 8], "big")
        consuming.check_redelivered(self.name, queue.copies[got], redelivered)
        consuming.check_place(self.model, self.name, queue.copies[got], b"x-acquired-count" in properties)
        if consuming.no_ack:
            self.model.settle(queue, got)
        else:
            self.taken[tag] = Taken(queue, got, queue.moves)

    # ---- its end

    def follow(self) -> None:
        if self.line is not None and self.line.is_ending():
            self.dead = True
        super().follow()

    def ended(self) -> None:
        is_opening = any(reply == raw.OPEN_OK for reply, _ in self.expected)  # perhaps for too long
        check(self.dead or is_opening, f"{self.name}: the broker ended the connection")

    def gone(self) -> None:
        self.give_back()
        if self.own is not None and self.model.queues.get(OWN) is self.own:
            self.model.deleted(self.own)
        self.own = None

    def give_back(self) -> None:
        """What was delivered and is not settled comes back to its queues."""
        for queue, no_ack in self.used:
            queue.users -= 1
            queue.careless -= no_ack
            queue.returns += 1
        self.used.clear()


ACTIONS: Final = (
    AmqpClient.publish,
    AmqpClient.repeat,
    AmqpClient.keep_place,
    AmqpClient.declare,
    AmqpClient.declare_otherwise,
    AmqpClient.consume,
    AmqpClient.settle,
    AmqpClient.commit,
    AmqpClient.get,
    AmqpClient.bind,
    AmqpClient.cancel,
    AmqpClient.purge,
    AmqpClient.delete,
)
WEIGHTS: Final = (30, 4, 5, 8, 0.5, 8, 30, 8, 5, 4, 2, 1, 1)
DEEDS: Final = (
    AmqpClient.settle,
    AmqpClient.purge,
    AmqpClient.keep_place,
    AmqpClient.bind,
    AmqpClient.publish,
    AmqpClient.delete,
)
DEED_WEIGHTS: Final = (10, 5, 3, 1, 1, 0.5)
