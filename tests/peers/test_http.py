"""The reading side of the HTTP API: the same fields for the same things."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.peer import Peer
from tests.waiting import until

QUEUE = "q/ü%"
EXCHANGE = "x"


@pytest.fixture
def channel(peer: Peer) -> BlockingChannel:
    """An exchange with two bindings, and three messages of which a consumer holds two."""
    channel = peer.channel(client_properties={"connection_name": "seen"})
    channel.exchange_declare(EXCHANGE, "topic", durable=True)
    channel.queue_declare(QUEUE, durable=True, arguments={"x-max-length": 100})
    channel.queue_bind(QUEUE, EXCHANGE, "a b/%#.*")
    channel.queue_bind(QUEUE, EXCHANGE, "k")
    for body in (b"1", b"2", b"3"):
        channel.basic_publish(EXCHANGE, "k", body)
    channel.basic_qos(prefetch_count=2)
    taken: list[int] = []
    channel.basic_consume(QUEUE, lambda _c, method, _p, _b: taken.append(method.delivery_tag), consumer_tag="taker")
    until(lambda: channel.connection.process_data_events(0) or len(taken) == 2)
    return channel


def path_of(peer: Peer, kind: str, *names: str) -> str:
    return "/".join([kind, quote(peer.vhost, safe=""), *(quote(name, safe="") for name in names)])


def get(peer: Peer, path: str) -> Any:
    status, said = peer.ask("GET", path)
    assert status == 200, said
    return said


def chosen(facts: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: facts[name] for name in names}


def test_a_queue(peer: Peer, channel: BlockingChannel) -> None:
    path = path_of(peer, "queues", QUEUE)
    # RabbitMQ's figures are those of some seconds ago.
    until(lambda: get(peer, path).get("messages_unacknowledged") == 2)
    queue = get(peer, path)
    names = (
        "name vhost durable auto_delete exclusive type state messages messages_ready messages_unacknowledged consumers"
    )
    assert chosen(queue, *names.split()) == {
        "name": QUEUE,
        "vhost": peer.vhost,
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "classic",
        "state": "running",
        "messages": 3,
        "messages_ready": 1,
        "messages_unacknowledged": 2,
        "consumers": 1,
    }
    assert queue["arguments"]["x-max-length"] == 100
    assert (queue["policy"], queue["operator_policy"], queue["effective_policy_definition"]) == (None, None, {})
    assert chosen(queue["message_stats"], "publish", "deliver", "deliver_get", "ack", "redeliver") == {
        "publish": 3,
        "deliver": 2,
        "deliver_get": 2,
        "ack": 0,
        "redeliver": 0,
    }
    assert isinstance(queue["message_stats"]["publish_details"]["rate"], float)
    (consumer,) = queue["consumer_details"]
    assert chosen(consumer, "consumer_tag", "ack_required", "exclusive", "prefetch_count", "active", "queue") == {
        "consumer_tag": "taker",
        "ack_required": True,
        "exclusive": False,
        "prefetch_count": 2,
        "active": True,
        "queue": {"name": QUEUE, "vhost": peer.vhost},
    }


def test_bindings_and_their_keys(peer: Peer, channel: BlockingChannel) -> None:
    def facts(source: str, routing_key: str, key: str) -> dict[str, Any]:
        return {
            "source": source,
            "vhost": peer.vhost,
            "destination": QUEUE,
            "destination_type": "queue",
            "routing_key": routing_key,
            "arguments": {},
            "properties_key": key,
        }

    implicit = facts("", QUEUE, "q%2F%C3%BC%25")
    made = [facts(EXCHANGE, "a b/%#.*", "a+b%2F%25%23.%2A"), facts(EXCHANGE, "k", "k")]
    assert get(peer, path_of(peer, "queues", QUEUE, "bindings")) == [implicit, *made]
    assert get(peer, path_of(peer, "bindings")) == [implicit, *made]
    assert get(peer, path_of(peer, "exchanges", EXCHANGE, "bindings", "source")) == made
    between = path_of(peer, "bindings", "e", EXCHANGE, "q", QUEUE)
    assert get(peer, between) == made
    for binding in made:
        assert get(peer, f"{between}/{binding['properties_key']}") == binding
        assert get(peer, f"{between}/{quote(binding['properties_key'], safe='')}") == binding


def test_connections_and_channels(peer: Peer, channel: BlockingChannel) -> None:
    def opened() -> list[dict[str, Any]]:
        return [each for each in get(peer, f"vhosts/{quote(peer.vhost, safe='')}/connections") if each.get("channels")]

    until(opened)
    (connection,) = opened()
    names = (
        "user vhost protocol state ssl channels user_provided_name channel_max frame_max host peer_host auth_mechanism"
    )
    assert chosen(connection, *names.split()) == {
        "user": "guest",
        "vhost": peer.vhost,
        "protocol": "AMQP 0-9-1",
        "state": "running",
        "ssl": False,
        "channels": 1,
        "user_provided_name": "seen",
        "channel_max": 2047,
        "frame_max": 131072,
        "host": "127.0.0.1",
        "peer_host": "127.0.0.1",
        "auth_mechanism": "PLAIN",
    }
    assert connection["name"] == f"127.0.0.1:{connection['peer_port']} -> 127.0.0.1:{peer.port}"
    path = f"connections/{quote(connection['name'], safe='')}"
    until(lambda: get(peer, path + "/channels")[0].get("messages_unacknowledged") == 2)
    (shown,) = get(peer, path + "/channels")
    names = "name number user vhost confirm transactional prefetch_count messages_unacknowledged consumer_count state"
    assert chosen(shown, *names.split()) == {
        "name": f"{connection['name']} (1)",
        "number": 1,
        "user": "guest",
        "vhost": peer.vhost,
        "confirm": True,
        "transactional": False,
        "prefetch_count": 2,
        "messages_unacknowledged": 2,
        "consumer_count": 1,
        "state": "running",
    }
    assert shown["message_stats"]["publish"] == 3
    assert shown["message_stats"]["confirm"] == 3


def test_exchanges(peer: Peer, channel: BlockingChannel) -> None:
    shown = get(peer, path_of(peer, "exchanges"))
    assert [(each["name"], each["type"]) for each in shown if not each["name"].startswith("amq.rabbitmq")] == [
        ("", "direct"),
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.topic", "topic"),
        (EXCHANGE, "topic"),
    ]
    names = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
    assert chosen(get(peer, path_of(peer, "exchanges", EXCHANGE)), *names) == {
        "name": EXCHANGE,
        "vhost": peer.vhost,
        "type": "topic",
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": {},
    }
    assert get(peer, path_of(peer, "exchanges", "amq.default"))["name"] == ""


def test_pages_and_columns(peer: Peer, channel: BlockingChannel) -> None:
    for number in range(5):
        channel.queue_declare(f"page-{number}", durable=True)
    base = path_of(peer, "queues")
    page = get(peer, f"{base}?page=2&page_size=2&name=PAGE-&columns=name")
    assert page == {
        "filtered_count": 5,
        "item_count": 2,
        "items": [{"name": "page-2"}, {"name": "page-3"}],
        "page": 2,
        "page_count": 3,
        "page_size": 2,
        "total_count": 6,
    }
    reverse = get(peer, f"{base}?page=1&name=^page&use_regex=true&sort=name&sort_reverse=true&columns=name")
    assert [each["name"] for each in reverse["items"]] == [f"page-{number}" for number in (4, 3, 2, 1, 0)]
    for query in ("page=0", "page=1&page_size=501", "page=9", "page=x"):
        assert peer.ask("GET", f"{base}?{query}")[0] == 400


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
def test_what_is_not_there(peer: Peer, kind: str) -> None:
    status, said = peer.ask("GET", path_of(peer, kind, "nowhere"))
    assert (status, said["error"]) == (404, "Object Not Found")


def test_health(peer: Peer) -> None:
    for check in (
        "alarms",
        "local-alarms",
        "virtual-hosts",
        "node-is-quorum-critical",
        "certificate-expiration/1/days",
    ):
        assert get(peer, f"health/checks/{check}")["status"] == "ok"
    assert get(peer, f"health/checks/port-listener/{peer.port}") == {"status": "ok", "port": peer.port}
    assert get(peer, "health/checks/protocol-listener/amqp") == {"status": "ok", "protocol": "amqp"}
    assert get(peer, f"aliveness-test/{quote(peer.vhost, safe='')}") == {"status": "ok"}
    status, said = peer.ask("GET", "health/checks/port-listener/1")
    assert (status, said["status"], said["missing"]) == (503, "failed", 1)
    status, said = peer.ask("GET", "health/checks/protocol-listener/nope")
    assert (status, said["status"], said["missing"]) == (503, "failed", "nope")
