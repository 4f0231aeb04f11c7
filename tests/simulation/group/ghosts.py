"""Clients of a leader that is one no more, and may not know it yet: it must confirm nothing that is not there.

What it confirms late may be right: others may have had it before the next leader took over. What the next leader does
not have, and what comes to the deposed leader from then on, must never be confirmed; and once the next leader may
deliver, the one before must not.
"""

from __future__ import annotations

from random import Random

from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import method, number, publish, short
from tests.simulation.broker import Line
from tests.simulation.clients.admin import ERROR, HEAD_OCTETS
from tests.simulation.clients.amqp import AmqpClient
from tests.simulation.clients.amqp10 import Amqp10Client
from tests.simulation.clients.channel import CONFIRMS, packed
from tests.simulation.clients.client import Client
from tests.simulation.clients.mqtt import MqttClient
from tests.simulation.group.leader import LeaderBroker
from tests.simulation.model.promises import check
from tests.simulation.model.queues import Message

METHOD = 1
CLOSE = number(raw.CLOSE[0], 2) + number(raw.CLOSE[1], 2)
AMQP10_CLOSE = b"\x00\x53\x18"
MQTT_DISCONNECT = 0xE0
ACKNOWLEDGE_ALL = method(1, raw.ACK, number(0, 8) + number(1, 1))


def check_farewell(client: Client, octets: bytes) -> None:
    """A drained leader that leads no more has told a client to go, and nothing else."""
    if isinstance(client, AmqpClient):
        is_alone = octets[7:11] == CLOSE and len(octets) == 8 + int.from_bytes(octets[3:7], "big")
    elif isinstance(client, Amqp10Client):
        is_alone = octets[8:11] == AMQP10_CLOSE and len(octets) == int.from_bytes(octets[:4], "big")
    elif isinstance(client, MqttClient):
        is_alone = octets[0] == MQTT_DISCONNECT and len(octets) == 2 + octets[1]
    else:
        is_alone = octets[4] == ERROR and len(octets) == HEAD_OCTETS + int.from_bytes(octets[:4], "little")
    check(is_alone, f"{client} was told {octets!r} by a drained leader that leads no more")


class Ghost:
    """One client that stays with a deposed leader.

    open_tags  publishes that are not confirmed
    owed       of these, those of which the model says that they are there, if they are anywhere
    rest       what the leader had sent before it was deposed, as far as it was not read
    old        so many octets of that
    queues     names of durable queues that the deposed leader has: elsewhere it would confirm what goes nowhere
    """

    def __init__(self, client: AmqpClient, line: Line, broker: LeaderBroker) -> None:
        self.name = client.name
        self.model = client.model
        self.broker = broker
        self.line = line
        self.mode = client.mode
        self.next_tag = client.next_tag
        self.open_tags = dict(client.open_tags)
        self.owed = {tag for tag, message in self.open_tags.items() if self.is_owed(message)}
        self.rest = client.rest + bytes(line.sent)
        self.old = len(self.rest)
        self.queues = [each.name for each in self.model.queues.values() if each.promised and not each.is_transient]
        line.sent.clear()

    @property
    def is_over(self) -> bool:
        return self.broker.is_over or self.line.lost

    def is_owed(self, message: Message) -> bool:
        """Whether some queue has to have the message, so that its confirm says that it is there."""
        queues = [queue for queue in self.model.queues.values() if message.number in queue.copies]
        now_us = self.model.now_us
        return any(queue.promised and queue.must_have(message.number, now_us) for queue in queues)

    def act(self, chance: Random) -> None:
        """Publish once more: nobody else will ever have it. Get what others may have got by now, and settle it."""
        names = self.queues
        if not names or self.line.holds or chance.random() < 0.3:
            return
        if chance.random() < 0.5:
            self.broker.receive(self.line, method(1, raw.GET, b"\0\0" + short(chance.choice(names)) + b"\0"))
        if chance.random() < 0.3:
            self.broker.receive(self.line, ACKNOWLEDGE_ALL)
        if self.mode != CONFIRMS:
            return
        message = self.model.new_message(self.name + " astray", 20)
        self.open_tags[self.next_tag] = message
        self.owed.add(self.next_tag)
        self.next_tag += 1
        octets = publish(1, chance.choice(names), message.body, "", packed({}, 0, 0))
        self.broker.receive(self.line, octets)

    def read(self, next_leader: LeaderBroker) -> None:
        """Take what the deposed leader has sent."""
        data = self.rest + bytes(self.line.sent)
        self.line.sent.clear()
        at = 0
        while at + 7 <= len(data):
            end = at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")
            if end > len(data):
                break
            if data[at] == METHOD:
                self.method(data[at + 7 : end - 1], at < self.old, next_leader)
            at = end
        self.rest = data[at:]
        self.old = max(0, self.old - at)

    def method(self, payload: bytes, is_old: bool, next_leader: LeaderBroker) -> None:
        which = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        if which in (raw.DELIVER, raw.GET_OK):
            text = f"{self.broker.process.name} delivers to {self.name} in epoch {self.broker.epoch}"
            check(is_old or not next_leader.has_delivered, f"{text}, and {next_leader.process.name} may by now")
        elif which in (raw.ACK, raw.NACK):
            upto, multiple = int.from_bytes(payload[4:12], "big"), payload[12] & 1 == 1
            for tag in [each for each in self.open_tags if each <= upto] if multiple else [upto]:
                message = self.open_tags.pop(tag, None)
                is_lie = which == raw.ACK and message is not None and tag in self.owed and not message.promised
                text = "" if message is None else f"message {message.number}, which the next leader does not have"
                check(not is_lie, f"{self.broker.process.name} was deposed, and confirms {text}")
