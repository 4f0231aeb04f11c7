"""`forebay spark` as users run it: each command is a process with a session of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.spark.conftest import Feed
from tests.unit.cli.commands import Forebay
from tests.waiting import until

WAIT_S_MAX = 240
SPARK = ("--master", "local[1]", "--conf", "spark.driver.memory=512m")


def run(feed: Feed, *arguments: str, code: int = 0) -> Any:
    """What a command prints as JSON."""
    done = Forebay(feed.broker).run("spark", *arguments, *SPARK, "--json")
    assert done.returncode == code, (arguments, done)
    return json.loads(done.stdout)


@pytest.mark.timeout(900)
def test_questions_dead_letters_and_an_audit(feed: Feed) -> None:
    channel = feed.channel
    channel.confirm_delivery()
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("orders", durable=True, arguments=arguments)
    for number in range(4):
        properties = pika.BasicProperties(message_id=f"m{number // 2}", delivery_mode=2)
        channel.basic_publish("", "orders", b'{"size": %d}' % number, properties)
        method, _, _ = channel.basic_get("orders")
        channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: channel.queue_declare("dead", passive=True).method.message_count >= 4)

    sql = "SELECT sum(size) AS total, count(*) AS n, max(value) AS last FROM d"
    assert run(feed, "query", sql, "--queue", "d=dead", "--columns", "size int") == [
        {"total": 6, "n": 4, "last": '{"size": 3}'}
    ]
    report = run(feed, "letters", "dead", "--by", "origin,cause", "--columns", "size int", "--where", "size > 0")
    assert [(row["origin"], row["cause"], row["count"]) for row in report] == [("orders", "rejected", 3)]
    assert report[0]["samples"] == ['{"size": 3}']
    found = run(feed, "audit", "dead", code=1)
    assert found["faults"] == ["queue dead: duplicates: 2 keys are there 4 times"]
    assert found["queues"][0]["waiting"] == 4
    done = run(feed, "redrive", "dead", "--where", "size >= 2", "--columns", "size int")
    assert (done["chosen"], done["done"]) == (2, 2)
    assert channel.queue_declare("orders", passive=True).method.message_count == 2


@pytest.mark.timeout(900)
def test_a_view_runs_until_it_is_told_to_end(feed: Feed, tmp_path: Path) -> None:
    feed.stream("flights")
    feed.publish("flights", [b'{"delay": 40}', b'{"delay": 3}'])
    forebay = Forebay(feed.broker)
    command = [sys.executable, "-m", "forebay", "spark", "view", "SELECT delay FROM flights WHERE delay > 30"]
    command += ["--queue", "flights", "--columns", "delay int", "--into", "late", "--checkpoint", str(tmp_path / "c")]
    environment = {**os.environ, **forebay.environment}
    view = subprocess.Popen([*command, *SPARK], env=environment, stderr=subprocess.PIPE, text=True)

    def late() -> int:
        assert view.poll() is None, view.stderr and view.stderr.read()
        return next((each["ready"] for each in forebay.json("queue", "list") if each["queue"] == "late"), 0)

    until(late, seconds=WAIT_S_MAX)
    assert [each["group"][:6] for each in forebay.json("spark", "progress")] == ["spark-"]
    assert "seconds left" in forebay("spark", "progress", "--once")
    feed.publish("flights", [b'{"delay": 50}'])
    until(lambda: late() == 2, seconds=WAIT_S_MAX)
    view.send_signal(signal.SIGTERM)
    _, said = view.communicate(timeout=WAIT_S_MAX)
    assert view.returncode == 0, said
    assert "forebay/cli" not in said, said  # of a traceback; PySpark's workers may print some of their own
    assert "view late" in said
