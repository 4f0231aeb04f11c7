"""What a node alone does beside its sessions, a node of a cluster does, too, once it leads."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.behaviour.kinds import open_channel
from tests.cluster.nodes import Cluster
from tests.cluster.test_metrics import scraped
from tests.etcd import Etcd
from tests.waiting import until

WRONG_SERVICE = """
import sys
import forebay.server.serve as serving
from forebay.server.runtime import Service

class WrongService(Service):
    def __init__(self, app):
        self.app = app

    async def start(self):
        self.app.loop.call_soon(wrong)
        return {}

    async def stop(self):
        pass

def wrong():
    raise KeyError("of a callback")

serve = serving.serve
serving.serve = lambda source, loaded, makers=(), tell=None: serve(source, loaded, [*makers, WrongService], tell)
sys.argv = ["forebay", *sys.argv[4:]]
from forebay.cli.main import main
main()
"""

WRONG_MEMBER = """
import asyncio, sys
from forebay.server.cluster.peers import ClusterPeers

opens = ClusterPeers.opened

def wrong():
    raise KeyError("of a callback")

def open_and_be_wrong(member):
    opens(member)
    member.process.loop.call_soon(wrong)

ClusterPeers.opened = open_and_be_wrong
sys.argv = ["forebay", *sys.argv[4:]]
from forebay.cli.main import main
main()
"""


@pytest.fixture
def alone(tmp_path: Path, etcd: Etcd) -> Iterator[Cluster]:
    """A cluster of one node, which is not started."""
    cluster = Cluster(tmp_path, etcd, "a", cluster={"min_in_sync": 1})
    yield cluster
    for node in cluster.nodes.values():
        node.abandon()


class Receiver:
    """A receiver of webhooks.

    bodies  of the requests so far
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def test_webhooks_of_a_leader_are_those_of_its_newest_configuration(alone: Cluster) -> None:
    alone.start()
    node = alone.leader()
    channel = open_channel(node)  # it serves, and not only leads
    receiver = Receiver()
    try:
        node.options = {**node.options, "webhooks": [{"url": receiver.url, "events": ["queue.created"]}]}
        node.write_options()
        os.kill(node.pid, signal.SIGHUP)
        until(lambda: "configuration read again; changed: webhooks" in node.log_text(), node.log_text, seconds=8)
        channel.queue_declare("q", durable=True)
        until(lambda: any(b"queue.created" in body for body in receiver.bodies), node.log_text, seconds=8)
    finally:
        receiver.close()
    node.finish()


def test_an_error_in_a_callback_of_a_leader_is_counted_as_one_of_its_own(alone: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WRONG_SERVICE)
    node = alone.nodes["a"]
    node.wrapper = [sys.executable, str(program)]
    alone.start()
    until(lambda: "an error of the broker's own ended a callback" in node.log_text(), node.log_text)
    assert "KeyError: 'of a callback'" in node.log_text()
    assert node.is_running()


def test_a_follower_tells_of_internal_errors_as_a_leader_does(tmp_path: Path, etcd: Etcd) -> None:
    program = tmp_path / "program.py"
    program.write_text(WRONG_MEMBER)
    cluster = Cluster(tmp_path, etcd, "ab", cluster={"members": 2}, prometheus="127.0.0.1:0")
    leader, follower = cluster.nodes["a"], cluster.nodes["b"]
    follower.wrapper = [sys.executable, str(program)]
    try:
        leader.start()
        until(lambda: cluster.record().get("leader") == "a", leader.log_text)
        follower.start()
        until(lambda: scraped(follower)["forebay_internal_errors_total", "callback"] == 1, follower.log_text)
        assert scraped(leader)["forebay_internal_errors_total", "callback"] == 0
        until(lambda: internal_errors(cluster) == {"a": 0, "b": 1}, cluster.told)
    finally:
        for node in cluster.nodes.values():
            node.abandon()


def internal_errors(cluster: Cluster) -> dict[str, int | None]:
    """Return the internal errors of each node, as the leader shows them."""
    return {each["node"]: each["internal_errors"] for each in cluster.status()["members"]}
