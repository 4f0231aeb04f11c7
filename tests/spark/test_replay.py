"""A range of a queue's past goes into a queue again: each record once, as it was, at a rate, whoever dies meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest

from forebay.client.control import ControlClient
from forebay.core.errors import OptionError, RequestError
from forebay.spark import replay
from forebay.spark.jobs.replay import PLAN
from tests.spark.conftest import Feed
from tests.waiting import until, until_past

WAIT_S_MAX = 400
ROWS = 60


def publish(feed: Feed, count: int) -> None:
    """Messages that say much of themselves."""
    feed.channel.confirm_delivery()
    for number in range(count):
        properties = pika.BasicProperties(
            headers={"n": number, "deep": {"list": [1, "x"]}, "CC": ["elsewhere"]},
            message_id=f"m{number}",
            app_id="tests",
            expiration="86400000",
            priority=3,
            delivery_mode=2,
        )
        feed.channel.basic_publish("in", "key", b'{"n": %d}' % number, properties)


def taken(feed: Feed, queue: str) -> list[tuple[int, pika.BasicProperties]]:
    found: list[tuple[int, pika.BasicProperties]] = []
    while True:
        method, properties, body = feed.channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append((json.loads(body)["n"], properties))


@pytest.mark.timeout(600)
def test_a_range_is_replayed_as_it_was(feed: Feed, tmp_path: Path) -> None:
    channel = feed.channel
    feed.stream("source")
    channel.exchange_declare("in", "direct", durable=True)
    channel.queue_bind("source", "in", "key")
    for name in ("copy", "elsewhere"):
        channel.queue_declare(name, durable=True)
    channel.queue_bind("elsewhere", "in", "elsewhere")
    publish(feed, 10)
    between = datetime.now(UTC)
    until_past(between.timestamp() + 0.001)
    publish(feed, 5)
    options = {"forebay.servers": feed.server}

    def run(number: int, **arguments: object) -> tuple[int, int]:
        done = replay(feed.spark, "source", "copy", options, checkpoint=str(tmp_path / str(number)), **arguments)  # type: ignore[arg-type]
        return done.rows, done.all_chunks

    assert run(1, starting="2", ending="7", where="offset <> 4", rate=4) == (4, 2)
    found = taken(feed, "copy")
    assert [number for number, _ in found] == [2, 3, 5, 6]
    said = found[0][1]
    was = {name: said.headers.pop(f"x-replay-{name}") for name in ("queue", "offset", "exchange", "routing-key")}
    assert was == {"queue": "source", "offset": 2, "exchange": "in", "routing-key": "key"}
    stored_ms = said.headers.pop("x-replay-timestamp-ms")
    assert abs(stored_ms - between.timestamp() * 1000) < 60_000
    assert said.headers == {"n": 2, "deep": {"list": [1, "x"]}}
    assert (said.message_id, said.app_id, said.priority, said.delivery_mode) == ("m2", "tests", 3, 2)
    assert said.expiration is None
    assert run(1, starting="2", ending="7", where="offset <> 4", rate=4) == (0, 2)

    assert run(2, starting=between.isoformat()) == (5, 1)
    assert [number for number, _ in taken(feed, "copy")] == list(range(5))
    assert run(3, ending=between.isoformat()) == (10, 1)
    assert len(taken(feed, "elsewhere")) == 15  # of the first publishes: a replay goes to its own queue alone

    with pytest.raises(OptionError, match="starting: 'soon' is neither earliest, latest, an offset nor a time"):
        run(4, starting="soon")
    with pytest.raises(OptionError, match="where: 'a ='"):
        run(4, where="a =")
    with pytest.raises(OptionError, match="rate: -1 is not from 0"):
        run(4, rate=-1)
    with pytest.raises(OptionError, match="is of a replay with where 'offset <> 4', not ''"):
        run(1)
    with pytest.raises(RequestError, match="no queue 'nowhere'"):
        replay(feed.spark, "source", "nowhere", options, checkpoint=str(tmp_path / "4"))


RUN = """
import sys
from forebay.spark import replay, session
spark = session("local[1]", config={"spark.ui.enabled": "false", "spark.driver.memory": "512m"})
replay(spark, "source", "copy", {"forebay.servers": sys.argv[1]}, checkpoint=sys.argv[2], rate=5)
"""


@pytest.mark.timeout(900)
def test_kill9_of_a_replay_publishes_every_row_once(feed: Feed, tmp_path: Path) -> None:
    feed.stream("source")
    feed.channel.exchange_declare("in", "direct", durable=True)
    feed.channel.queue_bind("source", "in", "key")
    for name in ("copy", "elsewhere"):
        feed.channel.queue_declare(name, durable=True)
    publish(feed, ROWS)
    checkpoint = tmp_path / "c"
    driver = subprocess.Popen([sys.executable, "-c", RUN, feed.server, str(checkpoint)])
    with ControlClient.connect(feed.server, "guest", "guest") as client:

        def has_begun() -> bool:
            assert driver.poll() is None
            return int(str(client.run("queue.show", queue="copy")["ready"])) >= 10

        until(has_begun, seconds=WAIT_S_MAX)
    driver.kill()
    driver.wait()
    plan = json.loads((checkpoint / PLAN).read_text())
    # As if it had died between the broker's commit and its own note.
    (checkpoint / PLAN).write_text(json.dumps({**plan, "done": max(0, plan["done"] - 1)}))
    feed.connection.close()
    feed.broker.kill9()
    feed.broker.start()
    options = {"forebay.servers": feed.server}
    done = replay(feed.spark, "source", "copy", options, checkpoint=str(checkpoint))
    assert 0 < done.rows < ROWS
    again = Feed(feed.spark, feed.broker)
    assert [number for number, _ in taken(again, "copy")] == list(range(ROWS))
    again.connection.close()
