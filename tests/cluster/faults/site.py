"""Three nodes and three etcds, each on a machine of its own, and all clients that put them under load."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.broker_process import BrokerProcess
from tests.cluster.faults.amqp_load import (
    Client,
    Consumer,
    Cut,
    Publisher,
    StreamReader,
    TransactionConsumer,
    TransactionPublisher,
    connection_to,
    declare,
    drop,
)
from tests.cluster.faults.ledger import HALF, LATE, LOST, STUCK, TRACEBACK, Findings, Line
from tests.cluster.faults.machines import Network, run, small_disk
from tests.cluster.faults.mqtt_load import MqttClient, MqttPublisher, MqttSubscriber
from tests.cluster.nodes import ask
from tests.etcd import Etcd, EtcdMember
from tests.preload import library
from tests.waiting import pause, stand_still, until

NODES = ("a", "b", "c")
ETCDS = ("e0", "e1", "e2")
CLIENT_PORT, PEER_PORT = 2379, 2380
REGISTER = "/forebay/tests/register/"
LATE_S = 60.0  # after a fault: until all are in sync, there are confirms, and consumers have what was confirmed
LOOK_S = 0.05  # between two looks: who looks all the time takes the nodes' cores
NEVER_S = 300.0  # what has not come by then does not come
SMALL_OCTETS = 32 << 20
WAL_OCTETS = 8 << 20
SOURCES = (Path(__file__).parent.parent.parent / "crash" / "sync.c", Path(__file__).with_name("clock.c"))
FAIL_SYNC, HOLD_SYNC, SLOW_SYNC, CLOCK_AHEAD = "FAIL_SYNC", "HOLD_SYNC", "SLOW_SYNC", "CLOCK_AHEAD"  # of these


class Sort(Enum):
    """What a site is like.

    SMALL      each node's folder is a small file system of its own
    PRELOADED  syncs and clock of each node can be made to fail
    """

    PLAIN = "plain"
    SMALL = "small"
    PRELOADED = "preloaded"


class Node(BrokerProcess):
    """One node, on its machine.

    preloaded  libraries that look for its marks
    """

    def __init__(
        self, folder: Path, name: str, network: Network, etcd: Etcd, preloaded: Sequence[Path], **options: object
    ) -> None:
        self.name = name
        machine = network.machines[name]
        section = {
            "name": "tests",
            "node": name,
            "listen": f"{machine.ip}:5690",
            "etcd": {"endpoints": etcd.endpoints},
            "secret": "of nodes that know each other",
        }
        addresses = {"amqp": f"{machine.ip}:5672", "mqtt": f"{machine.ip}:1883", "mqtt_websocket": ""}
        super().__init__(folder, cluster=section, **addresses, **options)
        self.wrapper = list(machine.wrapper)
        if preloaded:
            marks = [f"{name}={self.mark(name)}" for name in (FAIL_SYNC, HOLD_SYNC, SLOW_SYNC, CLOCK_AHEAD)]
            self.wrapper += ["env", f"LD_PRELOAD={':'.join(map(str, preloaded))}", *marks]
        self.is_up = False
        self.tracebacks = 0  # in its log, that were told

    def begin(self) -> None:
        self.start()
        self.is_up = True

    def end(self) -> None:
        """SIGKILL, where it runs."""
        if self.is_up:
            self.is_up = False
            self.kill9()

    def mark(self, variable: str) -> Path:
        """While this file is there the calls that a variable of the libraries is about are answered in another way."""
        return self.folder / variable

    def hang(self) -> None:
        """Answer nobody, until it goes on."""
        assert self._process is not None
        stand_still(self._process.pid)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class Site:
    """All of it."""

    def __init__(self, network: Network, folder: Path, seed: int, rate: float, sort: Sort) -> None:
        self.findings = Findings()
        self.network = network
        self.etcd = self.make_etcd(folder)
        options: dict[str, object] = {"wal_octets_max": WAL_OCTETS, "wal_chunk_octets": WAL_OCTETS // 4}
        options["loopback_users"] = []
        if sort is Sort.SMALL:
            options |= {"disk_free_min_octets": 0, "wal_octets_max": 1 << 20, "wal_chunk_octets": 1 << 16}
        preloaded = [library(source, folder) for source in SOURCES] if sort is Sort.PRELOADED else []
        self.nodes = {name: Node(folder / name, name, network, self.etcd, preloaded, **options) for name in NODES}
        self.sort = sort
        self.hosts = [self.network.machines[name].ip for name in NODES]
        self.lines = {name: Line(name, self.findings) for name in ("work", "tx-work", "events", "left", "right")}
        self.lines |= {name: Line(name, self.findings) for name in ("q/1", "q/2")}
        self.reader = StreamReader(self.lines["events"], self.hosts, seed)
        self.subscribers = [
            MqttSubscriber(self.lines["q/1"], self.hosts, seed, 1),
            MqttSubscriber(self.lines["q/2"], self.hosts, seed, 2),
        ]
        self.clients: list[Client | MqttClient] = [
            Consumer(self.lines["work"], self.hosts, seed),
            TransactionConsumer(self.lines["tx-work"], self.hosts, seed),
            Consumer(self.lines["left"], self.hosts, seed),
            Consumer(self.lines["right"], self.hosts, seed),
            self.reader,
            *self.subscribers,
        ]
        self.publishers: list[Client | MqttClient] = [
            *(Publisher(self.lines[name], self.hosts, seed, rate) for name in ("work", "tx-work", "events")),
            TransactionPublisher([self.lines["left"], self.lines["right"]], self.hosts, seed, rate),
            *(MqttPublisher(self.lines[f"q/{qos}"], self.hosts, seed, qos, rate) for qos in (1, 2)),
        ]

    def make_etcd(self, folder: Path) -> Etcd:
        """Three etcds that are not started."""
        (folder / "etcd").mkdir(parents=True)
        etcd = Etcd(folder / "etcd", 0)
        for name in ETCDS:
            machine = self.network.machines[name]
            ports = (CLIENT_PORT, PEER_PORT)
            etcd.members.append(EtcdMember(folder / "etcd", name, ports, host=machine.ip, wrapper=machine.wrapper))
        return etcd

    def start(self) -> None:
        """Start everything, and wait until messages go."""
        self.etcd.start()
        for node in self.nodes.values():
            if self.sort is Sort.SMALL:
                small_disk(node.data, SMALL_OCTETS)
            node.begin()
        self.wait_in_sync()
        until(self.declared, self.told)
        for client in self.clients:
            client.start()
        for subscriber in self.subscribers:
            until(subscriber.subscribed.is_set, self.told)
        for publisher in self.publishers:
            publisher.start()
        until(lambda: all(line.confirmed() for line in self.lines.values()), self.told)

    def declared(self) -> bool:
        try:
            declare(self.hosts[0], ["work", "tx-work", "left", "right"], ["events"])
        except Cut:
            return False
        return True

    # ---- how it stands

    def record(self) -> dict[str, Any]:
        """The cluster's record, by the first etcd that answers; empty where none does."""
        found: dict[str, Any] = json.loads(self.etcd.first_value(REGISTER, 1.0) or "{}")
        return found

    def in_sync(self) -> list[str]:
        return sorted(self.record().get("in_sync", {}))

    def wait_in_sync(self) -> None:
        until(lambda: self.in_sync() == list(NODES), self.told)

    def control(self, *words: str) -> None:
        """A command that any node may do; it is refused for as long as a member is not there yet."""

        def is_done() -> bool:
            try:
                ask([node.listeners["amqp"] for node in self.nodes.values()], *words)
            except AssertionError:
                return False
            return True

        until(is_done, self.told)

    def leader(self) -> Node:
        """The node that leads, as the record says."""
        return self.nodes[until(lambda: self.record().get("leader", ""), self.told)]

    def followers(self) -> list[Node]:
        leader = self.leader()
        return [node for node in self.nodes.values() if node is not leader]

    def told(self) -> str:
        """The record and the end of each log."""
        logs = [f"--- {name}\n{node.log_text()[-4000:]}" for name, node in self.nodes.items()]
        return "\n".join([json.dumps(self.record()), *logs])

    # ---- checks

    def wait(self, condition: Callable[[], object], kind: str, told: Callable[[], str]) -> None:
        """Wait until it holds. What comes late is found and so is what never comes, which is of that kind."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > NEVER_S:
                self.findings.add(kind, f"{told()}\n{self.told()}")
                return
            pause(LOOK_S)
        if (waited := time.monotonic() - began) > LATE_S:
            self.findings.add(LATE, f"after {waited:.0f} s, which else is {kind}")

    def wait_whole(self) -> None:
        """Wait until all nodes are in sync, and each publisher has a confirm of something that it sent after that."""
        self.wait(lambda: self.in_sync() == list(NODES), STUCK, lambda: "not whole")
        since = time.monotonic()
        for line in self.lines.values():
            self.wait(partial(line.first_confirm, since), STUCK, partial("{}: no confirm".format, line.name))

    def check(self) -> None:
        """What is confirmed by now must come; transactions are whole."""
        for line in self.lines.values():
            numbers = line.confirmed()
            self.wait(partial(line.has_all, numbers), LOST, partial(line.told_missing, numbers))
        most = max(self.lines["left"].confirmed(), default=0)
        self.wait(lambda: not self.halves(most), HALF, lambda: f"transactions {self.halves(most)[:10]}")
        for client in [*self.clients, *self.publishers]:
            if client.error is not None:
                raise AssertionError(f"{client.name} failed: {client.error!r}") from client.error
        for node in self.nodes.values():
            tracebacks = node.log_text().split("Traceback (most recent call last)")[1:]
            for text in tracebacks[node.tracebacks :]:
                self.findings.add(TRACEBACK, f"{node.name}: {text[:2000]}")
            node.tracebacks = len(tracebacks)

    def halves(self, most: int) -> list[int]:
        """Transactions up to that one of which one message was seen, and the other not."""
        left, right = self.lines["left"], self.lines["right"]
        return [number for number in range(most) if bool(left.seen[number]) != bool(right.seen[number])]

    def first_confirm(self, since: float) -> float:
        """Seconds until somebody had a confirm of what was sent after that moment."""
        found = [at for line in self.lines.values() if (at := line.first_confirm(since))]
        return min(found) - since if found else 0.0

    def longest_pause(self, since: float) -> float:
        """The longest time without a confirm of anybody since a moment."""
        found = sorted(at for line in self.lines.values() for at in line.confirms_since(since))
        return max(later - at for at, later in pairwise([since, *found]))

    def finish(self) -> None:
        """Stop publishers, read the stream from its begin, and end everything in good order."""
        for publisher in self.publishers:
            publisher.stopping.set()
        for publisher in self.publishers:
            publisher.join()
        self.check()
        for client in self.clients:
            client.stopping.set()
        for client in self.clients:
            client.join()
        self.reader.stopping.clear()
        self.reader.alive_at = time.monotonic()
        connection = connection_to(self.hosts[0])
        self.reader.read(connection, connection.channel(), 0, whole=True)
        drop(connection)
        for node in self.nodes.values():
            node.stop()
            node.is_up = False
        self.etcd.stop()

    def abandon(self) -> None:
        """End what is left."""
        for node in self.nodes.values():
            if node.is_up:
                node.go_on()
            node.abandon()
            if self.sort is Sort.SMALL and node.data.is_mount():
                run("umount", "--lazy", str(node.data))  # else the folder cannot be removed
        self.etcd.stop()
