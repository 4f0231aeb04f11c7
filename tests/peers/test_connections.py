"""What a connection is offered, and how it begins and ends."""

from __future__ import annotations

import socket

import pika
import pika.exceptions
import pytest

from tests.peers.observe import Consumer, Refusal, declare, put, refusal
from tests.peers.peer import Peer
from tests.waiting import until

CAPABILITIES = {
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
}


def test_what_the_broker_tells_about_itself(peer: Peer) -> None:
    properties = peer.connect()._impl.server_properties
    assert {name for name, able in properties["capabilities"].items() if able} >= CAPABILITIES
    assert {"product", "version", "platform", "copyright", "information", "cluster_name"} <= set(properties)


def test_what_is_tuned(peer: Peer) -> None:
    impl = peer.connect(channel_max=65_535, frame_max=131_072)._impl
    assert (impl.params.channel_max, impl.params.frame_max) == (2047, 131_072)


def test_how_one_may_log_in(peer: Peer) -> None:
    with socket.create_connection(("127.0.0.1", peer.port)) as raw:
        raw.sendall(b"AMQP\x00\x00\x09\x01")
        start = raw.recv(65_536)
    assert b"PLAIN" in start
    assert b"AMQPLAIN" in start
    assert b"en_US" in start


def test_a_protocol_that_is_not_known_is_answered_with_one_that_is(peer: Peer) -> None:
    with socket.create_connection(("127.0.0.1", peer.port)) as raw:
        raw.sendall(b"AMQP\x09\x09\x09\x09")
        header = raw.recv(65_536)
        assert (header[:4], len(header)) == (b"AMQP", 8)


def test_a_wrong_password(peer: Peer) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as caught:
        peer.connect(password="wrong")
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN." in str(caught.value)


def test_a_missing_virtual_host(peer: Peer) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        peer.connect(virtual_host="missing")
    assert "(530) 'NOT_ALLOWED - vhost missing not found'" in str(caught.value)


def test_more_channels_than_were_agreed_upon(peer: Peer) -> None:
    connection = peer.connect(channel_max=5)
    for _ in range(5):
        connection.channel()
    with pytest.raises(pika.exceptions.NoFreeChannels):
        connection.channel()


def test_a_channel_is_numbered_again_after_it_was_closed(peer: Peer) -> None:
    connection = peer.connect()
    for _ in range(3):
        found = refusal(connection, lambda channel: channel.queue_declare("missing", passive=True))
        assert found == Refusal("channel", 404, f"NOT_FOUND - no queue 'missing' in vhost '{peer.vhost}'")


def test_a_secret_may_be_given_anew(peer: Peer) -> None:
    connection = peer.connect()
    connection.update_secret("no password of mine", "time")
    channel = connection.channel()
    declare(channel)
    put(channel, "q", b"x")


def test_a_heartbeat_keeps_a_quiet_connection(peer: Peer) -> None:
    connection = peer.connect(heartbeat=1)
    channel = connection.channel()
    declare(channel)
    sink = Consumer(channel, "q", no_ack=True)
    connection.process_data_events(3)
    put(channel, "q", b"x")
    until(lambda: connection.process_data_events(0.05) or sink.got, "a message after quiet")
