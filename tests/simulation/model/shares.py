"""Shared subscriptions: of the members of a group one gets each message, and what it leaves another."""

from __future__ import annotations

from typing import Final

from tests.simulation.kinds import SHARES
from tests.simulation.model.promises import Settlement, check
from tests.simulation.model.queues import Message

EXACTLY_ONCE: Final = 2


class Share:
    """One shared subscription.

    members  the durable sessions that are members for certain, with their QoS
    unsure   those that may be, as nobody has answered their SUBSCRIBE, with the highest QoS that they may have
    owed     what has to come to one of them, once its publisher has an answer
    got      whom each message came to last, and at which QoS
    settled  what was acknowledged, and what makes that certain
    """

    def __init__(self) -> None:
        self.members: dict[str, int] = {}
        self.unsure: dict[str, int] = {}
        self.owed: dict[int, Message] = {}
        self.got: dict[int, tuple[str, int]] = {}
        self.settled: dict[int, Settlement] = {}

    def published(self, message: Message) -> None:
        """A message has come that fits, if nothing is in doubt."""
        if self.members and message.qos:
            self.owed[message.number] = message

    def delivered(self, name: str, number: int, qos: int, is_late: bool, text: str) -> None:
        """A member gets a message, perhaps after another one; late: this was sent when it still was the member's."""
        if is_late:
            self.got.setdefault(number, (name, qos))
            return
        check(number not in self.settled, f"{text}, which was acknowledged")
        before, before_qos = self.got.get(number, (name, qos))
        check(before == name or before_qos < EXACTLY_ONCE, f"{text}, which {before} got for good")
        self.got[number] = (name, qos)

    def settle(self, number: int) -> Settlement:
        """A member has acknowledged a message."""
        return self.settled.setdefault(number, Settlement())

    def asks(self, name: str, qos: int) -> None:
        """A durable session subscribes, perhaps not for the first time."""
        self.unsure[name] = max(qos, self.members.pop(name, 0), self.unsure.get(name, 0))

    def joined(self, name: str, qos: int) -> None:
        """It was answered."""
        self.unsure.pop(name, None)
        self.members[name] = qos

    def left(self, name: str) -> None:
        """A member goes, and at QoS 2 with it what it was sent; with the last one goes all."""
        qos = max(self.members.pop(name, 0), self.unsure.pop(name, 0)) or EXACTLY_ONCE
        if qos == EXACTLY_ONCE or not self.members:
            self.owed.clear()

    def missing(self) -> list[int]:
        """Messages that had to come and have not."""
        return [number for number, each in self.owed.items() if each.promised and number not in self.got]

    def restarted(self, durable: int) -> None:
        self.settled = {number: each for number, each in self.settled.items() if each.mark <= durable}


class Shares:
    """All shared subscriptions by their filter."""

    def __init__(self) -> None:
        self.by_filter: Final = {filter: Share() for filter in SHARES.values()}

    def of_topic(self, topic: str) -> Share | None:
        """The one that has the messages of a topic."""
        filter = SHARES.get(topic.partition("/")[0])
        return None if filter is None else self.by_filter[filter]

    def left(self, name: str) -> None:
        """A client has no session any more."""
        for share in self.by_filter.values():
            if name in share.members or name in share.unsure:
                share.left(name)

    def restarted(self, durable: int) -> None:
        for share in self.by_filter.values():
            share.restarted(durable)
