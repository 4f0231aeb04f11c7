"""Users, virtual hosts and what a user may do."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import declare, drain, put, wait_until
from tests.peers.peer import Peer

Spoil = Callable[[BlockingChannel], object]
NEEDS = [
    ("configure", "queue 'q'", lambda made: declare(made, "q")),
    ("configure", "queue 'there'", lambda made: made.queue_delete("there")),
    ("configure", "exchange 'x'", lambda made: made.exchange_declare("x", "direct")),
    ("configure", "exchange 'x-there'", lambda made: made.exchange_delete("x-there")),
    ("write", "queue 'there'", lambda made: made.queue_bind("there", "amq.topic", "k")),
    ("read", "exchange 'amq.topic'", lambda made: made.queue_bind("there", "amq.topic", "k")),
    ("write", "exchange 'amq.topic'", lambda made: made.basic_publish("amq.topic", "k", b"x")),
    ("write", "exchange 'amq.default'", lambda made: made.basic_publish("", "there", b"x")),
    ("read", "queue 'there'", lambda made: made.basic_get("there")),
    ("read", "queue 'there'", lambda made: made.basic_consume("there", lambda *_: None)),
    ("read", "queue 'there'", lambda made: made.queue_purge("there")),
]
NAMES = "declare delete declare-exchange delete-exchange bind bind-read publish publish-default get consume purge"


def connect_with(
    peer: Peer, configure: str = ".*", write: str = ".*", read: str = ".*"
) -> tuple[str, pika.BlockingConnection]:
    """A user of its own with these permissions, connected."""
    user = peer.add_user("worker", "secret")
    peer.set_permissions(user, configure, write, read)
    return user, peer.connect(user, "secret")


def test_virtual_hosts_are_apart(peer: Peer) -> None:
    other = peer.add_vhost("other")
    here, there = peer.channel(), peer.channel(virtual_host=other)
    for channel, body in ((here, b"here"), (there, b"there")):
        declare(channel, "q")
        put(channel, "q", body)
    assert drain(here, "q") == [b"here"]
    assert drain(there, "q") == [b"there"]


def test_a_deleted_virtual_host_closes_its_connections(peer: Peer) -> None:
    other = peer.add_vhost("other")
    connection = peer.connect(virtual_host=other)
    peer.delete_vhost(other)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        wait_until(lambda: connection.process_data_events(0.1), "the end of the connection")
    assert caught.value.reply_code == 320
    # RabbitMQ says either: it stops the virtual host and deletes it, and closes connections for both reasons.
    assert caught.value.reply_text in {f"CONNECTION_FORCED - vhost '{other}' is {what}" for what in ("deleted", "down")}


def test_a_virtual_host_has_a_queue_type_of_its_own(peer: Peer) -> None:
    other = peer.add_vhost("other", default_queue_type="quorum")
    channel = peer.channel(virtual_host=other)
    channel.queue_declare("q", durable=True)
    declare(channel, "q", "quorum")
    assert channel.is_open
