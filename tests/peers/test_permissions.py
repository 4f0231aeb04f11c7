"""Users, virtual hosts and what a user may do."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Refusal, declare, drain, put, refusal
from tests.peers.peer import Peer
from tests.waiting import until

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


@pytest.mark.parametrize(("kind", "resource", "spoil"), NEEDS, ids=NAMES.split())
def test_what_needs_which_permission(peer: Peer, kind: str, resource: str, spoil: Spoil) -> None:
    channel = peer.channel()
    declare(channel, "there")
    channel.exchange_declare("x-there", "direct")
    user, connection = connect_with(peer, **{kind: "^$"})
    expected = f"ACCESS_REFUSED - {kind} access to {resource} in vhost '{peer.vhost}' refused for user '{user}'"
    assert refusal(connection, spoil) == Refusal("channel", 403, expected)


def test_a_pattern_names_what_is_allowed(peer: Peer) -> None:
    _, connection = connect_with(peer, "^mine-", "^(mine-|amq.default)", "^mine-")
    channel = connection.channel()
    declare(channel, "mine-1")
    put(channel, "mine-1", b"x")
    assert drain(channel, "mine-1") == [b"x"]
    assert refusal(connection, lambda made: declare(made, "yours-1")).code == 403


def test_dead_letters_need_permissions_too(peer: Peer) -> None:
    user, connection = connect_with(peer, read="^$")
    found = refusal(connection, lambda made: declare(made, "q", x_dead_letter_exchange="amq.fanout"))
    assert found == Refusal(
        "channel", 403, f"ACCESS_REFUSED - read access to queue 'q' in vhost '{peer.vhost}' refused for user '{user}'"
    )


def test_permissions_on_topics(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    channel.queue_bind("q", "amq.topic", "#")
    user, connection = connect_with(peer)
    peer.set_topic_permissions(user, "amq.topic", f"^{user}\\.", "^public\\.")
    worker = connection.channel()
    worker.confirm_delivery()
    worker.basic_publish("amq.topic", f"{user}.1", b"1")
    assert refusal(connection, lambda made: made.basic_publish("amq.topic", "other.1", b"2")) == Refusal(
        "channel",
        403,
        f"ACCESS_REFUSED - write access to topic 'other.1' in exchange 'amq.topic' in vhost '{peer.vhost}' refused for "
        f"user '{user}'",
    )
    assert refusal(connection, lambda made: made.queue_bind("q", "amq.topic", "secret.#")) == Refusal(
        "channel",
        403,
        f"ACCESS_REFUSED - read access to topic 'secret.#' in exchange 'amq.topic' in vhost '{peer.vhost}' refused for "
        f"user '{user}'",
    )
    assert drain(channel, "q") == [b"1"]


def test_topics_with_the_name_of_the_user(peer: Peer) -> None:
    user, connection = connect_with(peer)
    peer.set_topic_permissions(user, "amq.topic", "^{username}\\.{vhost}$", ".*")
    worker = connection.channel()
    worker.confirm_delivery()
    worker.basic_publish("amq.topic", f"{user}.{peer.vhost}", b"1")
    assert refusal(connection, lambda made: made.basic_publish("amq.topic", user, b"2")).code == 403


def test_a_user_without_permissions_in_a_virtual_host(peer: Peer) -> None:
    user = peer.add_user("stranger", "secret")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        peer.connect(user, "secret")
    assert f"NOT_ALLOWED - access to vhost '{peer.vhost}' refused for user '{user}'" in str(caught.value)


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
        until(lambda: connection.process_data_events(0.1), "the end of the connection")
    assert caught.value.reply_code == 320
    # RabbitMQ says either: it stops the virtual host and deletes it, and closes connections for both reasons.
    assert caught.value.reply_text in {f"CONNECTION_FORCED - vhost '{other}' is {what}" for what in ("deleted", "down")}


def test_a_virtual_host_has_a_queue_type_of_its_own(peer: Peer) -> None:
    other = peer.add_vhost("other", default_queue_type="quorum")
    channel = peer.channel(virtual_host=other)
    channel.queue_declare("q", durable=True)
    declare(channel, "q", "quorum")
    assert channel.is_open
