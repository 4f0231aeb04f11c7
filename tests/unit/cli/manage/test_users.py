"""Users and permissions on the command line."""

from __future__ import annotations

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay


@pytest.fixture
def forebay(broker: BrokerProcess) -> Forebay:
    return Forebay(broker)


def connect(broker: BrokerProcess, user: str, password: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "/", credentials))


def test_a_user_comes_may_do_something_and_goes(broker: BrokerProcess, forebay: Forebay) -> None:
    assert forebay("user", "add", "ann", "--tags", "monitoring", stdin="secret\n") == "user ann created\n"
    assert "is there already" in forebay.fails(1, "user", "add", "ann", stdin="x\n")
    assert '["' not in forebay("user", "list")
    assert {each["name"]: each["tags"] for each in forebay.json("user", "list")} == {
        "guest": ["administrator"],
        "ann": ["monitoring"],
    }
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker, "ann", "secret")
    forebay("permission", "set", "ann", "^ann", "^ann|amq.default", "^ann")
    assert forebay.json("permission", "list", "--of", "ann") == [
        {"user": "ann", "vhost": "/", "configure": "^ann", "write": "^ann|amq.default", "read": "^ann"}
    ]
    with connect(broker, "ann", "secret") as connection:
        channel = connection.channel()
        channel.queue_declare("ann.q")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.queue_declare("bob.q")
    forebay("user", "password", "ann", stdin="changed\n")
    forebay("user", "tags", "ann", "policymaker,management")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker, "ann", "secret")
    connect(broker, "ann", "changed").close()
    assert "ann" in forebay("permission", "list")
    forebay("permission", "clear", "ann")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker, "ann", "changed")
    forebay("user", "delete", "ann", "--yes")
    assert "does not exist" in forebay.fails(1, "user", "delete", "ann", "--yes")
    assert "is of the configuration" in forebay.fails(1, "user", "delete", "guest", "--yes")


def test_topic_permissions_are_set_and_cleared(forebay: Forebay) -> None:
    forebay("user", "add", "ann", "--no-password")
    forebay("permission", "set", "ann", ".*", ".*", ".*")
    forebay("topic-permission", "set", "ann", "amq.topic", "^a", "^b")
    assert forebay.json("topic-permission", "list", "--vhost", "/") == [
        {"user": "ann", "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": "^b"}
    ]
    assert "amq.topic" in forebay("topic-permission", "list")
    assert "no regular expression" in forebay.fails(1, "topic-permission", "set", "ann", "amq.topic", "(", "")
    forebay("topic-permission", "clear", "ann", "amq.topic")
    assert forebay.json("topic-permission", "list") == []


def test_only_administrators_are_answered(broker: BrokerProcess, forebay: Forebay) -> None:
    forebay("user", "add", "ann", stdin="secret\n")
    forebay("permission", "set", "ann", ".*", ".*", ".*")
    as_ann = ("--user", "ann", "--password", "secret")
    said = forebay.fails(1, "queue", "list", *as_ann)
    assert said.splitlines()[0] == "user 'ann' lacks the tag administrator"
    assert "lacks the tag" in forebay.fails(1, "user", "tags", "ann", "administrator", *as_ann)
    forebay("user", "tags", "ann", "administrator")
    forebay("permission", "clear", "ann")
    # Who administers need not be allowed to use any queue.
    forebay("queue", "declare", "q", *as_ann)
    broker.kill9()
    broker.start()
    forebay.environment["FOREBAY_SERVER"] = f"127.0.0.1:{broker.amqp_port}"
    assert forebay.json("queue", "show", "q", *as_ann)["queue"] == "q"
    forebay("user", "tags", "ann", "")
    assert "lacks the tag" in forebay.fails(1, "queue", "list", *as_ann)


def test_a_full_vhost_keeps_no_administrator_out(forebay: Forebay) -> None:
    forebay("vhost", "set", "/", "--connections-max", "0")
    forebay("vhost", "set", "/", "--connections-max", "-1")


def test_a_hash_will_do_for_a_password(broker: BrokerProcess, forebay: Forebay) -> None:
    assert "hash" in forebay.fails(1, "user", "add", "bob", "--hash", "$argon2id$nonsense")
    assert "set FOREBAY_NEW_PASSWORD" in forebay.fails(2, "user", "add", "bob")
