"""Nodes that do not lead serve readers of blocks: what is committed, each record once, whatever dies meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from forebay.client.blocks import BlockClient, Fetched, ReadGrant
from forebay.client.granted import GrantedClient
from forebay.core.errors import ForebayError, OutcomeUnknown, RequestError
from forebay.log.block import Block
from forebay.spark.access import Access
from forebay.spark.arrow.batches import BlockView
from forebay.spark.reading.logs import RemoteLogs
from forebay.wire.blocks.frames import GRANTED_PREFACE, REQUEST, encode_json
from tests.blocks import blocks_of
from tests.certificates import Certificates
from tests.cluster.clients import Cut, Publisher
from tests.cluster.nodes import Cluster, ClusterNode, cluster_of, control
from tests.etcd import Etcd, etcd_in
from tests.waiting import until

STREAM = {"x-queue-type": "stream"}
LONG = 400_000  # octets of a message: two are more than one answer of a follower has
COUNT = 30
EVENTS = "$events"


class StreamPublisher(Publisher):
    """Publishes long messages to a stream, each with its number in front."""

    def declare(self) -> None:
        self.channel.queue_declare(self.queue, durable=True, arguments=STREAM)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.channel.basic_publish("", self.queue, numbered(self.confirmed))
            self.confirmed += 1

    def try_to_publish(self) -> None:
        """One, to a leader that dies before it is confirmed."""
        with suppress(*Cut):
            self.publish(1)


def numbered(number: int) -> bytes:
    return b"%08d" % number + b"-" * LONG


def fill(cluster: Cluster, queue: str, count: int = COUNT) -> None:
    """A stream with so many messages, which all nodes have."""
    publisher = StreamPublisher([cluster.leader()], queue)
    publisher.publish(count)
    publisher.close()


def servers_of(cluster: Cluster) -> str:
    return ",".join(f"127.0.0.1:{node.amqp_port}" for node in cluster.nodes.values())


class Reading:
    """A read, block by block, as a task of Spark makes it.

    numbers  of the messages that it had
    served   the nodes that have sent them, "" for the leader
    """

    def __init__(self, cluster: Cluster, queue: str, count: int = COUNT, from_followers: bool = True) -> None:
        self.logs = RemoteLogs(Access(servers_of(cluster), from_followers=from_followers))
        self.views: Iterator[BlockView] = self.logs.blocks(queue, 0, count, True)
        self.next = 0
        self.numbers: list[int] = []
        self.served: list[str] = []

    def step(self) -> str:
        """Take the next block; the node that it came from."""
        view = next(self.views)
        octets = view.buffer.view[view.at : view.at + view.octets]
        (block,) = blocks_of(bytes(octets))
        for offset in range(max(self.next, int(block.base)), int(block.end)):
            self.numbers.append(int(block.body(offset - int(block.base))[:8]))
        self.next = int(block.end)
        found = re.match(r"node (\w+) at ", view.buffer.source)
        self.served.append(found[1] if found else "")
        return self.served[-1]

    def finish(self) -> None:
        """Take the rest."""
        while True:
            try:
                self.step()
            except StopIteration:
                break
        self.logs.close()


def granted(cluster: Cluster, queue: str, first: int = 0, end: int = COUNT) -> ReadGrant:
    """The leader's answer to who asks where to read."""
    with BlockClient.connect(f"127.0.0.1:{cluster.leader().amqp_port}", "guest", "guest") as client:
        return client.grant(queue, first, end)


def fetched(server: str, token: str, queue: str, first: int, end: int) -> list[Fetched]:
    """All that a node sends to whoever shows this."""
    with GrantedClient.open(server, token, None) as client:
        return list(client.fetch(queue, first, end))


def rows(answers: list[Fetched]) -> list[int]:
    """The numbers of the messages in them."""
    blocks: list[Block] = [block for answer in answers for block in blocks_of(answer.blocks)]
    return [int(block.body(at)[:8]) for block in blocks for at in range(int(block.count))]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that all live on, with the stream `in`."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "etcd").mkdir()
    with etcd_in(folder / "etcd", 1) as etcd, cluster_of(folder, etcd) as made:
        fill(made, "in")
        yield made


