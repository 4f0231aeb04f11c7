"""The commands that ask a running broker: what they print, and how they end."""

from __future__ import annotations

import json

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay


@pytest.fixture
def forebay(broker: BrokerProcess) -> Forebay:
    return Forebay(broker)


def publish(broker: BrokerProcess, queue: str, *bodies: bytes, **properties: object) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def test_queues_are_made_listed_and_deleted(broker: BrokerProcess, forebay: Forebay) -> None:
    assert forebay("queue", "declare", "orders", "--arguments", '{"x-max-length": 5}') == "queue orders declared\n"
    forebay("queue", "declare", "log", "--type", "stream")
    publish(broker, "orders", b'{"n": 1}', b'{"n": 2}', b"\x1b[2J", headers={"who": "me"})
    lines = forebay("queue", "list").splitlines()
    assert lines[0].split() == [
        *("queue", "type", "ready", "unacked", "consumers", "groups", "size", "durable"),
        *("dead", "letters", "waiting"),
    ]
    rows = {line.split()[0]: line.split()[1:3] for line in lines[1:]}
    assert rows == {"log": ["stream", "0"], "orders": ["classic", "3"]}
    assert [each["queue"] for each in forebay.json("queue", "list")] == ["log", "orders"]
    shown = forebay("queue", "show", "orders")
    assert ["x-max-length", "5"] in [line.split() for line in shown.splitlines()]
    assert forebay.json("queue", "show", "orders")["ready"] == 3

    found = forebay.json("queue", "messages", "orders", "--where", "/n > 1")
    assert [each["body"] for each in found] == ['{"n": 2}']
    text = forebay("queue", "messages", "orders", "--limit", "1")
    assert "header who: me" in text
    assert text.endswith('    {"n": 1}\nthere is more: --from 1\n')
    assert "\\x1b[2J" in forebay("queue", "messages", "orders", "--from", "2")
    said = forebay.fails(1, "queue", "messages", "orders", "--where", "/n >")
    assert said.splitlines()[0] == "filter, position 5, the end: a value is due here"

    assert "add --yes to confirm" in forebay.fails(2, "queue", "purge", "orders")
    assert forebay("queue", "purge", "orders", "--yes") == "3 messages deleted from queue orders\n"
    assert "add --yes to confirm" in forebay.fails(2, "queue", "truncate", "log", "0")
    assert forebay("queue", "truncate", "log", "5", "--yes") == "log starts at offset 0\n"
    assert forebay("queue", "delete", "orders", "--if-empty") == "queue orders deleted with 0 messages\n"
    assert forebay.fails(1, "queue", "show", "orders").splitlines()[0] == "no queue 'orders' in vhost '/'"


def test_exchanges_bindings_and_vhosts(forebay: Forebay) -> None:
    forebay("vhost", "add", "test", "--description", "for tests", "--tags", "a,b")
    forebay("vhost", "set", "test", "--queues-max", "3")
    forebay.environment["FOREBAY_VHOST"] = "test"
    forebay("queue", "declare", "q")
    forebay("exchange", "declare", "in", "--type", "topic")
    forebay("exchange", "declare", "out", "--transient", "--internal")
    forebay("binding", "add", "in", "q", "--key", "a.*")
    forebay("binding", "add", "in", "out", "--to-exchange")
    listed = forebay.json("binding", "list", "--exchange", "in")
    assert [(each["destination"], each["destination_type"], each["routing_key"]) for each in listed] == [
        ("q", "queue", "a.*"),
        ("out", "exchange", ""),
    ]
    assert "a.*" in forebay("binding", "list", "--queue", "q")
    forebay("binding", "delete", "in", "q", "--key", "a.*")
    assert "in use" in forebay.fails(1, "exchange", "delete", "in", "--if-unused")
    forebay("exchange", "delete", "in", "--yes")
    assert "in" not in [each["exchange"] for each in forebay.json("exchange", "list")]
    assert "unknown exchange type" in forebay.fails(1, "exchange", "declare", "x", "--type", "round")
    del forebay.environment["FOREBAY_VHOST"]
    (test,) = [each for each in forebay.json("vhost", "list") if each["vhost"] == "test"]
    assert (test["tags"], test["queues_max"], test["queues"]) == (["a", "b"], 3, 1)
    assert "no queue 'q'" in forebay.fails(1, "queue", "show", "q")
    assert forebay("vhost", "delete", "test", "--yes") == "vhost test deleted\n"
    assert "does not exist" in forebay.fails(1, "vhost", "delete", "test", "--yes")


