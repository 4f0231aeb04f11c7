"""A client of MQTT 3.1.1 or 5 that works at random and keeps its own books, as a careful client does."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from tests.conformance.mqtt import raw
from tests.conformance.mqtt.raw import CONNACK, PUBACK, PUBCOMP, PUBREC, PUBREL, SUBACK, UNSUBACK, V5, user
from tests.conformance.mqtt.v5.flows import expiry, receive_maximum
from tests.simulation.broker import Broker
from tests.simulation.clients.client import Client
from tests.simulation.kinds import ADDRESSED, KEYS, SHARES, TOPIC, fits, shared
from tests.simulation.model.facts import Change
from tests.simulation.model.model import Model, Subscriber, number_of
from tests.simulation.model.promises import NEVER, Settlement, check
from tests.simulation.model.queues import UNKNOWN, Message
from tests.simulation.model.wills import Will

NEVER_EXPIRES: Final = 0xFFFFFFFF
DUP, RETAIN = 8, 1
KEPT: Final = ("kept/a", "kept/b")  # topics of retained messages
WILL: Final = "will/"
SHARED: Final = ("jobs/1", "tasks/1")  # topics of shared subscriptions
ADDRESS: Final = "$queue/" + ADDRESSED
FILTERS: Final = (*KEYS, "+", "kept/+", "will/+", *SHARES.values(), ADDRESS)
OPEN_MAX: Final = 6  # publishes that are not answered
LEAVE: Final = b"\xe0\x00"


def property_of(properties: bytes, name: str) -> bytes:
    """The octets of a user property; none where it is not there."""
    head = user(name, "")[:-2]
    at = properties.find(head)
    value_at = at + len(head) + 2
    return b"" if at < 0 else properties[at : value_at + int.from_bytes(properties[value_at - 2 : value_at], "big")]


class MqttClient(Client, Subscriber):
    """One client identifier.

    durable   its session outlives its connections
    lasting   the broker has said that there is a session
    filters   subscriptions that were granted: filter -> QoS; `asked`: changes that are not answered, -1 for no more
    owed      what has to come, once its publisher has an answer
    got       number -> QoS at which it came first
    settled   what was acknowledged, and what makes that certain
    unacked   own publishes that are not answered, by packet identifier: message, where to, QoS
    unended   own publishes of QoS 2 whose PUBCOMP has not come
    held      messages of QoS 2 that were not released yet, by packet identifier
    answers   acknowledgements that the client has not sent yet: kind, packet identifier, message
    changes   what is retained by own publishes that are not answered
    kept      what is retained and has to come over this connection, by topic
    leases    deliveries from the queue that are not settled: message, and the properties that name it
    will      of the last connection that the broker has taken in
    """

    def __init__(self, name: str, model: Model, version: int, durable: bool) -> None:
        self.version = version
        # The group of a client of 3.1.1 is what stands before the hyphen: the same as that of all others here.
        self.client_id = name if version == V5 else f"-{name}"
        self.login = ("guest" if model.name == "/" else f"{model.name}:guest", "guest")
        self.durable = durable
        self.lasting = False
        self.is_clean = False
        self.next_id = 1
        self.unacked: dict[int, tuple[Message, str, int]] = {}
        self.unended: set[int] = set()
        self.changes: dict[int, Change] = {}
        self.will: Will | None = None
        self.forget()
        super().__init__(name, model)
        model.subscribers.append(self)

    def begin(self) -> None:
        super().begin()
        self.answers: list[tuple[int, int, int]] = []
        self.asked: list[tuple[str, int]] = []
        self.kept: dict[str, int] = {}
        self.leases: list[tuple[int, bytes]] = []
        self.queue_last = -1
        self.connacked = False
        self.is_taken_in = False
        self.is_leaving = False

    def forget(self) -> None:
        """The session is a new one."""
        self.filters: dict[str, int] = {}
        self.owed: dict[int, Message] = {}
        self.got: dict[int, int] = {}
        self.settled: dict[int, Settlement] = {}
        self.held: dict[int, int] = {}

    def open(self, chance: Random) -> None:
        # Who has asked for a new session insists on it until it has one.
        self.is_clean = self.is_clean or not self.durable or (self.version == V5 and chance.random() < 0.05)
        if self.is_clean:
            self.model.shares.left(self.name)
        block = b""
        if self.version == V5:
            window = chance.choice((1, 3, 65_535))
            block = (expiry(NEVER_EXPIRES) if self.durable else b"") + receive_maximum(window)
        will, part, flags = self.make_will(chance) if chance.random() < 0.3 else (None, b"", 0)
        effect = partial(self.taken_in, will, self.is_clean)
        self.send(
            raw.connect(
                self.client_id, self.version, block, will=part, will_flags=flags, login=self.login, clean=self.is_clean
            ),
            effect,
        )

    def make_will(self, chance: Random) -> tuple[Will, bytes, int]:
        """A will, and the octets and flags by which CONNECT says it."""
        message = self.model.new_message(self.name + " in its will", chance.choice((0, 300)))
        message.qos = chance.choice((0, 1, 2))
        message.late = True
        delay_s = chance.choice((0, 0, 5, 30)) if self.version == V5 else 0
        will = Will(NEVER, message, WILL + self.name, delay_s, chance.random() < 0.3, self.durable)
        properties = b"\x18" + raw.number(delay_s, 4) if delay_s else b""
        part = raw.will(will.topic, message.body, self.version, properties)
        return will, part, 4 | message.qos << 3 | will.retain << 5

    def taken_in(self, will: Will | None, is_clean: bool) -> None:
        """The broker has taken in a CONNECT; perhaps it had not seen the end of the connection before."""
        if self.will is not None:
            self.model.wills.back(self.will, self.durable and not is_clean)
        self.will = will
        self.is_taken_in = True
        if will is not None:
            self.model.wills.begin(will)

    # ---- what it does

    def act(self, chance: Random) -> str:
        if not self.connacked or self.is_leaving:
            return "waits for the broker"
        action = chance.choices(ACTIONS, WEIGHTS)[0]
        return action(self, chance)

    def leave(self, chance: Random) -> str:
        """Say that the will is void, and go."""
        self.send(LEAVE, self.left)
        self.is_leaving = True
        return "takes its leave"

    def left(self) -> None:
        if self.will is not None:
            if self.model.is_tight:  # the broker may have refused a publish before, and ended the connection
                self.model.wills.doubt(self.will)
            self.model.wills.call_off(self.will)

    def publish(self, chance: Random) -> str:
        qos = chance.choice((0, 1, 1, 2, 2))
        topic = chance.choices((*KEYS, ADDRESS, *KEPT, *SHARED), (4, 4, 3, 1, 1, 2, 1))[0]
        message = self.model.new_message(self.name, chance.choice((0, 20, 300, 3000)))
        message.qos = qos
        if qos:
            if len(self.unacked) + len(self.unended) >= OPEN_MAX:
                return "has too much on its way"
            self.unacked[self.take_id()] = (message, topic, qos)
        self.send_publish(self.next_id, message, topic, qos, 0)
        return f"publishes {message.number} to {topic} at QoS {qos}"

    def clear(self, chance: Random) -> str:
        """Have nothing retained on a topic any more."""
        topic = chance.choice(KEPT)
        if len(self.unacked) + len(self.unended) >= OPEN_MAX:
            return "has too much on its way"
        message = self.model.new_message(self.name, 0)
        message.body = b""
        self.unacked[self.take_id()] = (message, topic, 1)
        self.send_publish(self.next_id, message, topic, 1, 0)
        return f"retains nothing on {topic}"

    def take_id(self) -> int:
        while self.next_id in self.unacked or self.next_id in self.unended:
            self.next_id = self.next_id % 16 + 1
        return self.next_id

    def send_publish(self, id: int, message: Message, topic: str, qos: int, bits: int) -> None:
        def done() -> None:
            if topic == ADDRESS:
                self.model.declared(ADDRESSED, {})  # made by whoever uses its address first
                self.model.published(message, "", ADDRESSED)
                return
            if topic in KEPT:
                change = self.model.retain(message, topic, message.number if message.body else None)
                if change is not None and qos:
                    self.changes[message.number] = change
            self.model.published(message, TOPIC, topic)

        bits |= RETAIN if topic in KEPT else 0
        self.send(raw.publish(topic, message.body, qos, id, self.version, bits=bits), done)

    def subscribe(self, chance: Random) -> str:
        filter, qos = chance.choice(FILTERS), chance.choice((0, 1, 1, 2, 2))
        if self.asked:
            return "waits for a SUBACK"
        if filter == ADDRESS:
            qos = 1
        if filter in self.model.shares.by_filter:
            qos = 1 if qos == 0 or not self.durable else qos  # or messages go with connections
            if self.durable:
                self.model.shares.by_filter[filter].asks(self.name, qos)
            self.give_back(filter)
        elif not qos:  # what waits may come at QoS 0, and so be lost with the connection
            self.release(filter)
        self.asked.append((filter, qos))
        self.send(raw.subscribe(1, (filter, qos), version=self.version), partial(self.subscribed, filter))
        return f"subscribes to {filter} at QoS {qos}"

    def subscribed(self, filter: str) -> None:
        """The broker has taken in a SUBSCRIBE: what is retained has to come."""
        retained = self.model.retained
        if filter == ADDRESS:
            self.model.declared(ADDRESSED, {})
            self.queue_last = -1
        for topic in retained.names() if filter not in self.model.shares.by_filter else []:
            value = retained.value(topic)
            if fits(filter, topic) and retained.is_sure(topic) and isinstance(value, int) and not self.model.doubts:
                self.kept[topic] = value

    def unsubscribe(self, chance: Random) -> str:
        if not self.filters or self.asked:
            return "has nothing to unsubscribe from"
        filter = chance.choice(list(self.filters))
        self.release(filter)
        self.asked.append((filter, -1))
        self.send(raw.unsubscribe(1, filter, version=self.version))
        return f"unsubscribes from {filter}"

    def release(self, filter: str) -> None:
        """What came by this filter may come, and need not."""
        share = self.model.shares.by_filter.get(filter)
        self.kept.clear()
        if filter == ADDRESS:
            self.return_leases()
        if share is not None:
            share.left(self.name)
            self.give_back(filter)
            return
        self.owed = {number: each for number, each in self.owed.items() if not fits(filter, each.topic)}

    def return_leases(self) -> None:
        """What it holds of the queue goes to others: it settles it too late."""
        self.leases.clear()
        self.answers = [(kind, id, max(0, number)) for kind, id, number in self.answers]

    def give_back(self, filter: str) -> None:
        """Messages of a shared subscription that it holds go to others: it acknowledges them too late."""
        for at, (kind, id, number) in enumerate(self.answers):
            if kind == PUBACK and number > 0 and fits(shared(filter), self.model.messages[number].topic):
                self.answers[at] = (kind, id, 0)

    def acknowledge(self, chance: Random) -> str:
        if not self.answers:
            return self.publish(chance)
        count = chance.randint(1, 4)
        sent, self.answers = self.answers[:count], self.answers[count:]
        for kind, id, number in sent:
            effect = partial(self.settle, number) if kind in (PUBACK, PUBREC) else None
            if number < 0:  # of the queue
                effect = partial(self.lease_settled, -number) if self.version != V5 else None
            self.send(raw.acknowledge(kind, id), effect)
        return f"acknowledges {[number for _, _, number in sent]}"

    def settle(self, number: int) -> None:
        if number and not self.model.doubts:
            share = self.model.shares.of_topic(self.model.messages[number].topic)
            settlement = self.settled[number] = Settlement() if share is None else share.settle(number)
            self.model.settled.append(settlement)

    # ---- what it is told

    def take(self, data: bytes) -> int:
        at = 0
        while at + 2 <= len(data) and not self.is_over:
            length, shift, head = 0, 0, at + 1
            while head < len(data):
                length |= (data[head] & 127) << shift
                shift += 7
                head += 1
                if data[head - 1] < 128:
                    break
            else:
                break
            if head + length > len(data):
                break
            self.packet(data[at], data[head : head + length])
            at = head + length
        return at

    def packet(self, first: int, rest: bytes) -> None:
        id = int.from_bytes(rest[:2], "big")
        if first == CONNACK:
            self.on_connack(rest[0] == 1, rest[1])
        elif first in (SUBACK, UNSUBACK):
            filter, qos = self.asked.pop(0)
            if qos < 0:
                self.filters.pop(filter, None)
            else:
                self.filters[filter] = qos
                if filter in self.model.shares.by_filter and self.durable:
                    self.model.shares.by_filter[filter].joined(self.name, qos)
        elif first in (PUBACK, PUBREC):
            self.on_answer(id, first, rest[2] if len(rest) > 2 else 0)
        elif first == PUBCOMP:
            self.unended.discard(id)
        elif first == PUBREL:
            number = self.held.pop(id, 0)
            self.answers.append((PUBCOMP, id, number))
        else:
            check(first >> 4 == 3, f"{self.name} was told {first:#x} {rest!r}")
            self.on_delivery(first, rest)

    def on_connack(self, present: bool, code: int) -> None:
        check(code == 0, f"{self.name} was refused with {code:#x}")
        check(present or self.is_clean or not self.lasting, f"{self.name} had a session, and it is not there")
        check(not (present and self.is_clean), f"{self.name} asked for a new session, and has an old one")
        self.connacked = True
        if self.will is not None:
            self.will.is_sure = True
        self.lasting = self.durable
        self.is_clean = False
        if not present:
            self.model.shares.left(self.name)
            self.forget()
            self.unended.clear()
            self.unacked.clear()
        for id, (message, topic, qos) in list(self.unacked.items()):
            if qos == 2:
                self.send_publish(id, message, topic, qos, DUP)
            else:
                del self.unacked[id]  # it may come once more if it were sent again
        for id in sorted(self.unended):
            self.send(raw.acknowledge(PUBREL, id))

    def on_answer(self, id: int, kind: int, code: int) -> None:
        message, _, qos = self.unacked.pop(id)
        check((kind == PUBREC) == (qos == 2), f"{self.name}: message {message.number} was answered with {kind:#x}")
        change = self.changes.pop(message.number, None)
        if code >= 0x80:
            message.refused = True
            return
        message.promised = True
        if change is not None:
            change.promised = not change.vague
        if qos == 2:
            self.unended.add(id)
            self.send(raw.acknowledge(PUBREL, id))

    def on_delivery(self, first: int, rest: bytes) -> None:
        qos = first >> 1 & 3
        topic, rest = raw.cut_text(rest)
        id = 0
        if qos:
            id, rest = int.from_bytes(rest[:2], "big"), rest[2:]
        properties = b""
        if self.version == V5:
            properties, rest = raw.split_block(rest)
        if first & RETAIN or not rest:
            self.on_kept(qos, topic.decode(), id, rest)
            return
        if topic.decode() == ADDRESS:
            self.on_lease(qos, id, properties, rest)
            return
        number = number_of(rest)
        if self.kept.get(topic.decode()) == number:
            del self.kept[topic.decode()]
        message = self.model.messages.get(number)
        text = f"{self.name} got message {number} at QoS {qos}"
        check(message is not None and message.body == rest, f"{text}: {rest[:40]!r}, which nobody has published")
        assert message is not None
        check(message.topic == topic.decode(), f"{text} on topic {topic!r}, and it was published to {message.topic!r}")
        is_known = number in self.got
        if qos == 2 and id in self.held:
            check(self.held[id] == number, f"{text}, and its identifier {id} is that of message {self.held[id]}")
            self.answers.append((PUBREC, id, number))
            return
        check(number not in self.settled, f"{text}, which it has acknowledged")
        check(not message.void, f"{text}, which was a will, and was called off")
        share = self.model.shares.of_topic(message.topic)
        is_late = self.is_late(message.topic)
        if share is not None:
            share.delivered(self.name, number, qos, is_late, text)
        if qos == 2:
            check(self.got.get(number) != 2, f"{text} twice")
            self.held[id] = number
            self.answers.append((PUBREC, id, number))
        elif qos == 1:
            self.answers.append((PUBACK, id, 0 if is_late else number))
        assert self.model.broker is not None
        if message.qos and not message.late and self.model.broker.delivers_committed:
            message.promised = True
        if not is_known:
            # What has expired is passed over, and comes when the clock has gone back.
            if qos and not message.late and message.expiry_ms == NEVER and share is None:
                self.check_order(message, text)
            self.got[number] = qos

    def is_late(self, topic: str) -> bool:
        """A message of a shared subscription on this topic may have gone to another member since it was sent."""
        is_changing = any(fits(shared(filter), topic) for filter, _ in self.asked if filter.startswith("$share"))
        return is_changing or self.line is None or self.line.lost or self.line.is_ending()

    def on_lease(self, qos: int, id: int, properties: bytes, body: bytes) -> None:
        """A message from the queue, which it holds until it is settled; a client of 3.1.1 settles by PUBACK."""
        queue = self.model.queues.get(ADDRESSED)
        assert queue is not None
        number = self.model.delivered(queue, body, self.name)
        check(qos == 1, f"{self.name} got message {number} of {queue} at QoS {qos}")
        copy = queue.copies[number]
        is_again = self.version != V5 or user("delivery-count", "")[:-2] in properties
        if not is_again and copy.place >= 0 and not self.model.is_tight:
            check(copy.place > self.queue_last, f"{self.name} got message {number} of {queue} behind a later one")
            self.queue_last = copy.place
        names = b"".join(property_of(properties, name) for name in ("message-id", "group-id"))
        is_held = (ADDRESS, -1) not in self.asked
        if is_held:
            self.leases.append((number, names))
        self.answers.append((PUBACK, id, -number if is_held else 0))

    def settle_lease(self, chance: Random) -> str:
        """Settle a message of the queue by a publish to it; only version 5 names it."""
        if not self.leases or self.version != V5:
            return self.acknowledge(chance)
        number, names = self.leases.pop(chance.randrange(len(self.leases)))
        verb = chance.choice(("$ack", "$ack", "$nack"))
        octets = raw.publish(f"{ADDRESS}/{verb}", b"", 0, 0, self.version, properties=names)
        self.send(octets, partial(self.lease_settled, number) if verb == "$ack" else None)
        return f"settles {number} by {verb}"

    def lease_settled(self, number: int) -> None:
        queue = self.model.queues.get(ADDRESSED)
        if queue is None:
            return
        if self.model.doubts:
            queue.copies[number].vague = True  # it may come again, or not
        else:
            self.model.settle(queue, number)

    def on_kept(self, qos: int, topic: str, id: int, body: bytes) -> None:
        """A retained message, which comes anew with each subscription; or nothing, which has taken the place of one."""
        number = number_of(body)
        text = f"{self.name} got retained message {number} on {topic}"
        message = self.model.messages.get(number)
        check(not body or (message is not None and message.body == body), f"{text}, which nobody has published")
        check(topic in KEPT or topic.startswith(WILL), f"{text}, where nothing is retained")
        check(message is None or (message.topic == topic and not message.void), f"{text}: it was not there")
        if self.kept.get(topic) == number:
            del self.kept[topic]
        if qos == 2:
            self.held[id] = number
            self.answers.append((PUBREC, id, 0))
        elif qos == 1:
            self.answers.append((PUBACK, id, 0))

    def check_order(self, message: Message, text: str) -> None:
        """What comes for the first time is newer than all before of its publisher and topic [MQTT-4.6.0-6]."""
        for number, qos in self.got.items():
            other = self.model.messages[number]
            if number > message.number and qos and other.topic == message.topic and not other.late:
                check(other.publisher != message.publisher, f"{text} after message {number}")

    # ---- what is owed to it

    def published(self, message: Message) -> None:
        asked = {filter for filter, _ in self.asked}
        sure = [qos for filter, qos in self.filters.items() if fits(filter, message.topic) and filter not in asked]
        is_owed = message.qos and message.body and message.expiry_ms == NEVER
        if is_owed and self.lasting and not self.is_clean and max(sure, default=0) > 0:
            self.owed[message.number] = message

    def undone(self, number: int) -> None:
        self.owed.pop(number, None)

    def replaced(self, topic: str) -> None:
        """The message comes anyway that has taken the place."""
        self.kept.pop(topic, None)

    def missing_kept(self) -> dict[str, int]:
        """What is retained and had to come: all has, where nothing is on its way either way."""
        is_quiet = self.connacked and not (self.asked or self.answers or self.held or self.is_leaving)
        retained = self.model.retained
        wanted = {each for each in self.kept if retained.is_sure(each) and retained.value(each) == self.kept[each]}
        return {each: self.kept[each] for each in wanted} if is_quiet and not self.model.is_tight else {}

    def progress(self) -> object:
        """What is another as long as anything happens."""
        return self.sent, len(self.got), list(self.answers)

    def missing(self) -> list[int]:
        """Messages that had to come and have not."""
        return [number for number, each in self.owed.items() if each.promised and number not in self.got]

    def restarted(self, durable: int) -> None:
        self.settled = {number: each for number, each in self.settled.items() if each.mark <= durable}

    def ended(self) -> None:
        for change in self.changes.values():
            change.vague = True
        if self.will is not None and self.is_taken_in:
            self.will.is_vague = True  # nobody knows when
            self.model.wills.ended(self.will)
        for message, _, _ in self.unacked.values():
            message.taken = UNKNOWN

    def cut(self, broker: Broker) -> None:
        has_will = self.is_taken_in
        super().cut(broker)
        if has_will and self.will is not None:
            self.model.wills.ended(self.will)

    def take_over(self, broker: Broker, chance: Random) -> None:
        """Come again, though the connection before stands: the broker ends it when it takes in the CONNECT."""
        self.follow()
        self.lose()
        self.connect(broker, chance)

    def gone(self) -> None:
        if self.line is not None and self.line.is_ending() and self.is_taken_in and self.will is not None:
            self.model.wills.doubt(self.will)
        self.changes.clear()
        for filter, _ in self.asked:
            self.filters.pop(filter, None)
        if not self.durable:
            self.forget()
            self.unacked.clear()
            self.unended.clear()


ACTIONS: Final = (
    MqttClient.publish,
    MqttClient.acknowledge,
    MqttClient.settle_lease,
    MqttClient.subscribe,
    MqttClient.unsubscribe,
    MqttClient.clear,
    MqttClient.leave,
)
WEIGHTS: Final = (40, 40, 8, 10, 2, 1, 1)