def test_both_followers_serve_and_the_leader_does_not(shared: Cluster) -> None:
    followers = {node.name for node in shared.followers()}
    served: set[str] = set()

    def both() -> bool:
        reading = Reading(shared, "in")
        reading.finish()
        assert reading.numbers == list(range(COUNT))
        if "" not in reading.served:  # a follower that had no time for it for long
            served.update(reading.served)
        return served >= followers

    until(both)
    asked = Reading(shared, "in", from_followers=False)
    asked.finish()
    assert asked.numbers == list(range(COUNT)) and set(asked.served) == {""}

    def told() -> bool:
        read = {each["node"]: each["read_octets"] for each in status(shared.leader())["members"]}
        return read[shared.leader().name] == 0 and all(read[name] >= COUNT * LONG for name in followers)

    until(told)


def test_nobody_reads_without_a_grant_or_beyond_it(shared: Cluster) -> None:
    grant = granted(shared, "in", 10, 20)
    assert set(grant.nodes) == {node.name for node in shared.followers()}
    servers = [each["amqp"] for each in grant.nodes.values()]
    with pytest.raises(RequestError, match="no grant"):
        fetched(servers[0], "0" * 32, "in", 10, 20)
    with GrantedClient.open(servers[0], grant.token, None) as client:
        assert rows(list(client.fetch("in", 10, 20))) == list(range(10, 20))
        with pytest.raises(RequestError, match="offset 20 of queue 'in' was not granted"):
            list(client.fetch("in", 20, COUNT))
    # A token is for one connection.
    with pytest.raises(RequestError, match="no grant"):
        fetched(servers[0], grant.token, "in", 10, 20)
    with pytest.raises(RequestError, match="offset 9 of queue 'in' was not granted"):
        fetched(servers[1], grant.token, "in", 9, 20)
    other = granted(shared, "in", 10, 20)
    with pytest.raises(RequestError, match="of queue 'out' was not granted"):
        fetched(servers[0], other.token, "out", 10, 20)
    with pytest.raises(ForebayError):  # the leader serves who logs in
        fetched(f"127.0.0.1:{shared.leader().amqp_port}", other.token, "in", 10, 20)


def test_rude_readers_harm_nobody(shared: Cluster) -> None:
    show = encode_json(REQUEST, {"op": "read", "token": granted(shared, "in").token})
    ask = encode_json(REQUEST, {"op": "fetch", "queue": "in", "first": 0, "end": COUNT})
    beginnings = [
        b"",
        GRANTED_PREFACE[:6],
        GRANTED_PREFACE + show[:9],
        GRANTED_PREFACE + show + ask,  # before it was answered
        GRANTED_PREFACE + ask,
        GRANTED_PREFACE + b"\xff" * 100,
        GRANTED_PREFACE + encode_json(REQUEST, {"op": "auth", "user": "guest", "password": "guest"}),
        GRANTED_PREFACE + 3 * show,
    ]
    for node in shared.followers():
        opened = [node.dial("amqp") for _ in beginnings]
        for connection, octets in zip(opened, beginnings, strict=True):
            connection.sendall(octets)
        for connection in opened:
            connection.close()
    stuck = []
    for _ in range(4):  # they ask for all, and take nothing
        grant = granted(shared, "in")
        client = GrantedClient.open(next(iter(grant.nodes.values()))["amqp"], grant.token, None)
        client._connection.sendall(4 * ask)
        stuck.append(client)
    fill(shared, "meanwhile", 5)  # is confirmed by those that they hang on
    reading = Reading(shared, "in")
    reading.finish()
    assert reading.numbers == list(range(COUNT))
    for client in stuck:
        client.close()


