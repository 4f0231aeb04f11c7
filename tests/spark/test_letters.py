"""Dead letters as a table, their report, and those that a condition chooses sent back, each once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter

import pika
import pytest

from forebay.client.control import ControlClient
from forebay.core.errors import NOT_FOUND, OptionError, RequestError
from forebay.spark import letters, redrive
from forebay.spark.jobs.letters import GROUPS, Redriven, ranges_of
from tests.spark.conftest import Feed

WAIT_S_MAX = 180  # a guard against a hang
MANY = 12_000


def declare(feed: Feed) -> None:
    """Two queues whose dead letters are for one."""
    feed.channel.confirm_delivery()
    feed.channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    for queue in ("orders", "mails"):
        feed.channel.queue_declare(queue, durable=True, arguments=arguments)


def reject(feed: Feed, queue: str, numbers: range, **headers: object) -> None:
    """Publish JSON messages and reject them."""
    channel = feed.channel
    for number in numbers:
        properties = pika.BasicProperties(headers=headers, message_id=f"{queue}-{number}", delivery_mode=2)
        channel.basic_publish("", queue, json.dumps({"n": number}).encode(), properties)
    for _ in numbers:
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare(queue, passive=True)  # answered after the rejects


def taken(feed: Feed, queue: str) -> list[bytes]:
    """Everything out of a queue."""
    found: list[bytes] = []
    while True:
        method, _, body = feed.channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def numbers(feed: Feed, queue: str) -> list[int]:
    return [json.loads(body)["n"] for body in taken(feed, queue)]


def test_letters_are_rows_and_a_report_says_what_kills(feed: Feed) -> None:
    declare(feed)
    options = {"forebay.servers": feed.server}
    reject(feed, "orders", range(6), **{"x-exception": "Timeout"})
    reject(feed, "mails", range(2))
    reject(feed, "orders", range(6, 8), **{"x-exception-message": "KeyError: 'size'"})
    feed.channel.basic_publish("", "dead", b"\xff nobody knows why")
    feed.channel.basic_get("dead", auto_ack=True)  # offset 0
    tags = [feed.channel.basic_get("dead")[0].delivery_tag for _ in range(3)]
    feed.channel.basic_ack(tags[1])  # offset 2, in the middle; 1 and 3 are held

    rows = letters(feed.spark, ["dead", "orders"], options, columns="n int").orderBy("offset").collect()
    assert [row["offset"] for row in rows] == [1, 3, 4, 5, 6, 7, 8, 9, 10]
    first, mail, unknown = rows[0], rows[4], rows[-1]
    assert (first["cause"], first["origin"], first["origin_exchange"], first["origin_key"]) == (
        "rejected",
        "orders",
        "",
        "orders",
    )
    assert (first["queue"], first["exception"], first["message_id"], first["n"]) == ("dead", "Timeout", "orders-1", 1)
    assert (first["deaths"], first["redriven"], first["deliveries"], first["body"]) == (1, 0, 1, '{"n": 1}')
    assert abs((first["stored"] - first["died"]).total_seconds()) < 1
    assert (mail["origin"], mail["exception"]) == ("mails", None)
    assert rows[6]["exception"] == "KeyError: 'size'"
    assert (unknown["cause"], unknown["origin"], unknown["died"], unknown["deaths"]) == (None, None, None, 0)

    lines = letters(feed.spark, ["dead"], options, by=GROUPS).collect()
    assert [(line["origin"], line["cause"], line["count"]) for line in lines] == [
        ("orders", "rejected", 6),
        ("mails", "rejected", 2),
        (None, None, 1),
    ]
    worst = lines[0]
    assert [tuple(one) for one in worst["exceptions"]] == [("Timeout", 4), ("KeyError: 'size'", 2)]
    assert worst["samples"] == ['{"n": 7}', '{"n": 5}']
    assert (worst["oldest"], worst["newest"]) == (first["died"], rows[7]["died"])

    with pytest.raises(OptionError, match="by: no column 'colour'; known are queue, offset"):
        letters(feed.spark, ["dead"], options, by=["colour"])
    with pytest.raises(OptionError, match="columns: 'offset' is a column of every queue"):
        letters(feed.spark, ["dead"], options, columns="offset int")
    with pytest.raises(OptionError, match=r"forebay\.data: a job needs a running broker"):
        letters(feed.spark, ["dead"], {"forebay.data": "/tmp"})
    with pytest.raises(RequestError, match="no queue 'nowhere'") as missing:
        letters(feed.spark, ["nowhere"], options)
    assert missing.value.reason == NOT_FOUND


def test_a_condition_chooses_which_letters_go_back(feed: Feed) -> None:
    declare(feed)
    options = {"forebay.servers": feed.server}
    reject(feed, "orders", range(10), **{"x-exception": "Timeout"})
    reject(feed, "mails", range(5))
    where = "origin = 'orders' AND n % 2 = 0"
    assert redrive(feed.spark, "dead", options, where=where, columns="n int", dry_run=True) == Redriven(chosen=5)
    assert redrive(feed.spark, "dead", options, where=where, columns="n int", limit=3) == Redriven(3, done=3)
    assert numbers(feed, "orders") == [0, 2, 4]
    assert redrive(feed.spark, "dead", options, where=where, columns="n int") == Redriven(2, done=2)
    assert redrive(feed.spark, "dead", options, where=where, columns="n int") == Redriven()
    held, _, _ = feed.channel.basic_get("dead")  # orders 1
    feed.channel.queue_delete("mails")
    done = redrive(feed.spark, "dead", options)
    assert (done.chosen, done.done, done.held, done.refused) == (10, 4, 1, 5)
    assert done.refusal == "offset 10: queue 'mails', where it died, is no more: say where to"
    feed.channel.basic_ack(held.delivery_tag)
    feed.channel.queue_declare("elsewhere", durable=True)
    assert redrive(feed.spark, "dead", options, to="elsewhere") == Redriven(5, done=5)
    assert numbers(feed, "orders") == [6, 8, 3, 5, 7, 9]
    assert numbers(feed, "elsewhere") == [0, 1, 2, 3, 4]
    assert taken(feed, "dead") == []
    for bad, said in {"nix > 3": "`nix` cannot be resolved", "n >": "Syntax error"}.items():
        with pytest.raises(OptionError, match=f"where: '{bad}': .*{said}"):
            redrive(feed.spark, "dead", options, where=bad)
    with pytest.raises(OptionError, match="limit: -1 is below 0"):
        redrive(feed.spark, "dead", options, limit=-1)


SENDER = """
import sys
from forebay.spark.jobs.broker import Broker
from forebay.spark.jobs.letters import send_back
with Broker({"forebay.servers": sys.argv[1]}).administrator() as administrator:
    send_back(administrator, "dead", int(sys.argv[2]), range(int(sys.argv[3])), "orders")
