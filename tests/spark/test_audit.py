"""An audit says what is missing, double, out of order or late, and what became of the messages."""

from __future__ import annotations

import time

import pika
import pytest

from forebay.core.errors import OptionError
from forebay.spark import audit
from forebay.spark.jobs.audit import LOST, RETENTION, SETTLED, merged, state_of, without
from forebay.spark.jobs.broker import Broker
from tests.spark.conftest import Feed
from tests.waiting import until

LATE_S = 3600


def publish(feed: Feed, queue: str, numbers: list[int]) -> None:
    """Messages of two devices, numbered each; sent an hour ago."""
    for number in numbers:
        properties = pika.BasicProperties(
            app_id=f"device-{number % 2}",
            message_id=f"m{number}",
            timestamp=round(time.time()) - LATE_S,
            headers={"seq": number // 2},
            delivery_mode=2,
        )
        feed.channel.basic_publish("", queue, b'{"n": %d}' % number, properties)


def test_an_audit_of_a_queue_and_a_stream(feed: Feed) -> None:
    channel = feed.channel
    channel.confirm_delivery()
    feed.stream("log")
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("work", durable=True, arguments=arguments)
    publish(feed, "log", [0, 1, 2, 4, 3, 6, 8, 5, 5, 7, 14])
    publish(feed, "work", list(range(10)))
    tags = [channel.basic_get("work")[0].delivery_tag for _ in range(5)]
    channel.basic_ack(tags[0])
    channel.basic_reject(tags[1], requeue=False)
    channel.basic_ack(tags[3])  # 0, 1 and 3 are settled, 2 and 4 are held
    until(lambda: channel.queue_declare("dead", passive=True).method.message_count)
    options = {"forebay.servers": feed.server}
    with Broker(options).administrator() as administrator:
        administrator.run("queue.truncate", queue="log", below=2)
        assert without([(0, 10)], merged([(3, 5), (4, 7)])) == [(0, 3), (7, 10)]
        read = state_of(Broker(options), administrator, "work", 10, [(2, 6), (8, 10)])
        assert read.gaps == [(0, 2, SETTLED), (6, 8, LOST)]

    sequence = "bigint(properties['header.seq'])"
    found = audit(feed.spark, ["work", "log"], options, producer="app_id", sequence=sequence)
    work, log = found.queues.collect()
    assert work.asDict() == {
        "queue": "work",
        "published": 10,
        "present": 8,
        "settled": 3,
        "waiting": 7,
        "held": 2,
        "dead": 1,
        "lost": 0,
    }
    assert (log["published"], log["present"], log["waiting"], log["lost"]) == (11, 9, 9, 0)
    assert [tuple(row) for row in found.gaps.collect()] == [("work", 0, 2, SETTLED), ("log", 0, 2, RETENTION)]
    assert [tuple(row) for row in found.duplicates.collect()] == [("log", "m5", 2, 7, 8)]
    order = {(row["queue"], row["producer"]): row for row in found.order.collect()}
    even, odd = order["log", "device-0"], order["log", "device-1"]
    assert (even["messages"], even["first"], even["last"], even["missing"]) == (5, 1, 7, 2)
    assert (odd["messages"], odd["missing"], odd["repeated"], odd["out_of_order"]) == (4, 0, 1, 0)
    for row in found.lag.collect():
        assert LATE_S * 1000 - 1500 < row["p50"] <= row["p99"] <= row["most"] < LATE_S * 1000 + 60_000
    assert found.faults == [
        "queue log: duplicates: 1 keys are there 2 times",
        "queue log: order: 5 messages of device-0: 2 missing",
        "queue log: order: 4 messages of device-1: 1 repeated",
    ]
    text = found.text()
    assert text.splitlines()[1].split() == list(work.asDict())
    assert text.endswith(found.faults[-1])

    with pytest.raises(OptionError, match="producer and sequence: give both or none"):
        audit(feed.spark, ["work"], options, producer="app_id")
    with pytest.raises(OptionError, match=r"sent: 'yesterday': .*`yesterday` cannot be resolved"):
        audit(feed.spark, ["work"], options, sent="yesterday")