def test_policies_are_set_and_cleared(broker: BrokerProcess, forebay: Forebay) -> None:
    forebay("queue", "declare", "q")
    forebay("policy", "set", "short", "^q", '{"max-length": 1}', "--apply-to", "queues", "--priority", "3")
    publish(broker, "q", b"1", b"2", b"3")
    shown = forebay.json("queue", "show", "q")
    assert (shown["ready"], shown["policy"], shown["operator_policy"]) == (1, "short", None)
    (policy,) = forebay.json("policy", "list")
    assert (policy["policy"], policy["pattern"], policy["priority"], policy["definition"]) == (
        "short",
        "^q",
        3,
        {"max-length": 1},
    )
    assert "max-lngth" in forebay.fails(1, "policy", "set", "bad", "", '{"max-lngth": 1}')
    assert "is no JSON" in forebay.fails(2, "policy", "set", "bad", "", "{")
    assert "is no JSON object" in forebay.fails(2, "policy", "set", "bad", "", "[1]")
    forebay("policy", "clear", "short")
    forebay("operator-policy", "set", "most", ".*", '{"max-length": 2}')
    assert "max-length" in forebay("operator-policy", "list")
    forebay("operator-policy", "clear", "most")
    assert forebay.json("policy", "list") == forebay.json("operator-policy", "list") == []


def test_groups_are_moved_and_deleted(broker: BrokerProcess, forebay: Forebay) -> None:
    forebay("queue", "declare", "q")
    publish(broker, "q", b"1", b"2", b"3")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    for group in ("a", "b"):
        channel.basic_consume("q", lambda *_: None, arguments={"x-consumer-group": group})
    connection.process_data_events(0.1)
    assert forebay("group", "seek", "q", "a", "next") == "group a of q continues at next\n"
    assert {each["group"]: each["ready"] for each in forebay.json("group", "list")} == {"a": 0, "b": 2}
    assert "in use: 1 consumer" in forebay.fails(1, "group", "delete", "q", "b", "--yes")
    assert forebay("group", "delete", "q", "b", "--force", "--yes") == "group b of q deleted\n"
    assert "no group 'b'" in forebay.fails(1, "group", "delete", "q", "b", "--yes")
    assert forebay.json("queue", "show", "q")["start"] == 3
    connection.close()
    forebay("group", "delete", "q", "a", "--yes")
    assert forebay.json("group", "list") == []


def test_who_reads_is_listed_and_ended(broker: BrokerProcess, forebay: Forebay) -> None:
    forebay("queue", "declare", "q")
    forebay("queue", "declare", "s", "--type", "stream")
    publish(broker, "q", b"1", b"2")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.basic_consume("q", lambda *_: None, consumer_tag="me")
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume("s", lambda *_: None, arguments={"x-consumer-group": "g"})
    connection.process_data_events(0.1)
    (consumer,) = forebay.json("consumer", "list", "--queue", "q")
    assert consumer["consumer"] == "me"
    assert "me" in forebay("consumer", "list")
    assert sum(each["left"] for each in forebay.json("lease", "list")) == 2
    assert "me" in forebay("lease", "list")
    assert [each["group"] for each in forebay.json("group", "list", "--queue", "s")] == ["g"]
    assert forebay("group", "commit", "s", "g", "0") == "group g of s resumes at 0\n"
    (channel,) = forebay.json("channel", "list", "--connection", str(consumer["connection"]))
    assert (channel["consumers"], channel["unacked"], channel["prefetch"]) == (2, 2, 5)
    assert "guest" in forebay("channel", "list")
    assert "AMQP 0.9.1" in forebay("connection", "list", "--vhost", "/")
    number = str(consumer["connection"])
    assert forebay("connection", "close", number, "--yes") == f"connection {number} closed\n"
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events(20)
    assert forebay.fails(1, "connection", "close", "999999", "--yes") == "id: 999999 is no connection"


def test_what_waits_is_listed_and_cancelled(broker: BrokerProcess, forebay: Forebay) -> None:
    forebay("queue", "declare", "q")
    publish(broker, "q", b"later", headers={"x-delay": 3_600_000, "x-delay-id": "d"})
    assert " d " in forebay("delayed", "list")
    assert forebay("delayed", "cancel", "d", "--yes") == "message d cancelled\n"
    assert forebay.json("delayed", "list") == []


def test_exit_codes_and_one_clear_line(forebay: Forebay) -> None:
    assert "no broker answers: 127.0.0.1:1: " in forebay.fails(3, "queue", "list", "--server", "127.0.0.1:1")
    assert "Login was refused" in forebay.fails(1, "queue", "list", "--password", "wrong")
    assert "Login was refused" in forebay.fails(1, "queue", "list", "--user", "root", stdin="secret\n")
    assert "set FOREBAY_PASSWORD" in forebay.fails(2, "queue", "list", "--user", "root")
    assert "'nowhere' is not HOST:PORT" in forebay.fails(2, "queue", "list", "--server", "nowhere")
    assert "No such command 'polish'" in forebay.fails(2, "queue", "polish")
    assert "Missing argument 'NAME'" in forebay.fails(2, "queue", "show")


def test_lists_keep_whole_lines_where_nobody_looks(forebay: Forebay) -> None:
    name = "q" * 250
    forebay("queue", "declare", name)
    assert name in forebay("queue", "list")
    assert json.loads(forebay("queue", "list", "--json"))[0]["queue"] == name