def test_what_is_not_committed_is_not_read(tmp_path: Path, etcd: Etcd) -> None:
    with cluster_of(tmp_path, etcd, cluster={"min_in_sync": 3}) as cluster:
        fill(cluster, "in", 2)
        leader, (still, other) = cluster.leader(), cluster.followers()
        grant = until(lambda: found if (found := granted(cluster, "in", 0, 10)).nodes else None, cluster.told)
        assert grant is not None
        os.kill(still.pid, signal.SIGSTOP)
        publisher = StreamPublisher([leader], "in")
        publishing = Thread(target=publisher.try_to_publish, daemon=True)
        publishing.start()
        until(lambda: len({status(leader)[which] for which in ("frame", "committed")}) == 2, cluster.told)
        until(lambda: member(leader, other.name)["frames_behind"] == 0, cluster.told)
        with GrantedClient.open(grant.nodes[other.name]["amqp"], grant.token, None) as reader:
            answers = reader.fetch("in", 0, 10)
            answer = next(answers)
            assert (rows([answer]), answer.next) == ([0, 1], 2)
            with pytest.raises(RequestError, match="offset 2 of queue 'in' was not granted"):
                next(answers)
        assert granted(cluster, "in", 0, 10).end.end == 2
        # The next leader has the message, but not yet on all disks that count.
        leader.kill9()
        cluster.wait_led_by_another(leader.name)
        until(lambda: "leads after" in other.log_text(), cluster.told)
        client = BlockClient.connect(f"127.0.0.1:{other.amqp_port}", "guest", "guest", 1.0)
        with client, pytest.raises(OutcomeUnknown):
            client.describe("in")
        os.kill(still.pid, signal.SIGCONT)
        leader.start()
        until(lambda: granted(cluster, "in", 0, 10).end.end >= 3, cluster.told)
        for node in cluster.running():  # to hand over would take its time here
            node.kill9()


def status(node: ClusterNode) -> dict[str, Any]:
    """The cluster's status."""
    found: dict[str, Any] = json.loads(control(node, "cluster", "status", "--json"))
    return found


def member(node: ClusterNode, name: str) -> dict[str, Any]:
    """A member as the leader knows it."""
    found: dict[str, Any] = next(each for each in status(node)["members"] if each["node"] == name)
    return found


def test_a_read_goes_on_when_nodes_die_hang_or_have_damage(cluster: Cluster) -> None:
    fill(cluster, "in")
    damaged, ill = Reading(cluster, "in"), Reading(cluster, "in")
    first = damaged.step()
    spoil(cluster.nodes[first], numbered(COUNT - 1))
    damaged.finish()
    assert damaged.numbers == list(range(COUNT)) and set(damaged.served) != {first}
    # The follower that is read from hangs, the other one dies, and so does the leader: one that it leaves goes on.
    hung = ill.step()
    os.kill(cluster.nodes[hung].pid, signal.SIGSTOP)
    while ill.step() == hung:
        pass
    os.kill(cluster.nodes[hung].pid, signal.SIGCONT)
    cluster.wait_in_sync(*"abc")
    old = cluster.leader()
    old.kill9()
    cluster.wait_led_by_another(old.name)
    ill.finish()
    assert ill.numbers == list(range(COUNT))
    old.start()


def spoil(node: ClusterNode, body: bytes) -> None:
    """Have this message be another one on the node's disk."""
    for path in node.data.rglob("*"):
        at = path.read_bytes().find(body[:64]) if path.is_file() else -1
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at + 100)
                file.write(b"spoilt")
            return
    raise AssertionError(f"the message is nowhere in {node.data}")


def test_tls_proxies_and_clients_that_are_sent_elsewhere(tmp_path: Path, etcd: Etcd) -> None:
    made = Certificates(tmp_path / "certificates")
    options = made.options(amqps="127.0.0.1:0", proxy_protocol=True, events=["*"])
    with cluster_of(tmp_path, etcd, "abc", cluster={"clients": "redirect"}, **options) as cluster:
        context = made.client()

        def dial(server: str) -> socket.socket:
            host, port = server.split(":")
            plain = socket.create_connection((host, int(port)), 10)
            plain.sendall(b"PROXY TCP4 127.0.0.1 127.0.0.1 4321 5671\r\n")
            return context.wrap_socket(plain, server_hostname=host)

        leader = f"127.0.0.1:{cluster.leader().port('amqps')}"
        with BlockClient._begin("guest", "guest", None, 10.0, dial(leader), leader) as client:
            until(lambda: client.describe(EVENTS).end > 0)
            grant = client.grant(EVENTS, 0, 1)
        assert set(grant.nodes) == {node.name for node in cluster.followers()}
        for servers in grant.nodes.values():
            with GrantedClient._show(grant.token, dial(servers["amqps"]), servers["amqps"]) as reader:
                (answer,) = reader.fetch(EVENTS, 0, 1)
            assert answer.next == 1
