"""Three nodes and three etcds, each on a machine of its own, and all clients that put them under load."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from base64 import b64decode, b64encode
from contextlib import suppress
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
from tests.cluster.faults.ledger import HALF, LOST, STUCK, TRACEBACK, Findings, Line
from tests.cluster.faults.machines import Network, run, small_disk
from tests.cluster.faults.mqtt_load import MqttClient, MqttPublisher, MqttSubscriber
from tests.etcd import Etcd, EtcdMember
from tests.waiting import look_again, until

NODES = ("a", "b", "c")
ETCDS = ("e0", "e1", "e2")
CLIENT_PORT, PEER_PORT = 2379, 2380
REGISTER, REGISTER_END = b"/forebay/tests/register/", b"/forebay/tests/register0"
WHOLE_S_MAX = 60.0  # until all are in sync after a fault is over
SEEN_S_MAX = 45.0  # until consumers have what was confirmed
SMALL_OCTETS = 32 << 20
WAL_OCTETS = 8 << 20


class Node(BrokerProcess):
    """One node, on its machine."""

    def __init__(self, folder: Path, name: str, network: Network, etcd: Etcd, **options: object) -> None:
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
        super().__init__(folder, cluster=section, wrapper=machine.wrapper, **addresses, **options)
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

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class Site:
    """All of it.

    small  each node's folder is a small file system of its own
    """

    def __init__(self, network: Network, folder: Path, seed: int, rate: float, small: bool = False) -> None:
        self.findings = Findings()
        self.network = network
        self.etcd = self.make_etcd(folder)
        options: dict[str, object] = {"wal_octets_max": WAL_OCTETS, "wal_chunk_octets": WAL_OCTETS // 4}
        options["loopback_users"] = []
        if small:
            options |= {"disk_free_min_octets": 0, "wal_octets_max": 1 << 20, "wal_chunk_octets": 1 << 16}
        self.nodes = {name: Node(folder / name, name, self.network, self.etcd, **options) for name in NODES}
        self.small = small
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
            if self.small:
                small_disk(node.data, SMALL_OCTETS)
            node.begin()
        until(lambda: self.in_sync() == list(NODES), self.told)
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
        keys = {"key": b64encode(REGISTER).decode(), "range_end": b64encode(REGISTER_END).decode()}
        for member in self.etcd.members:
            if member.process is None:
                continue
            asked = urllib.request.Request(f"{member.url}/v3/kv/range", json.dumps(keys).encode())
            with suppress(OSError), urllib.request.urlopen(asked, timeout=1) as answer:
                found = json.loads(answer.read()).get("kvs", [])
                return json.loads(b64decode(found[0]["value"])) if found else {}
        return {}

    def in_sync(self) -> list[str]:
        return sorted(self.record().get("in_sync", {}))

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

    def wait_whole(self) -> None:
        """Wait until all nodes are in sync."""
        deadline = time.monotonic() + WHOLE_S_MAX
        while self.in_sync() != list(NODES):
            if time.monotonic() > deadline:
                self.findings.add(STUCK, f"not whole after {WHOLE_S_MAX:.0f} s:\n{self.told()}")
                return
            look_again()
        self.wait_confirms(time.monotonic())

    def wait_confirms(self, since: float) -> None:
        """Wait until each publisher has a confirm for something that it sent after that moment."""
        deadline = time.monotonic() + SEEN_S_MAX
        for line in self.lines.values():
            while not line.first_confirm(since):
                if time.monotonic() > deadline:
                    self.findings.add(STUCK, f"{line.name}: no confirm for {SEEN_S_MAX:.0f} s\n{self.told()}")
                    return
                look_again()

    def check(self) -> None:
        """What is confirmed by now must come; transactions are whole."""
        deadline = time.monotonic() + SEEN_S_MAX
        for line in self.lines.values():
            numbers = line.confirmed()
            while missing := line.missing(numbers):
                if time.monotonic() > deadline:
                    self.findings.add(LOST, f"{line.name}: {len(missing)}, the first {missing[:10]}")
                    break
                look_again()
        left, right = self.lines["left"], self.lines["right"]
        most = max(left.confirmed(), default=0)
        while halves := [number for number in range(most) if bool(left.seen[number]) != bool(right.seen[number])]:
            if time.monotonic() > deadline:
                self.findings.add(HALF, f"transactions {halves[:10]}")
                break
            look_again()
        for client in [*self.clients, *self.publishers]:
            if client.error is not None:
                raise AssertionError(f"{client.name} failed: {client.error!r}") from client.error
        for node in self.nodes.values():
            tracebacks = node.log_text().split("Traceback (most recent call last)")[1:]
            for text in tracebacks[node.tracebacks :]:
                self.findings.add(TRACEBACK, f"{node.name}: {text[:2000]}")
            node.tracebacks = len(tracebacks)

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
                node.send(signal.SIGCONT)
            node.abandon()
            if self.small and node.data.is_mount():
                run("umount", "--lazy", str(node.data))  # else the folder cannot be removed
        self.etcd.stop()
