"""Records that MQTT clients reject or hold longer, and messages for later, on a whole broker and through `kill -9`."""

from __future__ import annotations

import time

import pika
import pytest

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import Delivery, Raw, connected, publish, user


@pytest.fixture
def jobs(broker: BrokerProcess) -> BrokerProcess:
    """A broker with the durable queue `jobs`."""
    open_channel(broker).queue_declare("jobs", durable=True, arguments={"x-dlq": True})
    return broker


def worker(broker: BrokerProcess) -> Raw:
    raw = connected(broker, "worker")
    raw.subscribe("$queue/jobs/#", properties=user("consumer-group", "g"))
    return raw


def command(raw: Raw, found: Delivery, verb: str, *more: bytes) -> int:
    """Publish a command for what was delivered; the code of its PUBACK."""
    facts = found.facts()
    fields = user("message-id", facts["message-id"]) + user("group-id", facts["group-id"])
    return raw.publish(f"$queue/jobs/${verb}", properties=fields + b"".join(more), id=99)


def test_a_rejected_message_is_in_the_dead_letter_queue_after_kill_9(jobs: BrokerProcess) -> None:
    raw = connected(jobs, "publisher")
    raw.publish("$queue/jobs/a4", b"page", properties=user("colour", "red"))
    holder = worker(jobs)
    found = holder.delivery()
    assert command(holder, found, "reject", user("reason", "no paper")) == 0
    assert command(holder, found, "reject") >= 0x80  # it is gone from there
    jobs.kill9()
    jobs.start()
    connected(jobs, "publisher").publish("$queue/jobs/k", b"next")
    assert worker(jobs).delivery().body == b"next"
    method, properties, body = open_channel(jobs).basic_get("$dlq/jobs")
    assert (method.routing_key, body) == ("$queue/jobs/a4", b"page")
    headers = dict(properties.headers)
    moved_ms = int(headers.pop("dlq-time-ms"))
    assert abs(moved_ms / 1000 - time.time()) < 600
    assert headers == {
        "colour": "red",
        "dlq-id": "1-1-0",  # of the queue, its first group and the message
        "dlq-group": "g",
        "dlq-queue": "jobs",
        "dlq-offset": "0",
        "dlq-reason": "no paper",
        "dlq-deliveries": "1",
    }


def test_a_dead_letter_is_settled_at_its_own_address(jobs: BrokerProcess) -> None:
    raw = connected(jobs, "publisher")
    holder = worker(jobs)
    for body in (b"1", b"2"):
        raw.publish("$queue/jobs/k", body)
        assert command(holder, holder.delivery(), "reject") == 0
    channel = open_channel(jobs)
    undertaker = connected(jobs, "undertaker")
    undertaker.subscribe("$dlq/jobs/#")
    dead = [undertaker.delivery() for _ in range(2)]
    assert [(each.topic, each.body) for each in dead] == [("$queue/jobs/k", b"1"), ("$queue/jobs/k", b"2")]
    assert undertaker.publish("$dlq/jobs/$reject", properties=user("message-id", "$dlq/jobs:0")) == 0
    assert undertaker.publish("$dlq/jobs/$nack", properties=user("message-id", "$dlq/jobs:1")) == 0
    undertaker.vanish()
    method, _, body = channel.basic_get("$dlq/jobs")
    assert (method.redelivered, body) == (True, b"2")
    assert channel.basic_get("$dlq/jobs")[0] is None


def test_what_amqp_published_gets_headers_in_the_dead_letter_queue(jobs: BrokerProcess) -> None:
    channel = open_channel(jobs)
    sent = pika.BasicProperties(message_id="m", headers={"n": 7})
    channel.basic_publish("", "jobs", b"job", sent)
    holder = worker(jobs)
    assert command(holder, holder.delivery(), "reject") == 0
    method, properties, body = channel.basic_get("$dlq/jobs")
    assert (method.routing_key, body, properties.message_id) == ("jobs", b"job", "m")
    headers = dict(properties.headers)
    assert (headers["n"], headers["dlq-queue"], headers["dlq-offset"], headers["dlq-reason"]) == (
        7,
        "jobs",
        0,
        "rejected",
    )


def test_an_extended_record_stays_while_its_neighbours_return(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("jobs", durable=True, arguments={"x-visibility-timeout": 3000})
    raw = connected(broker, "publisher")
    raw.send(publish("$queue/jobs/k", b"1", 0), publish("$queue/jobs/k", b"2", 0))
    raw.publish("$queue/jobs/k", b"3")
    holder = worker(broker)
    found = [holder.delivery() for _ in range(3)]
    assert command(holder, found[1], "extend", user("extend-ms", "3600000")) == 0
    again = sorted(holder.delivery().body for _ in range(2))
    assert again == [b"1", b"3"]
    assert command(holder, found[1], "ack") == 0  # held to the end, whatever became of the others
    assert command(holder, found[1], "extend") >= 0x80


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", b"extend-ms: 0 is not above 0"), ("soon", b"extend-ms: 'soon'"), ("99999999999", b"is more than")],
)
def test_an_extension_that_means_nothing_is_named(jobs: BrokerProcess, value: str, text: bytes) -> None:
    raw = connected(jobs, "publisher")
    raw.publish("$queue/jobs/k", b"1")
    holder = worker(jobs)
    facts = holder.delivery().facts()
    fields = user("message-id", facts["message-id"]) + user("group-id", "g") + user("extend-ms", value)
    holder.send(publish("$queue/jobs/$extend", b"", 1, 8, properties=fields))
    rest = holder.expect(0x40)
    assert (rest[:3], text in rest) == (b"\0\x08\x99", True), rest


def test_a_message_for_later_outlives_kill_9_and_comes_once(jobs: BrokerProcess) -> None:
    raw = connected(jobs, "publisher")
    assert raw.publish("$delayed/3/$queue/jobs/later", b"later", properties=user("delay-id", "one")) == 0
    assert raw.publish("$delayed/3600/$queue/jobs/later", b"never", properties=user("delay-id", "two")) == 0
    assert raw.publish("$delayed/$cancel", properties=user("delay-id", "two")) == 0
    assert raw.publish("$delayed/$cancel", properties=user("delay-id", "two")) >= 0x80
    jobs.kill9()
    jobs.start()
    holder = worker(jobs)
    found = holder.delivery()
    assert (found.topic, found.body) == ("$queue/jobs/later", b"later")
    jobs.kill9()
    jobs.start()
    raw = connected(jobs, "publisher")
    raw.publish("$delayed/0/$queue/jobs/last", b"last")  # comes after all that was due before it
    holder = worker(jobs)
    came = [holder.delivery() for _ in range(2)]
    assert sorted((each.facts()["offset"], each.body) for each in came) == [("0", b"later"), ("1", b"last")]
