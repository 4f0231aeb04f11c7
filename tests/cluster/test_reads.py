"""Nodes that do not lead serve readers of blocks: what is committed, each record once, whatever dies meanwhile."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from forebay.client.blocks import BlockClient
from forebay.client.granted import GrantedClient
from forebay.core.errors import ForebayError, RequestError
from forebay.spark.access import Access
from forebay.wire.blocks.frames import GRANTED_PREFACE, REQUEST, encode_json
from tests.certificates import Certificates
from tests.cluster.nodes import Cluster, ClusterNode, cluster_of
from tests.cluster.readers import (
    COUNT,
    FollowersSeen,
    PatientClient,
    Reading,
    StreamPublisher,
    begun_at_follower,
    fetched,
    fill,
    granted,
    granted_by_both,
    member,
    numbered,
    rows,
    servers_of,
)
from tests.etcd import Etcd, etcd_in
from tests.waiting import WAIT_S_MAX, stand_still, until

STEADY = {"replica_timeout_ms": 10_000}  # whatever the machine does, the same node leads, and the others are in sync
UNANSWERED_S = 1.0
EVENTS = "$events"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that all live on, with the stream `in`."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "etcd").mkdir()
    with etcd_in(folder / "etcd", 1) as etcd, cluster_of(folder, etcd, cluster=STEADY) as made:
        fill(made, "in")
        yield made


def test_both_followers_serve_and_the_leader_does_not(shared: Cluster) -> None:
    seen = FollowersSeen(shared)
    served: set[str] = set()

    def read() -> None:
        reading = Reading(shared, "in")
        reading.finish()
        assert reading.numbers == list(range(COUNT))
        served.update(reading.served)

    until(lambda: seen.look(read), shared.told)
    assert served >= {node.name for node in shared.followers()} or seen.epoch != shared.record()["epoch"]
    asked = Reading(shared, "in", access=Access(servers_of(shared), from_followers=False))
    asked.finish()
    assert asked.numbers == list(range(COUNT)) and set(asked.served) == {""}


def test_nobody_reads_without_a_grant_or_beyond_it(shared: Cluster) -> None:
    grant = granted_by_both(shared, "in", 10, 20)
    assert set(grant.nodes) == {node.name for node in shared.followers()}
    servers = [each["amqp"] for each in grant.nodes.values()]
    with pytest.raises(RequestError, match="no grant"):
        fetched(servers[0], "0" * 32, "in", 10, 20)
    with PatientClient.open(servers[0], grant.token, None) as client:
        assert rows(list(client.fetch("in", 10, 20))) == list(range(10, 20))
        with pytest.raises(RequestError, match="offset 20 of queue 'in' was not granted"):
            list(client.fetch("in", 20, COUNT))
    # A token is for one connection.
    with pytest.raises(RequestError, match="no grant"):
        fetched(servers[0], grant.token, "in", 10, 20)
    with pytest.raises(RequestError, match="offset 9 of queue 'in' was not granted"):
        fetched(servers[1], grant.token, "in", 9, 20)
    other = granted_by_both(shared, "in", 10, 20)
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
        grant = granted_by_both(shared, "in")
        client = PatientClient.open(next(iter(grant.nodes.values()))["amqp"], grant.token, None)
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
        grant = granted_by_both(cluster, "in", 0, 10)
        stand_still(still.pid)
        publisher = StreamPublisher([leader], "in")
        publishing = Thread(target=publisher.try_to_publish, daemon=True)
        publishing.start()
        until(lambda: len({cluster.status()[which] for which in ("frame", "committed")}) == 2, cluster.told)
        until(lambda: member(cluster, other.name)["frames_behind"] == 0, cluster.told)
        with PatientClient.open(grant.nodes[other.name]["amqp"], grant.token, None) as reader:
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
        with BlockClient.connect(f"127.0.0.1:{other.amqp_port}", "guest", "guest", WAIT_S_MAX) as client:
            client._send(encode_json(REQUEST, {"op": "describe", "queue": "in"}))
            assert select.select([client._connection], [], [], UNANSWERED_S)[0] == []
        os.kill(still.pid, signal.SIGCONT)
        leader.start()
        until(lambda: granted(cluster, "in", 0, 10).end.end >= 3, cluster.told)
        for node in cluster.running():  # to hand over would take its time here
            node.kill9()


def test_a_read_goes_on_when_nodes_die_hang_or_have_damage(cluster: Cluster) -> None:
    fill(cluster, "in")
    damaged, ill = begun_at_follower(cluster, "in"), begun_at_follower(cluster, "in")
    first = damaged.served[-1]
    spoil(cluster.nodes[first], numbered(COUNT - 1))
    damaged.finish()
    assert damaged.numbers == list(range(COUNT)) and set(damaged.served) != {first}
    # The follower that is read from hangs, the other one dies, and so does the leader: one that it leaves goes on.
    hung = ill.served[-1]
    stand_still(cluster.nodes[hung].pid)
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
        with BlockClient._begin("guest", "guest", None, WAIT_S_MAX, dial(leader), leader) as client:
            until(lambda: client.describe(EVENTS).end > 0)
            until(lambda: len(client.grant(EVENTS, 0, 1).nodes) == len(cluster.followers()))
            grant = client.grant(EVENTS, 0, 1)
        assert set(grant.nodes) == {node.name for node in cluster.followers()}
        for servers in grant.nodes.values():
            with GrantedClient._show(grant.token, dial(servers["amqps"]), servers["amqps"]) as reader:
                (answer,) = reader.fetch(EVENTS, 0, 1)
            assert answer.next >= 1  # blocks are answered whole: what happened at the same time is in the same one
