"""The vhosts of a broker, each with a model of its own: nothing of one comes through to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.simulation.broker import Broker
from tests.simulation.clients.client import Client
from tests.simulation.model.model import Model, Numbers
from tests.simulation.model.promises import check

DEFAULT: Final = "/"
NAMES: Final = ("east", "west")  # those that come and go


class Vhosts:
    """All models, by the numbers of their vhosts.

    people   the clients that a vhost has
    known    also those of which nobody can say whether a crash would leave them
    clients  of each vhost that there is, or whose end its clients have not seen yet
    """

    def __init__(self, people: Callable[[Model], list[Client]]) -> None:
        self.people: Final = people
        self.numbers: Final = Numbers()
        self.default: Final = Model(DEFAULT, self.numbers)
        self.known: dict[int, Model] = {0: self.default}
        self.clients: dict[int, list[Client]] = {0: []}
        self.broker: Broker | None = None

    def begin(self, broker: Broker) -> None:
        """The broker has started."""
        self.broker = broker
        for model in self.known.values():
            model.broker = broker.inside(model.name)
            model.now_us = broker.clock.us

    def there(self) -> list[Model]:
        """The models of the vhosts that there are."""
        return [model for model in self.known.values() if not model.ending]

    def find(self, name: str) -> Model | None:
        return next((model for model in self.there() if model.name == name), None)

    def made(self, name: str) -> Model:
        """The broker has made a vhost."""
        assert self.broker is not None
        model = Model(name, self.numbers)
        number = self.broker.vhost_number(name)
        if number < 0:
            number = min(0, *self.known) - 1  # what came next has deleted it
        model.is_tight = self.default.is_tight
        model.broker = self.broker.inside(name)
        model.now_us = self.broker.clock.us
        self.known[number] = model
        self.clients[number] = self.people(model)
        return model

    def deleted(self, model: Model) -> None:
        """The broker has taken one away; what comes from its clients counts no more."""
        model.ending = True
        assert self.broker is not None
        for number, clients in self.clients.items():
            if self.known[number] is model:
                for client in clients:
                    client.dead = True
                    if client.line is not None and not client.line.is_in(number):
                        client.cut(self.broker)  # it would come to the next of that name

    def turned(self, mark: int) -> None:
        for model in self.known.values():
            model.turned(mark)

    def audit(self, restarted: bool) -> list[Model]:
        """Hold the vhosts that there are against those that may be; the models of those that there are."""
        broker = self.broker
        assert broker is not None
        numbers = broker.vhost_numbers()
        for number, model in list(self.known.items()):
            if number in numbers:
                check(not model.ended, f"vhost {model.name} was deleted and answered, and is there again")
                check(restarted or not model.ending, f"vhost {model.name} was deleted, and is there")
                model.promised = model.promised or restarted or not broker.was_full
                model.ending = False
            else:
                gone = model.ending or (restarted and not model.promised)
                check(gone, f"vhost {model.name} was made and answered, and is not there")
                model.ending = True
                lines = [client.line for client in self.clients[number] if client.line is not None]
                check(all(line.is_told() for line in lines), f"vhost {model.name} is gone, and still has connections")
                if restarted:
                    del self.clients[number], self.known[number]
        unknown = numbers - set(self.known)
        check(not unknown, f"there are vhosts of which nobody knows: {unknown}")
        return self.there()
