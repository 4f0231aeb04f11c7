"""What nodes that do not lead send to whom: rights are the leader's to check, filters and TLS hold there as well."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from forebay.client.blocks import Fetched
from forebay.client.connecting import ClientTls
from forebay.client.granted import GrantedClient, server_of
from forebay.core.errors import ForebayError, PeerError, RequestError, Unreachable
from forebay.spark.access import Access
from forebay.spark.arrow.batches import Buffer
from forebay.wire.blocks.frames import GRANTED_PREFACE, PREFACE, REQUEST, encode_json
from tests.certificates import Certificates
from tests.cluster.clients import channel_to
from tests.cluster.nodes import Cluster, ClusterNode, cluster_of
from tests.cluster.readers import (
    COUNT,
    STREAM,
    FollowersSeen,
    PatientClient,
    Reading,
    asking,
    fetched,
    fill,
    granted_by_both,
    rows,
    servers_of,
)
from tests.etcd import etcd_in
from tests.waiting import WAIT_S_MAX, until

READER, PASSWORD = "reader", "of the one stream"
MANY = 3_000  # small messages: a follower looks at no more than some 2,000 for one answer
TENANT = "tenant"
NEVER = "priority > 9"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, made: Certificates) -> Iterator[Cluster]:
    """Three nodes that refuse clients where they do not lead, with streams, a user of one of them, and TLS.

    in      long messages, which the user may read; `secret` has others
    small   MANY of them, with priorities from 0 to 9; every tenth with a header
    """
    options: dict[str, Any] = made.options(
        amqps="127.0.0.1:0",
        tls_client_ca=str(made.ca),
        tls_client_auth="required",
        users={"guest": "guest", READER: PASSWORD},
        permissions=[{"user": READER, "read": "in", "write": "", "configure": ""}],
        vhosts=[{"name": TENANT}],
    )
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "etcd").mkdir()
    section: dict[str, object] = {"clients": "reject", "replica_timeout_ms": 10_000}
    with etcd_in(folder / "etcd", 1) as etcd, cluster_of(folder, etcd, cluster=section, **options) as cluster:
        fill(cluster, "in")
        fill(cluster, "secret", 2)
        publish_small(cluster.leader())
        yield cluster


def publish_small(node: ClusterNode) -> None:
    channel = channel_to([node])
    channel.queue_declare("small", durable=True, arguments=STREAM)
    plain = channel.connection.channel()
    for number in range(MANY - 1):
        plain.basic_publish("", "small", b"%08d" % number, pika.BasicProperties(priority=number % 10))
    plain.queue_declare("small", passive=True)
    channel.basic_publish("", "small", b"%08d" % (MANY - 1), pika.BasicProperties(priority=(MANY - 1) % 10))
    channel.connection.close()


# ---- clients that nodes refuse


def test_readers_are_served_by_nodes_that_refuse_all_other_clients(guarded: Cluster) -> None:
    for node in guarded.followers():
        with pytest.raises(ForebayError, match=f"node '?{node.name}'? does not lead"):
            asking(node).close()

    def read() -> None:
        reading = Reading(guarded, "in")
        reading.finish()
        assert reading.numbers == list(range(COUNT))

    seen = FollowersSeen(guarded)
    until(lambda: seen.look(read), guarded.told)


# ---- rights


def test_the_leader_grants_only_what_the_reader_may_read(guarded: Cluster) -> None:
    login = {"user": READER, "password": PASSWORD}
    requests: list[tuple[dict[str, object], str]] = [
        ({"op": "fetch", "queue": "secret", "first": 0, "end": 2}, "of queue 'secret' was not granted"),
        ({"op": "describe", "queue": "secret"}, "only fetch is served here"),
        ({"op": "grant", "queue": "secret", "first": 0, "end": 2}, "only fetch is served here"),
        ({"op": "auth", "user": "guest", "password": "guest"}, "only fetch is served here"),
    ]
    for request, words in requests:
        grant = granted_by_both(guarded, "in", 0, 5, **login)
        server = grant.nodes[guarded.followers()[0].name]["amqp"]
        with PatientClient.open(server, grant.token, None) as reader:
            assert rows(list(reader.fetch("in", 0, 5)))[:5] == list(range(5))
            with pytest.raises(RequestError, match=words):
                reader._ask(request)
    with asking(guarded.leader(), **login) as client, pytest.raises(RequestError, match="secret") as refused:
        client.grant("secret", 0, 2)
    assert refused.value.reason == "refused"
    with asking(guarded.leader(), **login) as client, pytest.raises(RequestError):
        client.grant("nowhere", 0, 2)
    with pytest.raises(ForebayError):
        asking(guarded.leader(), READER, "another password").close()


def test_a_queue_of_the_same_name_in_another_vhost_is_another(guarded: Cluster) -> None:
    leader = guarded.leader()
    parameters = pika.ConnectionParameters("127.0.0.1", leader.amqp_port, TENANT)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("in", durable=True, arguments=STREAM)
        for number in (70, 71):
            channel.basic_publish("", "in", b"%08d" % number)
    grant = granted_by_both(guarded, "in", 0, 10, vhost=TENANT)
    assert grant.end.end == 2
    for servers in grant.nodes.values():
        mine = granted_by_both(guarded, "in", 0, 10, vhost=TENANT)
        assert rows(fetched(servers["amqp"], mine.token, "in", 0, 2)) == [70, 71]


def test_a_queue_of_another_connection_is_refused_to_all_others(guarded: Cluster) -> None:
    channel = channel_to([guarded.leader()])
    channel.queue_declare("own", durable=True, exclusive=True)
    with asking(guarded.leader()) as client, pytest.raises(RequestError, match="own"):
        client.grant("own", 0, 1)
    channel.connection.close()


def test_tokens_that_the_leader_did_not_give_are_refused(guarded: Cluster) -> None:
    grant = granted_by_both(guarded, "in", 0, 5)
    server = grant.nodes[guarded.followers()[0].name]["amqp"]
    changed = grant.token[:-1] + ("0" if grant.token[-1] != "0" else "1")
    for forged in ("", "0", changed, grant.token.upper(), grant.token + " ", grant.token[:-1], "x" * 1000, "\0"):
        if forged == grant.token:
            continue  # digits alone are the same in capitals
        with pytest.raises(ForebayError):
            PatientClient.open(server, forged, None)
    for odd in (7, None, [grant.token], {"token": grant.token}):
        with pytest.raises(ForebayError):
            show(server, odd)
    # All that has not used it up.
    assert rows(fetched(server, grant.token, "in", 0, 5))[:5] == list(range(5))


def show(server: str, token: object) -> None:
    """Show something that is no token."""
    host, _, port = server.rpartition(":")
    connection = socket.create_connection((host, int(port)), WAIT_S_MAX)
    with PatientClient(connection, server) as client:
        client._begin_speaking(GRANTED_PREFACE, client.timeout_s)
        client._ask({"op": "read", "token": token})


def test_a_grant_says_nothing_at_the_node_that_leads_nor_to_one_that_was_not_told(guarded: Cluster) -> None:
    grant = granted_by_both(guarded, "in", 0, 5)
    leader = guarded.leader()
    with pytest.raises(ForebayError):
        PatientClient.open(f"127.0.0.1:{leader.amqp_port}", grant.token, None)
    connection = leader.dial("amqp")
    connection.sendall(PREFACE + encode_json(REQUEST, {"op": "read", "token": grant.token}))
    with PatientClient(connection, "") as client:
        client._read(len(PREFACE))
        with pytest.raises(ForebayError, match=r"log in first|op 'read'"):
            client._reply()


# ---- filters and columns


def numbers(answers: list[Fetched]) -> list[int]:
    """The offsets of the records in answers to a fetch with a filter."""
    views = [view for each in answers for view in Buffer(each.blocks, "").blocks(True)]
    return [int(offset) for view in views if view.picked is not None for offset in view.picked]


@pytest.mark.parametrize("filter", ["priority >= 5", "priority = 3", NEVER, "routing_key = 'small'"])
def test_a_filter_holds_at_a_follower_as_at_the_leader(guarded: Cluster, filter: str) -> None:
    with asking(guarded.leader()) as client:
        expected = list(client.fetch("small", 0, MANY, filter=filter))
    assert (expected[-1].next, len(expected) > 1) == (MANY, True), "more than is looked at for one answer"
    for name in [node.name for node in guarded.followers()]:
        grant = granted_by_both(guarded, "small", 0, MANY)
        with PatientClient.open(grant.nodes[name]["amqp"], grant.token, None) as reader:
            found = list(reader.fetch("small", 0, MANY, filter=filter))
        assert numbers(found) == numbers(expected)
        assert all(each.offsets_follow for each in found) and found[-1].next == MANY


@pytest.mark.parametrize("filter", ["priority >= 5", NEVER])
def test_a_task_with_a_filter_reads_from_followers_and_nothing_twice(guarded: Cluster, filter: str) -> None:
    reading = Reading(guarded, "small", MANY, filter=filter)
    found = [int(each) for view in reading.views if view.picked is not None for each in view.picked]
    reading.close()
    assert found == [number for number in range(MANY) if number % 10 >= 5 and filter != NEVER]


def test_what_is_no_filter_is_refused_by_both(guarded: Cluster) -> None:
    grant = granted_by_both(guarded, "small", 0, MANY)
    with PatientClient.open(next(iter(grant.nodes.values()))["amqp"], grant.token, None) as reader:
        with pytest.raises(RequestError) as refused:
            list(reader.fetch("small", 0, MANY, filter="priority >"))
        assert refused.value.reason == "invalid"
    reading = Reading(guarded, "small", MANY, filter="priority >")
    with pytest.raises(RequestError) as refused:
        reading.finish()
    assert refused.value.reason == "invalid"
    reading.close()


def test_columns_come_from_a_follower_as_from_the_leader(guarded: Cluster) -> None:
    columns = ["timestamp", "routing_key"]
    with asking(guarded.leader()) as client:
        expected = b"".join(each.blocks for each in client.fetch("small", 0, MANY, columns=columns))
    grant = granted_by_both(guarded, "small", 0, MANY)
    for servers in grant.nodes.values():
        token = granted_by_both(guarded, "small", 0, MANY).token
        with PatientClient.open(servers["amqp"], token, None) as reader:
            assert b"".join(each.blocks for each in reader.fetch("small", 0, MANY, columns=columns)) == expected


# ---- TLS


def test_a_reader_that_shows_its_certificate_reads_over_tls(guarded: Cluster, made: Certificates) -> None:
    certificate, key = made.issue(READER)
    servers = servers_of(guarded, "amqps")
    access = Access(servers, tls=True, tls_ca=str(made.ca), tls_certificate=str(certificate), tls_key=str(key))

    def read() -> None:
        reading = Reading(guarded, "in", access=access)
        reading.finish()
        assert reading.numbers == list(range(COUNT))

    seen = FollowersSeen(guarded)
    until(lambda: seen.look(read), guarded.told)


def test_a_token_is_no_certificate(guarded: Cluster, made: Certificates, tmp_path: Path) -> None:
    grant = granted_by_both(guarded, "in", 0, 5)
    server = server_of(grant.nodes[guarded.followers()[0].name], is_tls=True)
    assert server.endswith(f":{guarded.followers()[0].port('amqps')}")
    other = Certificates(tmp_path / "of another authority")
    foreign, foreign_key = other.issue("nobody")
    for tls in (
        ClientTls(str(made.ca)),
        ClientTls(str(made.ca), str(foreign), str(foreign_key)),
        ClientTls(str(other.ca), *map(str, made.issue("distrustful"))),
    ):
        with pytest.raises((Unreachable, ssl.SSLError, PeerError)):
            GrantedClient.open(server, grant.token, tls)
    with pytest.raises(ForebayError):  # without TLS
        GrantedClient.open(server, grant.token, None)
    certificate, key = made.issue("late")
    shown = ClientTls(str(made.ca), str(certificate), str(key))
    with PatientClient.open(server, grant.token, shown) as reader:
        assert rows(list(reader.fetch("in", 0, 5)))[:5] == list(range(5))


def test_readers_go_to_no_listener_of_the_other_kind() -> None:
    assert server_of({"amqp": "a:1", "mqtts": "a:2"}, is_tls=True) == "a:2"
    assert server_of({"amqp": "a:1", "mqtt": "a:3"}, is_tls=True) == ""
    assert server_of({"amqps": "a:1", "mqtt": "a:3"}, is_tls=False) == "a:3"
