"""The brokers that bench/cluster.py measures: one node, three nodes and their etcd, RabbitMQ's three nodes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PEERS = HERE / "load" / "peers.sh"
QUORUM = ["--queue-arg", "x-queue-type=quorum"]
START_S = 60.0
READY = '"amqp": '
SECRET = "of nodes that are measured"
OTHER_LISTENERS = ("mqtt", "mqtt_websocket", "http", "prometheus")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def wait_for(what: str, found: Any, seconds: float = START_S) -> Any:
    """The first answer of a function that is not false; SystemExit where none comes in time."""
    until = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > until:
            raise SystemExit(f"bench/cluster.py: {what}: not within {seconds:.0f} s")
        time.sleep(0.005)
    return answer


class Target(ABC):
    """A broker of one or more nodes; each has a name.

    arguments  of the load generator, so that queues are on every node
    """

    name = ""
    arguments: list[str] = []

    @abstractmethod
    def pids(self) -> list[int]:
        """The processes of all its nodes."""

    @abstractmethod
    def ports(self, queue: str) -> list[int]:
        """Where its nodes take AMQP, that of the queue's leader first."""

    @abstractmethod
    def kill_leader(self, queue: str) -> None:
        """SIGKILL to the node that leads."""

    @abstractmethod
    def mend(self) -> None:
        """Have all nodes run, and be in sync."""

    @abstractmethod
    def stop(self) -> None:
        """End what was started."""


