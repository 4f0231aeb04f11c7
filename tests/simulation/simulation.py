"""A run: one seed gives steps, each of them does something at random, and the same seed does the same again.

Every step has chance of its own, so that a run that goes wrong can be repeated without most of its steps.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from forebay.core.errors import DiskFull, StorageError
from tests.conformance.mqtt.raw import V5, V311
from tests.simulation.broker import Broker
from tests.simulation.clients.admin import Administrator
from tests.simulation.clients.amqp import AmqpClient
from tests.simulation.clients.amqp10 import Amqp10Client
from tests.simulation.clients.client import Client
from tests.simulation.clients.mqtt import MqttClient
from tests.simulation.clients.visitor import Visitor
from tests.simulation.disk import ROOM, SimDisk
from tests.simulation.kinds import OWN, USUAL
from tests.simulation.leavings import clear_up
from tests.simulation.model.audit import Audit
from tests.simulation.model.model import Model
from tests.simulation.model.promises import NEVER, Wrong, check
from tests.simulation.model.vhosts import DEFAULT, Vhosts
from tests.stores import TestClock

AMQP_CLIENTS: Final = 4
MQTT_CLIENTS: Final = ((V5, True), (V5, True), (V311, True), (V5, False))  # version, and whether the session lasts
STEPS_OF_SILENCE: Final = 150  # of a disk: most of a run
DRAIN_MAX: Final = 10_000
TAKEN_AT_REST: Final = 20
NUMBER: Final = re.compile(r"[0-9]+|queue [a-z.]+|[am][0-9]+")
MakeBroker = Callable[[SimDisk, TestClock], Broker]
Action = Callable[[Any, Random], None]  # a step of some kind of simulation


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that went wrong, and the steps that are enough for it."""

    seed: int
    steps: list[int]
    text: str
    told: list[str]

    def __str__(self) -> str:
        lines = "\n".join(f"  {each}" for each in self.told)
        return f"seed {self.seed}: {self.text}\nafter these steps:\n{lines}"


@dataclass(slots=True)
class Result:
    """The sums of what runs have done."""

    steps: int = 0
    messages: int = 0
    audits: int = 0
    faults: Counter[str] = field(default_factory=Counter)


def act_weight(client: Client) -> float:
    """How often a client does something."""
    if isinstance(client, (AmqpClient, Amqp10Client, MqttClient)):
        return 10 if client.model.name == DEFAULT else 4
    return 4 if isinstance(client, Administrator) else 1


def deed_weight(client: Client) -> float:
    """How often a client does something that has to last: most often clients of AMQP."""
    if isinstance(client, AmqpClient):
        return 4 if client.model.name == DEFAULT else 2
    return 4 if isinstance(client, Administrator) else 0 if isinstance(client, Visitor) else 1


