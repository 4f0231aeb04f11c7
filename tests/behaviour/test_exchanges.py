"""Exchanges that lead to exchanges, alternates and hashing, over sockets and across a kill."""

from __future__ import annotations

import itertools
from collections import Counter

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.behaviour.test_topology import drain, publish_mqtt, told_one
from tests.broker_process import BrokerProcess


def killed(broker: BrokerProcess, *queues: str) -> BlockingChannel:
    """A channel to the broker as it is after a kill, without what was consumed shortly before and is there again."""
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    for name in queues:
        channel.queue_purge(name)
    return channel


def test_bindings_between_exchanges_are_there_after_a_kill(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.exchange_declare("entry", "topic", durable=True)
    channel.exchange_declare("audit", "fanout", durable=True, internal=True)
    channel.exchange_declare("brief", "fanout")
    channel.exchange_bind("audit", "entry", "orders.#")
    channel.exchange_bind("brief", "entry", "#")
    channel.queue_declare("all", durable=True)
    channel.queue_bind("all", "audit")
    channel.queue_bind("all", "entry", "orders.eu")
    channel.exchange_unbind("audit", "entry", "nothing")
    for _ in range(2):
        channel.basic_publish("entry", "orders.eu", b"one copy", mandatory=True)
        assert drain(channel, "all") == [b"one copy"]
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("entry", "invoices", b"", mandatory=True)
        channel = killed(broker, "all")
    channel.exchange_unbind("audit", "entry", "orders.#")
    channel = killed(broker)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("entry", "orders.us", b"", mandatory=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no exchange 'brief'"):
        channel.exchange_declare("brief", passive=True)


def test_an_auto_delete_exchange_that_went_stays_away_after_a_kill(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.exchange_declare("first", "fanout", durable=True, auto_delete=True)
    channel.exchange_declare("second", "fanout", durable=True, auto_delete=True)
    channel.exchange_bind("second", "first")
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "second")
    channel = killed(broker)
    channel.basic_publish("first", "", b"through both", mandatory=True)
    assert drain(channel, "q") == [b"through both"]
    channel.queue_delete("q")
    for _ in range(2):
        for name in ("first", "second"):
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=f"no exchange '{name}'"):
                channel.exchange_declare(name, passive=True)
            channel = open_channel(broker)
        channel = killed(broker)


def test_the_alternate_takes_what_has_no_route_before_and_after_a_kill(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.exchange_declare("main", "direct", durable=True, arguments={"alternate-exchange": "rest"})
    channel.exchange_declare("rest", "headers", durable=True, internal=True)
    channel.queue_declare("strays", durable=True)
    channel.queue_bind("strays", "rest", "", {"x-match": "all", "keep": True})
    keep = pika.BasicProperties(headers={"keep": True})
    for _ in range(2):
        channel.basic_publish("main", "anything", b"kept", keep, mandatory=True)
        assert drain(channel, "strays") == [b"kept"]
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("main", "anything", b"", mandatory=True)
        channel = killed(broker, "strays")


def test_keys_go_where_they_went_before_a_kill(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.exchange_declare("hash", "x-consistent-hash", durable=True)
    channel.exchange_declare("by-account", "x-consistent-hash", durable=True, arguments={"hash-header": "account"})
    queues = [f"q{number}" for number in range(4)]
    for name in queues:
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "hash", "1")
        channel.queue_bind(name, "by-account", "1")
    rounds = []
    for _ in range(2):
        for number in range(60):
            channel.basic_publish("hash", f"key-{number}", b"k%d" % number, mandatory=True)
            headers = pika.BasicProperties(headers={"account": number})
            channel.basic_publish("by-account", "any", b"a%d" % number, headers, mandatory=True)
        rounds.append({name: drain(channel, name) for name in queues})
        channel = killed(broker, *queues)
    assert rounds[0] == rounds[1]
    counts = Counter(body[:1] for bodies in rounds[0].values() for body in bodies)
    assert counts == {b"k": 60, b"a": 60}
    assert all(rounds[0].values())


def test_an_mqtt_subscriber_is_reached_through_exchanges_and_a_topic_leads_through_them(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.exchange_declare("entry", "fanout", durable=True)
    channel.exchange_bind("amq.topic", "entry")
    channel.exchange_declare("copies", "headers", durable=True)
    channel.exchange_bind("copies", "amq.topic", "sensors.#")
    channel.queue_declare("hot", durable=True)
    channel.queue_bind("hot", "copies", "", {"state": "hot"})

    with told_one(broker, "sensors/+") as got:
        hot = pika.BasicProperties(headers={"state": "hot"})
        channel.basic_publish("entry", "sensors.kitchen", b"19", hot, mandatory=True)
    assert got == [("sensors/kitchen", b"19")]
    publish_mqtt(broker, "sensors/cellar", b"no header")
    assert drain(channel, "hot") == [b"19"]


def test_durable_internal_and_auto_delete_in_all_combinations_over_a_kill(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    combinations = list(itertools.product((False, True), repeat=3))
    channel.exchange_declare("target", "fanout", durable=True)
    for number, (durable, internal, auto_delete) in enumerate(combinations):
        name = f"x{number}"
        channel.exchange_declare(name, "topic", durable=durable, internal=internal, auto_delete=auto_delete)
        channel.exchange_bind("target", name, "#")
    channel = killed(broker)
    for number, (durable, internal, auto_delete) in enumerate(combinations):
        name = f"x{number}"
        if durable:  # the same declaration is accepted, another one is not
            channel.exchange_declare(name, "topic", durable=True, internal=internal, auto_delete=auto_delete)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="inequivalent arg 'internal'"):
                channel.exchange_declare(name, "topic", durable=True, internal=not internal, auto_delete=auto_delete)
        else:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=f"no exchange '{name}'"):
                channel.exchange_declare(name, passive=True)
        channel = channel.connection.channel()
    channel.exchange_delete("target")
    for number, (durable, _, auto_delete) in enumerate(combinations):
        if durable and auto_delete:  # its last binding went
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=f"no exchange 'x{number}'"):
                channel.exchange_declare(f"x{number}", passive=True)
            channel = channel.connection.channel()
        elif durable:
            channel.exchange_declare(f"x{number}", passive=True)


def test_a_delayed_message_exchange_routes_by_its_inner_type_when_the_time_has_come(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    arguments = {"x-delayed-type": "topic"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    for name, key in (("eu", "eu.#"), ("us", "us.#")):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "later", key)
    channel.basic_publish("later", "eu.paris", b"delayed", pika.BasicProperties(headers={"x-delay": 1000}))
    channel.basic_publish("later", "us.boston", b"at once", mandatory=True)
    channel = killed(broker)
    bodies = [body for _, _, body in itertools.islice(channel.consume("eu", auto_ack=True, inactivity_timeout=30), 1)]
    assert bodies == [b"delayed"]
    channel.cancel()
    assert drain(channel, "us") == [b"at once"]