class ForebayNode:
    """One process of forebay on a folder of its own."""

    def __init__(self, folder: Path, options: dict[str, object]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.port = free_ports(1)[0]
        listeners = {**dict.fromkeys(OTHER_LISTENERS, ""), "amqp": f"127.0.0.1:{self.port}"}
        (folder / "options.yaml").write_text(json.dumps({**listeners, **options}), encoding="utf-8")  # JSON is YAML
        self.process: subprocess.Popen[bytes] | None = None
        self.said = 0

    def start(self) -> None:
        self.said = self.log().count(READY)
        command = [sys.executable, "-m", "forebay", "serve", "--config", str(self.folder / "options.yaml")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data", str(self.folder / "data")], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def end(self, number: int = signal.SIGKILL) -> None:
        """Have the process end."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(START_S)
        self.process = None

    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def is_ready(self) -> bool:
        """It has said so since it was started."""
        if self.process is not None and self.process.poll() is not None:
            raise SystemExit(f"bench/cluster.py: a node has ended:\n{self.log()[-3000:]}")
        return self.log().count(READY) > self.said


class Alone(Target):
    """One node that needs no other."""

    name = "one node"

    def __init__(self, folder: Path) -> None:
        self.node = ForebayNode(folder / "alone", {})
        self.node.start()
        wait_for("a single node", self.node.is_ready)

    def pids(self) -> list[int]:
        return [self.node.pid]

    def ports(self, queue: str) -> list[int]:
        return [self.node.port]

    def kill_leader(self, queue: str) -> None:
        self.node.end()

    def mend(self) -> None:
        if self.node.process is None:
            self.node.start()
        wait_for("a single node", self.node.is_ready)

    def stop(self) -> None:
        self.node.end(signal.SIGTERM)


class Etcd:
    """One etcd, and the time of each change of the record.

    changes  epoch and the moment at which it was seen, as `etcdctl watch` tells it
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise SystemExit("bench/cluster.py: there is no etcd: apt-get install etcd-server etcd-client")
        client, peer = free_ports(2)
        self.endpoint = f"127.0.0.1:{client}"
        url, peer_url = f"http://{self.endpoint}", f"http://127.0.0.1:{peer}"
        command = [program, "--name", "bench", "--data-dir", str(folder / "etcd"), "--log-level", "error"]
        command += ["--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url]
        command += ["--initial-cluster", f"bench={peer_url}"]
        with (folder / "etcd.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for("etcd", self.answers)
        watch = ["etcdctl", "--endpoints", url, "watch", "--prefix", "/forebay/bench/register/"]
        self.watch = subprocess.Popen(watch, stdout=subprocess.PIPE, text=True, env={**os.environ, "ETCDCTL_API": "3"})
        self.changes: list[tuple[int, float]] = []
        threading.Thread(target=self.follow, daemon=True).start()

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}/health", timeout=2) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    def follow(self) -> None:
        assert self.watch.stdout is not None
        for line in self.watch.stdout:
            if line.startswith("{"):
                self.changes.append((int(json.loads(line)["epoch"]), time.monotonic()))

    def record(self) -> dict[str, Any]:
        """The cluster's record; empty where there is none yet."""
        key, end = b"/forebay/bench/register/", b"/forebay/bench/register0"
        question = {"key": base64.b64encode(key).decode(), "range_end": base64.b64encode(end).decode()}
        request = urllib.request.Request(
            f"http://{self.endpoint}/v3/kv/range", json.dumps(question).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            found = json.load(answer).get("kvs", [])
        return json.loads(base64.b64decode(found[0]["value"])) if found else {}

    def stop(self) -> None:
        for each in (self.watch, self.process):
            each.kill()
            each.wait()


class Cluster(Target):
    """Three nodes of forebay, all in sync."""

    name = "three nodes"

    def __init__(self, folder: Path) -> None:
        self.etcd = Etcd(folder)
        self.nodes: dict[str, ForebayNode] = {}
        for name, port in zip("abc", free_ports(3), strict=True):
            section = {
                "name": "bench",
                "node": name,
                "listen": f"127.0.0.1:{port}",
                "etcd": {"endpoints": [self.etcd.endpoint]},
                "secret": SECRET,
            }
            self.nodes[name] = ForebayNode(folder / name, {"cluster": section})
        self.mend()

    def pids(self) -> list[int]:
        return [each.pid for each in self.nodes.values() if each.process is not None]

    def leader(self) -> str:
        return str(self.etcd.record()["leader"])

    def followers(self) -> list[str]:
        leader = self.leader()
        return [name for name in self.nodes if name != leader]

    def ports(self, queue: str) -> list[int]:
        return [self.nodes[name].port for name in [self.leader(), *self.followers()]]

    def kill_leader(self, queue: str) -> None:
        self.nodes[self.leader()].end()

    def is_in_sync(self) -> bool:
        for each in self.nodes.values():
            if not each.is_ready():
                return False
        return len(self.etcd.record().get("in_sync", {})) == len(self.nodes)

    def mend(self) -> None:
        for each in self.nodes.values():
            if each.process is None:
                each.start()
        wait_for("three nodes in sync", self.is_in_sync, 2 * START_S)

    def stop(self) -> None:
        for each in self.nodes.values():
            each.end()
        self.etcd.stop()


class Rabbit(Target):
    """RabbitMQ's three nodes, as bench/load/peers.sh has them; its queues are quorum queues."""

    name = "RabbitMQ, three nodes"
    arguments = QUORUM
    bases = (21030, 21040, 21050)

    def __init__(self) -> None:
        self.mend()

    def peers(self, *words: str) -> str:
        done = subprocess.run([str(PEERS), "rmqc", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"bench/cluster.py: peers.sh rmqc {' '.join(words)}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def pids(self) -> list[int]:
        return [int(each) for each in self.peers("pid").strip().split(",") if each]

    def asked(self, path: str) -> Any:
        """An answer of its management API, by the first node that gives one."""
        login = base64.b64encode(b"guest:guest").decode()
        for base in self.bases:
            request = urllib.request.Request(f"http://127.0.0.1:{base + 3}/api/{path}")
            request.add_header("Authorization", f"Basic {login}")
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    return json.load(answer)
            except OSError:
                continue
        return {}

    def place_of_leader(self, queue: str) -> int:
        """Which of its nodes leads the queue; the first where there is no such queue."""
        found = self.asked(f"queues/%2F/{queue}").get("leader", "rmqc1@localhost")
        return int(found.partition("@")[0].removeprefix("rmqc")) - 1

    def ports(self, queue: str) -> list[int]:
        first = self.place_of_leader(queue)
        return [self.bases[first], *(base for at, base in enumerate(self.bases) if at != first)]

    def kill_leader(self, queue: str) -> None:
        os.kill(self.pids()[self.place_of_leader(queue)], signal.SIGKILL)

    def mend(self) -> None:
        self.peers("start")
        wait_for("RabbitMQ's three nodes", self.are_running, 2 * START_S)

    def are_running(self) -> bool:
        nodes = self.asked("nodes")
        return isinstance(nodes, list) and sum(1 for each in nodes if each.get("running")) == len(self.bases)

    def stop(self) -> None:
        self.peers("stop")