def make_broker(disk: SimDisk, clock: TestClock) -> Broker:
    return Broker(disk, clock)


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts of a run; planted bugs have others.

    kinds      the queues that clients of AMQP use
    is_stormy  there are more faults than usual
    """

    make: MakeBroker = make_broker
    make_disk: type[SimDisk] = SimDisk
    kinds: tuple[str, ...] = USUAL
    is_stormy: bool = False

    def begin(self, seed: int) -> Simulation:
        """The run of a seed before its first step."""
        return Simulation(seed, self)


class Simulation:
    """One broker, its clients and its disk.

    told  what the steps did, in words
    """

    def __init__(self, seed: int, setup: Setup) -> None:
        self.seed = seed
        self.make = setup.make
        self.actions, self.weights = self.choose(setup.is_stormy)
        self.disk = setup.make_disk()
        self.clock = TestClock()
        self.kinds = setup.kinds
        self.vhosts = Vhosts(self.guests)
        self.vhosts.clients[0] = self.residents(self.vhosts.default)
        self.audits = 0
        self.told: list[str] = []
        self.faults: Counter[str] = Counter()
        self.steps = 0
        self.slow_until = 0  # the step from which the disk is as quick as ever
        self.begin()

    def choose(self, is_stormy: bool) -> tuple[Sequence[Action], Sequence[float]]:
        """The steps that there are, and how often each is taken."""
        return STEPS, STORMY if is_stormy else STEP_WEIGHTS

    def begin(self) -> None:
        self.broker = self.make(self.disk, self.clock)
        self.vhosts.begin(self.broker)

    # ---- clients

    def residents(self, model: Model) -> list[Client]:
        """The clients of the vhost that is always there."""
        others = tuple(kind for kind in self.kinds if kind != OWN)
        publishers = [AmqpClient(f"a{n}", model, others if n else self.kinds) for n in range(AMQP_CLIENTS)]
        sessions = [MqttClient(f"m{n}", model, *kind) for n, kind in enumerate(MQTT_CLIENTS)]
        return [
            *publishers,
            *sessions,
            Amqp10Client("x0", model, others),
            Administrator("admin", self.vhosts, self.catch_up),
            Visitor("visitor", model),
        ]

    def guests(self, model: Model) -> list[Client]:
        """The clients of a vhost that comes and goes: they have the names of others in "/"."""
        return [AmqpClient("a0", model, self.kinds), MqttClient("m0", model, *MQTT_CLIENTS[0])]

    def clients(self) -> list[Client]:
        return [client for clients in self.vhosts.clients.values() for client in clients]

    def publishers(self) -> list[AmqpClient]:
        return [client for client in self.clients() if isinstance(client, AmqpClient)]

    def sessions(self) -> list[MqttClient]:
        """The clients of MQTT in vhosts that there are."""
        return [client for client in self.clients() if isinstance(client, MqttClient) and not client.model.ending]

    def one(self, chance: Random, weights: Callable[[Client], float]) -> Client:
        """One of the clients in vhosts that there are."""
        clients = [client for client in self.clients() if not client.model.ending]
        return chance.choices(clients, [weights(client) for client in clients])[0]

    def catch_up(self) -> None:
        """All clients take what has been sent to them."""
        for client in self.clients():
            client.read(None)

    def tell(self, text: str) -> None:
        self.told.append(f"{self.steps}: {text}")

    # ---- steps

    def step(self, number: int) -> None:
        """Do what this step of this seed does."""
        self.steps = number
        chance = Random(self.seed << 32 | number)
        action = chance.choices(self.actions, self.weights)[0]
        try:
            action(self, chance)
        except StorageError as error:
            self.tell(f"the broker stops: {error}")
            self.failed(chance)

    def failed(self, chance: Random) -> None:
        """What the broker does where its disk fails: it stops."""
        self.restart(chance)

    def act(self, chance: Random) -> None:
        """One client does a few things, and in most cases all goes through at once."""
        client = self.one(chance, act_weight)
        if client.line is None:
            client.connect(self.broker, chance)
            self.tell(f"{client} connects")
        for _ in range(chance.choice((1, 1, 2, 4))):
            self.tell(f"{client} {client.act(chance)}")
        if chance.random() < 0.8:
            self.go(chance)

    def go(self, chance: Random) -> None:
        """Some of what is on its way arrives, a turn ends, and the disk may have it."""
        for client in self.clients():
            client.push(self.broker, chance)
        self.turn()
        if chance.random() < 0.7:
            self.sync()
        for client in self.clients():
            self.read(client, chance)

    def turn(self) -> None:
        self.vhosts.turned(self.broker.turn())
        for client in self.clients():
            client.follow()

    def sync(self) -> None:
        if self.steps >= self.slow_until:
            self.broker.sync()

    def read(self, client: Client, chance: Random | None) -> None:
        client.read(chance)
        if client.is_over:
            client.cut(self.broker)

    def second(self, chance: Random) -> None:
        """Time goes by: a little, or a lot."""
        ms = chance.choice((100, 1000, 1000, 5000, 60_000))
        self.later(ms)
        self.tell(f"{ms} ms go by")
        if chance.random() < 0.8:
            self.go(chance)

    def later(self, ms: int, ticks: int = 0) -> None:
        self.broker.later(ms, ticks)
        for model in self.vhosts.there():
            model.now_us = self.clock.us
            model.release()
            model.wills.release()

    def housekeep(self, chance: Random) -> None:
        if self.broker.job is not None:
            self.tell("housekeeping is done")
            self.broker.end_job()

    def cut(self, chance: Random) -> None:
        client = chance.choice(self.clients())
        if client.line is not None:
            self.fault("cut", f"the connection of {client.name} breaks")
            client.push(self.broker, chance)
            self.read(client, chance)
            client.cut(self.broker)

    def rest(self, chance: Random) -> None:
        """Everything that is on its way arrives; then all is as the model says."""
        self.slow_until = 0
        for _ in range(4):
            self.exchange()
        self.take_all(chance.choice(self.sessions()), chance)
        self.tell("all is quiet")
        self.audit(False)

    def check_due(self) -> None:
        """Nothing is undone that is due by now, whoever touched it or did not."""
        for model in self.vhosts.there():
            assert model.broker is not None
            late = model.broker.overdue()
            check(not late, f"vhost {model.name}: overdue: {', '.join(late)}")

    def audit(self, restarted: bool, durable: int = NEVER) -> None:
        """All is as the models say."""
        for model in self.vhosts.audit(restarted):
            self.audits += 1
            Audit(model, restarted, durable).run()

    def take_all(self, client: MqttClient, chance: Random) -> None:
        """A client takes what waits for it, as far as it comes soon; then what is retained has come, too."""
        for _ in range(TAKEN_AT_REST):
            if not client.answers:
                break
            client.acknowledge(chance)
            self.exchange()
        missing = client.missing_kept()
        check(not missing, f"{client.name} has not got {missing}, which was retained when it subscribed")

    def exchange(self) -> None:
        """All that is on its way arrives, and what comes of it."""
        for client in self.clients():
            client.push(self.broker, None)
        self.vhosts.turned(self.broker.quiet())
        for client in self.clients():
            client.follow()
            self.read(client, None)

    # ---- faults

    def fault(self, kind: str, text: str) -> None:
        self.faults[kind] += 1
        self.tell(text)

    def crash(self, chance: Random) -> None:
        """The power goes, perhaps in the middle of what the disk was doing."""
        self.fault("power cut", "the power is cut")
        self.interrupt(chance)
        self.disk.crash(chance)
        self.restart(chance)

    def deed(self, chance: Random) -> None:
        """A client does something that has to last; then the power goes: after the answer, or while it is written."""
        client = self.one(chance, deed_weight)
        if client.line is None:
            client.connect(self.broker, chance)
            self.tell(f"{client} connects")
            self.exchange()
        self.tell(f"{client} {client.prepare(chance)}")
        self.exchange()
        self.tell(f"{client} {client.deed(chance)}")
        if chance.random() < 0.5:
            self.exchange()
        else:
            client.push(self.broker, None)
            self.turn()
        self.crash(chance)

    def interrupt(self, chance: Random) -> None:
        """A commit and a job that are on their way get so far and no further."""
        if chance.random() < 0.5:
            for client in self.clients():
                client.push(self.broker, chance)
            self.turn()
        self.disk.changes_left = chance.choice((0, chance.randint(0, 4), chance.randint(0, 12)))
        try:
            for work in chance.sample([self.broker.commit, self.broker.job], 2):
                if work is not None:
                    work.run()
        except StorageError:
            pass

    def kill(self, chance: Random) -> None:
        """The process is killed; what it has written is still there, and perhaps not on the disk."""
        self.fault("kill", "the broker is killed")
        self.interrupt(chance)
        self.restart(chance)

    def stop(self, chance: Random) -> None:
        """The broker stops in good order."""
        self.fault("stop", "the broker stops")
        for client in self.clients():
            client.cut(self.broker)
        for will in [will for model in self.vhosts.there() for will in model.wills.open]:
            will.is_vague = True  # connections that were taken over, or are about to be: the broker leaves them out
        self.broker.close()
        self.restart(chance)

    def fail_sync(self, chance: Random) -> None:
        self.fault("failed sync", "the disk will fail")
        self.disk.syncs_left = chance.randint(0, 2)

    def slow_disk(self, chance: Random) -> None:
        if chance.random() < 0.2:
            self.fault("silent disk", "the disk answers nothing")
            self.slow_until = self.steps + STEPS_OF_SILENCE
            return
        self.fault("slow disk", "the disk takes its time")
        self.slow_until = self.steps + chance.randint(2, 20)

    def take_over(self, chance: Random) -> None:
        """A client of MQTT comes by another connection, while the one before stands."""
        client = chance.choice(self.sessions())
        if client.line is not None:
            self.fault("take-over", f"{client.name} comes again")
            client.take_over(self.broker, chance)
            if chance.random() < 0.7:
                self.go(chance)

    def jump(self, chance: Random) -> None:
        """The clock is wrong, or the machine was asleep: much time goes by at once."""
        ms = chance.choice((90_000, 600_000, 3_600_000))
        self.fault("clock ahead", f"the clock jumps by {ms} ms")
        for publisher in self.publishers():
            if publisher.repeats():  # it would come when the broker knows its name no more
                publisher.cut(self.broker)
        self.later(ms, 1)

    def fill_disk(self, chance: Random) -> None:
        if self.disk.octets_max < ROOM:
            self.tell("there is room on the disk again")
            self.disk.octets_max = ROOM
        else:
            self.fault("full disk", "the disk is full")
            for client in self.clients():
                client.push(self.broker, None)
            for model in self.vhosts.there():
                model.tighten()
            self.disk.octets_max = self.disk.used() + chance.choice((0, 2000, 9000))

    def restart(self, chance: Random) -> None:
        """Start on what the disk has, in one case after a start that is cut off; and see what is there."""
        for client in self.clients():
            client.lose()
        self.vhosts.turned(NEVER)
        self.slow_until = 0
        durable = self.broker.durable()
        if chance.random() < 0.1:
            back_ms = chance.choice((100, 5000, 600_000))
            self.fault("clock back", f"the clock goes back by {back_ms} ms")
            for model in self.vhosts.known.values():
                model.turn_back()
            for publisher in self.publishers():
                publisher.recent.clear()  # nobody knows how long ago they were
            self.clock.us -= back_ms * 1000
        while True:
            self.disk.forget()
            self.disk.octets_max = ROOM
            if chance.random() < 0.15:
                self.fault("cut start", "the power is cut while the broker starts")
                self.disk.changes_left = chance.randint(0, 15)
            try:
                self.begin()
            except DiskFull:
                raise
            except StorageError as error:
                if self.disk.changes_left is None:
                    raise Wrong(f"the broker does not start: {error}") from error
                self.disk.crash(chance)
                continue
            self.disk.changes_left = None
            break
        self.audit(True, durable)

    # ---- a run

    def run(self, steps: list[int]) -> None:
        for number in steps:
            self.step(number)
        self.steps += 1
        chance = Random(self.seed)
        self.disk.octets_max = ROOM
        self.disk.syncs_left = None
        self.rest(chance)
        self.crash(chance)
        self.drain(chance)
        self.rest(chance)
        clear_up(self)

    def drain(self, chance: Random) -> None:
        """Every session comes back and takes everything that it is owed."""
        for ms in (2000, 100):  # what has come meanwhile may have made way for what is due, too
            self.later(ms)
            self.vhosts.turned(self.broker.quiet())
        self.check_due()  # nobody has come since the start
        for client in self.sessions():
            if client.line is None:
                client.connect(self.broker, chance)
        for _ in range(DRAIN_MAX):
            before = [each.progress() for each in self.sessions()]
            for client in self.sessions():
                while client.answers:
                    client.acknowledge(chance)
                client.push(self.broker, None)
            self.vhosts.turned(self.broker.quiet())
            for client in self.sessions():
                client.follow()
                self.read(client, None)
            if before == [each.progress() for each in self.sessions()]:
                break
        for client in self.sessions():
            missing = client.missing()
            check(not missing, f"{client} has not got {missing}, which were confirmed")
        shares = [each for model in self.vhosts.there() for each in model.shares.by_filter.items()]
        for filter, share in shares:
            missing = share.missing()
            check(not missing, f"nobody of {filter} has got {missing}, which were confirmed")


STEPS: Final = (
    Simulation.act,
    Simulation.go,
    Simulation.second,
    Simulation.housekeep,
    Simulation.rest,
    Simulation.cut,
    Simulation.crash,
    Simulation.kill,
    Simulation.stop,
    Simulation.fail_sync,
    Simulation.fill_disk,
    Simulation.slow_disk,
    Simulation.take_over,
    Simulation.jump,
    Simulation.deed,
)
STEP_WEIGHTS: Final = (600, 150, 60, 60, 12, 12, 10, 6, 3, 3, 6, 6, 6, 2, 3)
STORMY: Final = (600, 150, 60, 60, 6, 12, 80, 20, 3, 3, 0, 6, 6, 0, 60)


def simulate(seed: int, steps: int, result: Result, setup: Setup = Setup()) -> Failure | None:
    """One seed; what went wrong, in as few steps as can be found, or None."""
    failure = attempt(seed, list(range(1, steps + 1)), result, setup)
    return None if failure is None else shortest(failure, setup)


def attempt(seed: int, numbers: list[int], result: Result, setup: Setup) -> Failure | None:
    """Run these steps of a seed."""
    simulation = setup.begin(seed)
    wrong = ""
    try:
        simulation.run(numbers)
    except Exception as error:  # noqa: BLE001  whatever the broker raises is what is looked for
        wrong = f"{type(error).__name__}: {error}"
        place = traceback.extract_tb(error.__traceback__)[-1]
        if not isinstance(error, Wrong):
            wrong += f" ({Path(place.filename).name}:{place.lineno})"
    result.steps += len(numbers)
    result.messages += simulation.vhosts.numbers.next - 1
    result.audits += simulation.audits
    result.faults += simulation.faults
    if not wrong:
        return None
    return Failure(seed, [number for number in numbers if number <= simulation.steps], wrong, simulation.told)


def shortest(failure: Failure, setup: Setup, attempts: int = 200) -> Failure:
    """Leave out steps, first many, then few, as long as it goes wrong in the same way."""
    size = len(failure.steps) // 2
    while size >= 1 and attempts > 0:
        at = 0
        while at < len(failure.steps) and attempts > 0:
            attempts -= 1
            fewer = failure.steps[:at] + failure.steps[at + size :]
            found = attempt(failure.seed, fewer, Result(), setup)
            if found is None or NUMBER.sub("", found.text) != NUMBER.sub("", failure.text):
                at += size
            else:
                failure = found
        size //= 2
    return failure
