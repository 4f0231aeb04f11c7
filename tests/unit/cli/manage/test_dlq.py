"""Dead letters on the command line."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay
from tests.waiting import until


@pytest.fixture
def forebay(broker: BrokerProcess) -> Forebay:
    made = Forebay(broker)
    made("queue", "declare", "dead")
    arguments = '{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}'
    made("queue", "declare", "orders", "--arguments", arguments)
    return made


def reject(broker: BrokerProcess, *bodies: bytes) -> None:
    """Publish to `orders` and reject all."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number, body in enumerate(bodies):
            channel.basic_publish("", "orders", body, pika.BasicProperties(headers={"n": number}))
        for _ in bodies:
            method, _, _ = channel.basic_get("orders")
            channel.basic_reject(method.delivery_tag, requeue=False)


def contents(broker: BrokerProcess, queue: str) -> list[tuple[bytes, dict[str, object]]]:
    """Take everything out of a queue."""
    found: list[tuple[bytes, dict[str, object]]] = []
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((body, properties.headers))


def test_dead_letters_are_listed_shown_and_sent_back(broker: BrokerProcess, forebay: Forebay) -> None:
    reject(broker, b'{"n": 0}', b'{"n": 1}', b'{"n": 2}')
    (queue,) = forebay.json("dlq", "list")
    assert (queue["queue"], queue["messages"]) == ("dead", 3)
    assert (queue["causes"], queue["origins"]) == ({"rejected": 3}, {"orders": 3})
    assert "rejected 3" in forebay("dlq", "list")
    shown = forebay.json(
        "dlq", "show", "dead", "--where", "death_reason = 'rejected' AND death_queue = 'orders' AND /n = 1"
    )
    assert [each["body"] for each in shown] == ['{"n": 1}']
    assert shown[0]["death"]["first_death_queue"] == "orders"
    assert "died: death_reason rejected, death_queue orders" in forebay("dlq", "show", "dead", "--limit", "1")

    assert forebay("dlq", "redrive", "dead", "--where", "/n < 2") == "2 messages sent back\n"
    assert forebay.json("dlq", "redrive", "dead", "--where", "/n = 7") == {"done": 0, "held": 0}
    assert [body for body, _ in contents(broker, "orders")] == [b'{"n": 0}', b'{"n": 1}']
    assert [body for body, _ in contents(broker, "dead")] == [b'{"n": 2}']


def test_more_dead_letters_than_one_request_takes_go_where_they_are_sent(
    broker: BrokerProcess, forebay: Forebay
) -> None:
    forebay("queue", "declare", "repaired")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        for number in range(2500):
            channel.basic_publish("", "dead", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    assert forebay("dlq", "redrive", "dead", "--to", "repaired") == "2,500 messages sent back\n"
    assert forebay.json("queue", "show", "repaired")["ready"] == 2500
    assert forebay.json("queue", "show", "dead")["ready"] == 0
    broker.kill9()
    broker.start()
    forebay.environment["FOREBAY_SERVER"] = f"127.0.0.1:{broker.amqp_port}"
    assert forebay.json("queue", "show", "repaired")["ready"] == 2500
    assert forebay.json("queue", "show", "dead")["ready"] == 0
    assert "is the queue itself" in forebay.fails(1, "dlq", "redrive", "repaired", "--to", "repaired")
    assert "no queue 'nowhere'" in forebay.fails(1, "dlq", "redrive", "repaired", "--to", "nowhere")


def test_dead_letters_are_changed_and_discarded(broker: BrokerProcess, forebay: Forebay, tmp_path: Path) -> None:
    reject(broker, b"0", b"1", b"2")
    forebay("dlq", "edit", "dead", "0", "--body", "zero", "--header", "n=10", "--header", "who=me", "--key", "k")
    (tmp_path / "body").write_bytes(b"\xff\x00")
    forebay("dlq", "edit", "dead", "1", "--body-file", str(tmp_path / "body"), "--remove-header", "n")
    assert "is not in queue" in forebay.fails(1, "dlq", "edit", "dead", "0", "--body", "again")
    assert "is not NAME=VALUE" in forebay.fails(2, "dlq", "edit", "dead", "2", "--header", "x")
    assert "cannot be read" in forebay.fails(2, "dlq", "edit", "dead", "2", "--body-file", str(tmp_path / "none"))
    assert "one of the two" in forebay.fails(2, "dlq", "edit", "dead", "2", "--body", "x", "--body-file", "y")
    assert "add --yes" in forebay.fails(2, "dlq", "purge", "dead")
    assert forebay("dlq", "purge", "dead", "--where", "header.n = 2", "--yes") == "1 message discarded\n"
    (zero, one) = contents(broker, "dead")
    assert (zero[0], zero[1]["n"], zero[1]["who"]) == (b"zero", 10, "me")
    assert one[0] == b"\xff\x00"
    assert "n" not in one[1]


def test_what_a_consumer_holds_is_left(broker: BrokerProcess, forebay: Forebay) -> None:
    reject(broker, b"0", b"1")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.basic_get("dead")
        said = forebay("dlq", "redrive", "dead")
        assert said == "1 message sent back; consumers hold 1 more, which remained\n"
    assert forebay.json("queue", "show", "orders")["ready"] == 1


def test_figures_of_a_part_say_so(broker: BrokerProcess, forebay: Forebay) -> None:
    arguments = '{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 1}'
    forebay("queue", "declare", "short", "--arguments", arguments)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        for _ in range(5002):
            channel.basic_publish("", "short", b"x")
    until(lambda: forebay.json("dlq", "list")[0]["messages"] == 5001)
    (queue,) = forebay.json("dlq", "list")
    assert (queue["counted"], queue["complete"], queue["causes"]) == (5000, False, {"maxlen": 5000})
    said = forebay("dlq", "list")
    assert "5001" in said
    assert "maxlen 5,000+" in said
    assert "short 5,000+" in said
    assert "+ causes and origins of dead are those of its oldest 5,000 messages" in said
