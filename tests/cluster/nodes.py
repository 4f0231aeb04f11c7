"""Nodes of a cluster as users run them: processes, with a real etcd."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forebay.client.control import ControlClient
from forebay.core.errors import ForebayError
from tests.broker_process import BrokerProcess, free_port
from tests.etcd import Etcd
from tests.fork_server import FORKS
from tests.waiting import look_again, until

SECRET = "of nodes that know each other"
# A node that has no time for a second is not dead: on a slow machine with other work another would lead every now and
# then, and not the one that led when a test began. One that is killed refuses connections, and is dead at once.
STEADY_MS = 5_000


class ClusterNode(BrokerProcess):
    """One node."""

    def __init__(self, folder: Path, etcd: Etcd, name: str, cluster: dict[str, object], **options: object) -> None:
        self.name = name
        self.listen = f"127.0.0.1:{free_port()}"
        section = {
            "name": "tests",
            "node": name,
            "listen": self.listen,
            "etcd": {"endpoints": etcd.endpoints},
            "secret": SECRET,
            "replica_timeout_ms": STEADY_MS,
            **cluster,
        }
        super().__init__(folder, cluster=section, **options)

    def is_running(self) -> bool:
        """True unless it was ended."""
        return self._process is not None


def control(node: BrokerProcess, *words: str, code: int = 0) -> str:
    """The output of a command that is asked of a node, which must end with this code."""
    return ask([node.listeners["amqp"]], *words, code=code)


def ask(servers: list[str], *words: str, code: int = 0) -> str:
    """The same, asked of the first that answers."""
    done = FORKS.run([*words, "--server", ",".join(servers)], dict(os.environ))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


class Cluster:
    """An etcd, and the nodes a, b and c."""

    def __init__(self, folder: Path, etcd: Etcd, names: str = "abc", *, cluster: dict[str, object], **options: object):
        self.etcd = etcd
        self.nodes = {name: ClusterNode(folder / name, etcd, name, cluster, **options) for name in names}

    def record(self) -> dict[str, Any]:
        """The cluster's record in etcd; empty where there is none."""
        found = self.etcd.members[0].values("/forebay/tests/register/")
        return json.loads(found[0]) if found else {}

    def start(self) -> None:
        """Start all nodes, and wait until all are in sync."""
        for node in self.nodes.values():
            node.start()
        self.wait_in_sync(*self.nodes)

    def wait_in_sync(self, *names: str, meanwhile: Callable[[], object] = look_again) -> None:
        """Wait until these, and no others, are in sync."""
        until(lambda: sorted(self.record().get("in_sync", {})) == sorted(names), self.told, meanwhile=meanwhile)

    def told(self) -> str:
        """The record and the end of each log, for whoever reads that something did not come."""
        logs = [f"--- {name}\n{node.log_text()[-3000:]}" for name, node in self.nodes.items()]
        return "\n".join([str(self.record()), *logs])

    def leader(self) -> ClusterNode:
        """Who leads, as the record says."""
        return self.nodes[self.record()["leader"]]

    def status(self) -> dict[str, Any]:
        """The cluster's status, as the leader tells it, whoever that is by then."""

        def asked() -> dict[str, Any] | None:
            server = f"127.0.0.1:{self.leader().amqp_port}"
            try:
                with ControlClient.connect(server, "guest", "guest") as client:
                    return client.run("cluster.status")
            except ForebayError:
                return None

        found = until(asked, self.told)
        assert found is not None
        return found

    def followers(self) -> list[ClusterNode]:
        """All others."""
        leads = self.record()["leader"]
        return [node for name, node in self.nodes.items() if name != leads]

    def running(self) -> list[ClusterNode]:
        """Those that were not ended."""
        return [node for node in self.nodes.values() if node.is_running()]

    def wait_led_by_another(self, name: str) -> ClusterNode:
        """Wait until another node than this one leads; that one."""
        until(lambda: self.record()["leader"] != name, self.told)
        return self.leader()


@contextmanager
def cluster_of(folder: Path, etcd: Etcd, names: str = "abc", **options: object) -> Iterator[Cluster]:
    """A started cluster, whose nodes are stopped and looked over at the end."""
    section = options.pop("cluster", {})
    assert isinstance(section, dict)
    made = Cluster(folder, etcd, names, cluster=section, **options)
    try:
        made.start()
        yield made
        for node in made.nodes.values():
            node.finish()
    finally:
        for node in made.nodes.values():
            node.abandon()
