"""`forebay publish` and `forebay consume` with `--protocol amqp10`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.broker_process import BrokerProcess, running
from tests.certificates import Certificates
from tests.cli.test_messages import WAIT_S_MAX, Running, ready, received, until_consumed
from tests.unit.cli.commands import Forebay
from tests.waiting import until

AMQP10 = ("--protocol", "amqp10")


def publish(forebay: Forebay, *arguments: str, stdin: str = "") -> str:
    return forebay("publish", *AMQP10, *arguments, stdin=stdin)


def consume(forebay: Forebay, *arguments: str) -> str:
    return forebay("consume", *AMQP10, *arguments)


def test_what_is_published_is_what_is_consumed(forebay: Forebay, shared: BrokerProcess) -> None:
    forebay("queue", "declare", "facts10")
    said = publish(
        forebay,
        *("--queue", "facts10", '{"total": 100}', "-H", "region=eu", "-H", "count=3"),
        *("-P", "content-type=application/json", "-P", "priority=4", "-P", "message-id=m1", "-P", "correlation-id=c"),
    )
    assert said == "1 message is on disk\n"
    connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{shared.amqp_port}", allowed_mechs="PLAIN")
    message = connection.create_receiver("/queues/facts10", credit=1).receive(timeout=WAIT_S_MAX)
    assert (message.content_type, message.priority, message.id) == ("application/json", 4, "m1")
    assert (message.durable, message.properties) == (True, {"region": "eu", "count": 3})
    assert bytes(message.body) == b'{"total": 100}'
    connection.close()
    (again,) = received(consume(forebay, "-q", "facts10", "-n", "1", "--json"))
    assert (again["headers"]["region"], again["body"], again["redelivered"]) == ("eu", '{"total": 100}', True)


def test_messages_of_others_are_shown(forebay: Forebay, shared: BrokerProcess) -> None:
    forebay("queue", "declare", "others10")
    connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{shared.amqp_port}", allowed_mechs="PLAIN")
    sender = connection.create_sender("/queues/others10")
    sender.send(Message(body="a text", subject="s", address="t", group_id="g", user_id=b"guest"))
    sender.send(Message(body=b"\xff\x00", inferred=True))
    connection.close()
    forebay("publish", "-q", "others10", "of 0.9.1", "-H", "who=me")
    first, second, third = received(consume(forebay, "-q", "others10", "-n", "3", "--json"))
    assert first["body"] == "a text"
    assert first["properties"] == {"user_id": "guest", "to": "t", "subject": "s", "group_id": "g"}
    assert second["body_base64"] == "/wA="
    assert (third["body"], third["headers"]) == ("of 0.9.1", {"who": "me"})
    publish(forebay, "-q", "others10", "one\x1b[2J", "-H", "who=me")
    assert consume(forebay, "-q", "others10", "-n", "1").splitlines() == [
        "exchange (default)  key others10",
        "    header who: me",
        "    one\\x1b[2J",
    ]


def test_many_messages_keep_their_order(forebay: Forebay, tmp_path: Path) -> None:
    forebay("queue", "declare", "many10")
    text = "".join(f"line {number}\n" for number in range(20_000))
    counts = json.loads(publish(forebay, "-q", "many10", "--lines", "--json", stdin=text))
    assert {name: counts[name] for name in ("published", "confirmed", "refused", "unroutable")} == {
        "published": 20_000,
        "confirmed": 20_000,
        "refused": 0,
        "unroutable": 0,
    }
    assert consume(forebay, "-q", "many10", "-o", "lines", "--count", "550") == text[: text.index("line 550\n")]
    (next_one,) = received(consume(forebay, "-q", "many10", "-n", "1", "--json"))
    assert (next_one["body"], next_one["redelivered"]) == ("line 550", False)
    assert consume(forebay, "-q", "many10", "-o", "lines", "--settle", "no-ack") == text[text.index("line 551\n") :]
    (tmp_path / "body").write_bytes(bytes(range(256)) * 8000)
    publish(forebay, "-q", "many10", "--file", str(tmp_path / "body"), "--count", "2")
    consume(forebay, "-q", "many10", "-o", "raw", "-n", "2", "--out", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == (tmp_path / "body").read_bytes() * 2
    assert ready(forebay, "many10") == 0


def test_what_leads_nowhere_and_what_is_refused_fails(forebay: Forebay) -> None:
    assert "no queue 'nowhere' in vhost '/'" in forebay.fails(1, "publish", *AMQP10, "-q", "nowhere", "x")
    assert "no exchange 'none'" in forebay.fails(1, "publish", *AMQP10, "-e", "none", "x")
    assert "no queue 'nowhere'" in forebay.fails(1, "consume", *AMQP10, "-q", "nowhere")
    forebay("queue", "declare", "full10", "--arguments", '{"x-max-length": 2, "x-overflow": "reject-publish"}')
    said = forebay.fails(1, "publish", *AMQP10, "-q", "full10", "x", "-n", "5")
    assert "3 of 5 messages: refused: queue 'full10'" in said
    assert ready(forebay, "full10") == 2
    lost = forebay.fails(1, "publish", *AMQP10, "--topic", "nobody/listens", "x")
    assert "1 of 1 message reached nobody" in lost
    cancelled = ("--topic", "$delayed/$cancel", "", "-H", "delay-id=one")
    assert "goes with --protocol amqp alone" in forebay.fails(2, "publish", *AMQP10, *cancelled)
    assert "is none of amqp, amqp10" in forebay.fails(2, "publish", "--protocol", "mqtt", "-q", "full10", "x")
    assert "is none of amqp, amqp10" in forebay.fails(2, "consume", "--protocol", "amqps", "-q", "full10")
    wrong = ("--user", "guest", "--password", "wrong")
    assert "login of user 'guest' is refused" in forebay.fails(1, "publish", *AMQP10, *wrong, "-q", "full10", "x")


def test_filters_groups_places_and_topics(forebay: Forebay) -> None:
    forebay("queue", "declare", "chosen10")
    publish(forebay, "-q", "chosen10", "--lines", stdin='{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    found = consume(forebay, "-q", "chosen10", "--filter", "/n >= 2", "-n", "2", "-o", "lines")
    assert found == '{"n": 2}\n{"n": 3}\n'
    assert "filter, position" in forebay.fails(1, "consume", *AMQP10, "-q", "chosen10", "--filter", "/n >=")
    forebay("queue", "declare", "stream10", "--type", "stream")
    publish(forebay, "-q", "stream10", "--lines", stdin="a\nb\nc\nd\n")
    for place, text in (("first", "a\nb\nc\nd\n"), ("2", "c\nd\n"), ("2026-01-01", "a\n"), ("1h", "a\n")):
        count = str(text.count("\n"))
        assert consume(forebay, "-q", "stream10", "--from", place, "-n", count, "-o", "lines") == text
    assert consume(forebay, "-q", "stream10", "--group", "g", "--from", "first", "-n", "2", "-o", "lines") == "a\nb\n"
    told = publish(forebay, "--topic", "$queue/orders10/new", "1", "--count", "2")  # before anybody has the queue
    assert told == "2 messages are on disk\n"
    found = consume(forebay, "--topic", "$queue/orders10/new/#", "-n", "2", "-o", "lines")
    assert found == "1\n1\n"
    reading = Running(forebay, "consume", *AMQP10, "--topic", "kitchen10/+/now", "--count", "2", "--json")
    until(lambda: "kitchen10" in str(forebay.json("binding", "list")))
    for place in ("oven", "fridge.1"):
        publish(forebay, "--topic", f"kitchen10/{place}/now", "21")
    lines = [json.loads(line) for line in reading.lines(2)]
    assert [each["routing_key"] for each in lines] == ["kitchen10.oven.now", "kitchen10.fridge/1.now"]
    assert reading.process.wait(WAIT_S_MAX) == 0
    reading.process.communicate()


def test_what_is_for_later_comes_later(forebay: Forebay) -> None:
    publish(forebay, "--topic", "$delayed/1/$queue/later10/k", "tea")
    assert consume(forebay, "-q", "later10", "-n", "1", "--wait", str(WAIT_S_MAX), "-o", "lines") == "tea\n"


def test_ctrl_c_ends_it_and_only_what_was_printed_is_settled(forebay: Forebay) -> None:
    forebay("queue", "declare", "watched10")
    reading = Running(forebay, "consume", *AMQP10, "-q", "watched10", "--follow", "-o", "lines")
    until_consumed(forebay, "watched10")
    publish(forebay, "-q", "watched10", "--lines", stdin="1\n2\n3\n")
    assert reading.lines(3) == [b"1\n", b"2\n", b"3\n"]
    assert reading.interrupt() == 0
    shown = forebay.json("queue", "show", "watched10")
    assert (shown["ready"], shown["unacked"]) == (0, 0)


def test_ctrl_c_ends_publishing(forebay: Forebay) -> None:
    forebay("queue", "declare", "stopped10")
    writing = Running(forebay, "publish", *AMQP10, "-q", "stopped10", "x", "-n", "1000", "--rate", "5")
    until(lambda: ready(forebay, "stopped10") > 0)
    writing.process.send_signal(2)
    _, said = writing.process.communicate(timeout=WAIT_S_MAX)
    assert writing.process.returncode != 0
    assert b"Traceback" not in said


def test_a_deleted_queue_ends_the_reading(forebay: Forebay) -> None:
    forebay("queue", "declare", "going10")
    reading = Running(forebay, "consume", *AMQP10, "-q", "going10", "--follow")
    until_consumed(forebay, "going10")
    forebay("queue", "delete", "going10", "--yes")
    _, said = reading.process.communicate(timeout=WAIT_S_MAX)
    assert reading.process.returncode == 1
    assert b"going10" in said


def test_a_requeued_message_is_there_again(forebay: Forebay) -> None:
    forebay("queue", "declare", "again10")
    publish(forebay, "-q", "again10", "--lines", stdin="1\n2\n")
    assert consume(forebay, "-q", "again10", "-n", "1", "-o", "lines", "--settle", "requeue") == "1\n"
    assert ready(forebay, "again10") == 2
    assert consume(forebay, "-q", "again10", "-n", "2", "-o", "lines") == "1\n2\n"


def test_over_tls(forebay: Forebay, shared: BrokerProcess, made: Certificates) -> None:
    forebay("queue", "declare", "secret10")
    secure = ("--server", f"127.0.0.1:{shared.port('amqps')}", "--ca-file", str(made.ca))
    publish(forebay, *secure, "-q", "secret10", "x")
    assert consume(forebay, *secure, "-q", "secret10", "-n", "1", "-o", "lines") == "x\n"


@pytest.mark.parametrize("command", ["publish", "consume"])
def test_a_broker_that_is_killed_is_told_of(tmp_path: Path, command: str) -> None:
    with running(tmp_path) as broker:
        forebay = Forebay(broker)
        forebay("queue", "declare", "killed")
        if command == "publish":
            going = Running(forebay, "publish", *AMQP10, "-q", "killed", "x", "-n", "1000", "--rate", "20")
            until(lambda: ready(forebay, "killed") > 0)
        else:
            going = Running(forebay, "consume", *AMQP10, "-q", "killed", "--follow")
            until_consumed(forebay, "killed")
        broker.kill9()
        _, said = going.process.communicate(timeout=WAIT_S_MAX)
        assert going.process.returncode == 3, "what became of the last messages is unknown"
        assert b"Traceback" not in said
        assert b"127.0.0.1" in said
        broker.start()