"""


def ready(feed: Feed, queue: str) -> int:
    with ControlClient.connect(feed.server, "guest", "guest") as client:
        return int(str(client.run("queue.show", queue=queue)["ready"]))


def until_some_are_back(feed: Feed, least: int) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while ready(feed, "orders") < least:
        assert time.monotonic() < deadline


@pytest.mark.timeout(240)
def test_kill9_of_sender_and_broker_sends_every_letter_back_once(feed: Feed) -> None:
    declare(feed)
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", feed.broker.amqp_port)).channel()
    for number in range(MANY):
        channel.basic_publish("", "dead", b'{"n": %d}' % number, pika.BasicProperties(delivery_mode=2))
    channel.connection.close()
    feed.connection.close()
    with ControlClient.connect(feed.server, "guest", "guest") as client:
        queue = client.run("queue.unsettled", queue="dead")
    assert queue["end"] == MANY

    # The driver is killed when it has sent some back.
    command = [sys.executable, "-c", SENDER, feed.server, str(queue["id"]), str(MANY)]
    sender = subprocess.Popen(command)
    until_some_are_back(feed, 1)
    sender.kill()
    sender.wait()
    before = ready(feed, "orders")
    assert 0 < before < MANY

    # The broker is killed under the next run, which goes on by itself.
    done: list[Redriven] = []
    options = {"forebay.servers": feed.server, "retryMs": "60000"}
    thread = threading.Thread(
        target=lambda: done.append(redrive(feed.spark, "dead", options, where="offset % 10 < 9", to="orders"))
    )
    thread.start()
    until_some_are_back(feed, before + 1)
    feed.broker.kill9()
    feed.broker.start()
    thread.join()
    assert done[0].chosen == done[0].done + done[0].gone  # what was asked for when the broker died is gone by then
    rest = redrive(feed.spark, "dead", options, to="orders")
    assert rest.done == rest.chosen > 0
    assert ready(feed, "dead") == 0

    again = Feed(feed.spark, feed.broker)
    found = Counter(numbers(again, "orders"))
    again.connection.close()
    assert set(found) == set(range(MANY))
    assert set(found.values()) == {1}


def test_offsets_become_ranges() -> None:
    assert ranges_of([]) == []
    assert ranges_of([1, 2, 3, 7, 9, 10]) == [[1, 4], [7, 8], [9, 11]]
