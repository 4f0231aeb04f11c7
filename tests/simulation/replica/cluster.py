"""Simulated nodes, the network between them, the register, and clients; one clock, and chance from one seed.

Everything happens at a point of simulated time; nothing else is there. `checks.py` holds what happens against the
promises, `faults.py` does harm.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from forebay.core.errors import RequestError
from forebay.replica.member import Member
from forebay.replica.outcome import Change
from forebay.replica.register import TAKE_OVER, MemberAddresses, RegisterValue, View
from tests.simulation.replica.checks import Checks
from tests.simulation.replica.replica import Record, Replica
from tests.simulation.replica.violation import Violation

CLIENTS: Final = 3
DRIFT: Final = 0.02
ADDRESSES: Final = MemberAddresses("", {})


class Client:
    """A publisher of numbered records: each is sent until it is confirmed, in order."""

    def __init__(self) -> None:
        self.next = 0
        self.confirmed = 0
        self.target = 0
        self.since = 0.0


class Cluster:
    """One run.

    made     the class of its members
    plants   what is wrong with disk, store or operator: names of `plants.py`
    """

    refusal = RequestError

    def __init__(
        self,
        seed: int,
        made: type[Member] = Member,
        plants: frozenset[str] = frozenset(),
        nodes: int = 0,
        min_in_sync: int = 0,
        is_quiet: bool = False,
    ) -> None:
        self.random = chance = random.Random(seed)
        self.made, self.plants, self.is_quiet = made, plants, is_quiet
        self.is_planted = made is not Member or bool(plants)
        self.now, self.sequence, self.ids = 0.0, 0, 0
        self.queue: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self.statistics: Counter[str] = Counter()
        self.tick = 0.05
        self.delay, self.sync = chance.choice([0.0005, 0.002, 0.01]), chance.choice([0.002, 0.005, 0.02])
        self.register_time, self.period = chance.choice([0.005, 0.03, 0.1]), 0.05
        self.is_tcp = chance.random() < 0.5
        self.loss, self.doubles, self.late, self.register_loss = 0.0, 0.0, 0.0, 0.0
        self.blocked: dict[tuple[str, str], float] = {}
        self.connections: Counter[tuple[str, str]] = Counter()
        self.last_arrival: dict[tuple[str, str], float] = {}
        self.register_blocked: dict[str, float] = {}
        self.register_away, self.register_slow, self.changes_under_way = 0.0, 1, 0
        self.checks = Checks(self)
        count = nodes or chance.choice([3, 3, 4, 5])
        self.nodes = [Replica(self, i) for i in range(count)]
        self.by_name = {node.name: node for node in self.nodes}
        members = count if nodes else chance.randint(2, count)
        self.min_first = min_in_sync or chance.choice([1, 1, 2, 2, min(3, members)])
        first = self.nodes[:members]
        in_sync = {node.name: node.store_id for node in first}
        addresses = {node.name: ADDRESSES for node in first}
        self.value = RegisterValue("sim", 1, "a", in_sync, addresses, self.min_first, TAKE_OVER, "a")
        self.revision = 1
        self.history: list[tuple[float, RegisterValue]] = []
        self.clients = [Client() for _ in range(CLIENTS)]
        every = ["down", "down", "power", "pause", "isolate", "reg", "fresh"]
        self.strikes = chance.choice([every, every, ["isolate"], ["isolate", "reg"], ["down", "fresh"]])
        self.is_publishing, self.window, self.hunting_ends = True, 8, 0.0
        self.hunting = 0 if is_quiet else chance.choice([0, 0.2, 0.5])
        for node in self.nodes:
            if not is_quiet:
                node.rate = 1 + chance.uniform(-DRIFT, DRIFT)
            node.start()
        for publisher in range(CLIENTS):
            self.at(chance.uniform(0, 0.05), self.publish_tick, publisher)

    # The engine.

    def at(self, after: float, call: Callable[..., None], *given: object) -> None:
        self.sequence += 1
        heapq.heappush(self.queue, (self.now + after, self.sequence, call, given))

    def run_to(self, time: float) -> None:
        queue = self.queue
        while queue and queue[0][0] <= time:
            self.now, _, call, given = heapq.heappop(queue)
            self.statistics["events"] += 1
            call(*given)
        self.now = time

    def fire(self, node: Replica, life: int | None, call: Callable[..., None], given: tuple[object, ...]) -> None:
        """At a node, if it is up, and in the same life where one is named; later, if it is paused."""
        if node.is_up and (life is None or node.life == life):
            if node.is_paused:
                node.inbox.append((life, call, given))
            else:
                call(*given)

    def wake(self, node: Replica, life: int) -> None:
        if node.is_up and node.life == life and node.is_paused:
            node.is_paused, inbox, node.inbox = False, node.inbox, []
            for was, call, given in inbox:
                self.fire(node, was, call, given)

    def new_store_id(self, number: int) -> str:
        self.ids += 1
        return f"{number:016x}{self.ids:016x}"

    def store_id_of_wiped(self, node: Replica) -> str:
        return node.store_id if "no_uuid" in self.plants else self.new_store_id(node.number)

    def promise_kept(self, node: Replica, promise: int) -> int:
        return node.promised_on_disk if "promise_volatile" in self.plants else promise

    # The network.

    def send(self, sender: Replica, peer: str, octets: bytes) -> None:
        """With TCP in order, and what is on its way when a connection breaks is lost; without it anything may be."""
        chance, receiver, key = self.random, self.by_name[peer], (sender.name, peer)
        blocked = self.blocked.get(key, 0)
        delay = self.delay * chance.uniform(0.9, 1.1 if not self.late else 3)
        if self.is_tcp:
            if chance.random() < self.loss or (blocked > self.now and chance.random() < 0.5):
                self.connections[key] += 1
                self.at(delay, self.fire, receiver, receiver.life, receiver.on_reset, (sender.name,))
                return
            time = max(self.now, blocked) + delay + (chance.uniform(0, 1) if chance.random() < self.late else 0)
            time = self.last_arrival[key] = max(time, self.last_arrival.get(key, 0) + 1e-6)
            self.at(time - self.now, self.arrive, key, self.connections[key], receiver.life, octets)
        elif blocked <= self.now and chance.random() >= self.loss:
            for _ in range(2 if chance.random() < self.doubles else 1):
                late = chance.uniform(0, 2) if chance.random() < self.late else 0
                self.at(delay + late, self.arrive, key, None, None, octets)

    def arrive(self, key: tuple[str, str], connection: int | None, life: int | None, octets: bytes) -> None:
        receiver = self.by_name[key[1]]
        if connection is None or (self.connections[key] == connection and receiver.life == life):
            self.fire(receiver, None, receiver.on_message, (key[0], octets))

    def is_blocked(self, a: str, b: str) -> bool:
        return max(self.blocked.get((a, b), 0), self.blocked.get((b, a), 0)) > self.now

    def probe(self, node: Replica, peer: str) -> None:
        """Try to connect: refused only if the process is down and its machine up."""
        if not self.is_blocked(node.name, peer):
            self.at(self.delay, self.probed, node, node.life, peer, node.now())

    def probed(self, node: Replica, life: int, peer: str, tried: int) -> None:
        other = self.by_name[peer]
        if other.has_host and not other.is_up:
            late = self.random.uniform(0, 1) if self.random.random() < self.late else 0
            self.at(self.delay + late, self.fire, node, life, node.on_refused, (peer, tried))

    # The register.

    def call_register(self, node: Replica | None, change: Change | None, answer: Callable[..., None] | None) -> None:
        """A read, or a change; it may be lost, applied late, and its answer may be lost or late."""
        chance = self.random
        delay = self.register_time / 2 * self.register_slow * chance.uniform(0.9, 1.1)
        away = max(self.register_away, self.register_blocked.get(node.name, 0) if node is not None else 0)
        if away > self.now:
            if chance.random() < 0.5:
                return
            delay += away - self.now
        elif chance.random() < self.register_loss:
            return
        self.changes_under_way += change is not None
        if change is not None and node is not None:
            self.hunt(node)
        self.at(delay, self.apply, node, node.life if node is not None else 0, change, answer)

    def apply(self, node: Replica | None, life: int, change: Change | None, answer: Callable[..., None] | None) -> None:
        self.changes_under_way -= change is not None
        if self.register_away > self.now:
            return
        is_won = change is not None and change.revision == self.revision
        if is_won and change is not None:
            self.change(change.value)
        chance = self.random
        blocked = node is not None and self.register_blocked.get(node.name, 0) > self.now
        if node is not None and answer is not None and chance.random() >= self.register_loss and not blocked:
            delay = self.register_time / 2 * self.register_slow * chance.uniform(0.9, 1.1)
            self.at(delay, self.fire, node, life, answer, (change, is_won, View(self.revision, self.value)))

    def change(self, new: RegisterValue) -> None:
        old, chance = self.value, self.random
        self.checks.on_change(old, new)
        self.revision, self.value = self.revision + 1, new
        self.statistics["changes"] += 1
        self.checks.in_sync_have_all(0)
        self.hunt(self.by_name[new.leader])
        if len(new.in_sync) > len(old.in_sync):  # somebody was taken in: let it lead
            self.hunt(self.by_name[old.leader], 0.01)
        self.history.append((round(self.now, 3), new))
        for node in self.nodes:
            late = chance.uniform(0, 2) if chance.random() < self.late * 5 else 0
            delay = self.register_time / 2 * chance.uniform(0.9, 1.1) + late
            if chance.random() >= self.register_loss and self.register_blocked.get(node.name, 0) <= self.now:
                self.at(delay, self.fire, node, node.life, node.on_view, (View(self.revision, new),))

    # Clients.

    def publish_tick(self, publisher: int) -> None:
        if publisher >= len(self.clients):
            return
        client = self.clients[publisher]
        self.at(self.period, self.publish_tick, publisher)
        if self.is_publishing and client.next - client.confirmed < self.window:
            client.next += 1
        if client.next > client.confirmed:
            if self.now - client.since > 0.3:
                client.target, client.since = self.random.randrange(len(self.nodes)), self.now
            targets = [self.nodes[client.target]] * (self.random.random() >= self.loss)
            for node in self.nodes if self.is_quiet else targets:
                given = (publisher, client.confirmed + 1, client.next)
                self.at(self.delay, self.fire, node, None, node.on_publish, given)

    def redirect(self, publisher: int, node: Replica) -> None:
        view = node.member.standing.view
        if view is not None and self.random.random() < 0.7:
            self.clients[publisher].target = self.by_name[view.value.leader].number

    def confirm(self, node: Replica, publisher: int, number: int) -> None:
        """Recorded when the leader decides it: the client may know from here on."""
        self.checks.on_confirm((publisher, number))
        if self.random.random() >= self.loss:
            self.at(self.delay, self.confirmed, publisher, number, node.number)

    def confirmed(self, publisher: int, number: int, node: int) -> None:
        client = self.clients[publisher]
        client.confirmed, client.target, client.since = max(client.confirmed, number), node, self.now

    # What nodes report.

    def on_begin(self, node: Replica) -> None:
        self.statistics["epochs"] += 1
        self.checks.on_begin(node)
        self.hunt(node)

    def on_commit(self, node: Replica, first: int, last: int) -> None:
        for frame in self.checks.on_commit(node, first, last):
            if frame[1][0] == "P":
                publisher, number = frame[1][1:]
                assert isinstance(publisher, int) and isinstance(number, int)
                self.confirm(node, publisher, number)

    def check_follower(self, node: Replica, first: int, last: int) -> None:
        self.checks.on_follower_commit(node, first, last)

    def on_deliver(self, node: Replica, record: Record) -> None:
        self.checks.on_deliver(node, record)
        self.statistics["delivered"] += 1
        if self.random.random() >= 0.1:
            self.at(self.random.uniform(0.01, 0.1), self.fire, node, None, node.on_settle, (record,))

    # Harm at a delicate moment; `faults.py` has the rest.

    def hunt(self, node: Replica, within: float = 0.03) -> None:
        chance = self.random
        if self.now < self.hunting_ends and chance.random() < self.hunting:
            node = node if chance.random() < 0.7 else chance.choice(self.nodes)
            self.at(chance.uniform(0, within), self.strike, node, chance.choice(self.strikes))

    def strike(self, node: Replica, kind: str) -> None:
        raise Violation("nobody strikes here")
