"""A client by octets: what it sends comes to the broker when the network likes; what a lost line has is lost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from tests.simulation.broker import Broker, Line
from tests.simulation.model.model import Model

PIECE_MAX: Final = 400
Effect = Callable[[], None]


class Client(ABC):
    """One client, which may have many connections, one after the other.

    unsent   octets that the network still has
    effects  what the model has to do when the broker has taken in so many octets of this line
    dead     the broker takes in nothing more of this line, by right
    is_over  the broker has said so
    """

    def __init__(self, name: str, model: Model) -> None:
        self.name = name
        self.model = model
        self.line: Line | None = None
        self.sequence = 0
        self.begin()

    def begin(self) -> None:
        self.unsent = bytearray()
        self.sent = 0
        self.effects: deque[tuple[int, Effect]] = deque()
        self.rest = b""
        self.dead = False
        self.is_over = False

    @abstractmethod
    def open(self, chance: Random) -> None:
        """Begin to talk on a line that was just made."""

    @abstractmethod
    def act(self, chance: Random) -> str:
        """Do something; in words."""

    def prepare(self, chance: Random) -> str:
        """Do what a deed needs; in words."""
        return self.act(chance)

    def deed(self, chance: Random) -> str:
        """Do something of which nothing may be lost, or come back; in words."""
        return self.act(chance)

    @abstractmethod
    def take(self, data: bytes) -> int:
        """Take in whole frames; how many octets were used."""

    @abstractmethod
    def gone(self) -> None:
        """The line is lost: what was on its way either way is lost, and what was held goes back."""

    def __str__(self) -> str:
        return self.name if self.model.name == "/" else f"{self.name} of {self.model.name}"

    def connect(self, broker: Broker, chance: Random) -> None:
        self.begin()
        self.line = broker.connect()
        self.open(chance)

    def send(self, octets: bytes, effect: Effect | None = None) -> None:
        self.unsent += octets
        self.sent += len(octets)
        if effect is not None:
            self.effects.append((self.sent, effect))

    def push(self, broker: Broker, chance: Random | None) -> None:
        """The network brings some of the octets to the broker, or without any chance all."""
        if self.line is None or self.line.holds:
            return
        octets = len(self.unsent)
        if chance is not None and octets:
            octets = min(octets, chance.choice((octets, octets, chance.randint(0, PIECE_MAX))))
        if octets:
            piece = bytes(self.unsent[:octets])
            del self.unsent[:octets]
            broker.receive(self.line, piece)
        self.follow()

    def follow(self) -> None:
        """Have the model do what the broker has done."""
        line = self.line
        while line is not None and self.effects and self.effects[0][0] <= line.used:
            _, effect = self.effects.popleft()
            if not self.dead:
                self.model.doubts = line.is_ending()
                effect()
                self.model.doubts = False

    def read(self, chance: Random | None) -> None:
        """Take some of what the broker has sent, or without any chance all."""
        line = self.line
        if line is None or not (line.sent or line.lost):
            return
        octets = len(line.sent)
        if chance is not None:
            octets = min(octets, chance.choice((octets, chance.randint(0, PIECE_MAX))))
        data = self.rest + bytes(line.sent[:octets])
        del line.sent[:octets]
        self.rest = b"" if self.model.ending else data[self.take(data) :]
        if line.lost and not line.sent:
            self.ended()
            self.lose()

    @abstractmethod
    def ended(self) -> None:
        """The broker has ended the connection of its own accord."""

    def cut(self, broker: Broker) -> None:
        """The connection breaks here and now."""
        if self.line is not None:
            broker.cut(self.line)
            self.lose()

    def lose(self) -> None:
        if self.line is not None:
            self.gone()
            self.line = None
            self.begin()

    def next_key(self) -> int:
        self.sequence += 1
        return self.sequence
