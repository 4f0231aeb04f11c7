"""Queues under `$queue/`: what deliveries say, and what settles them (docs/reference/mqtt-queues.md)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt.raw import V5, V311, Delivery, Raw, connected, puback, publish, subscribe, user

GROUP = user("consumer-group", "g")


@pytest.fixture
def jobs(broker: AnyBroker) -> AnyBroker:
    """A broker with the durable queue `jobs`."""
    with amqp.connect(broker) as client:
        client.declare("jobs")
    return broker


def settlement(found: Delivery, verb: str, *more: bytes) -> tuple[str, bytes]:
    """Topic and properties of the publish that settles a delivery."""
    facts = found.facts()
    fields = user("message-id", facts["message-id"]) + user("group-id", facts["group-id"])
    return f"$queue/jobs/${verb}", fields + b"".join(more)


def settle(raw: Raw, found: Delivery, verb: str, *more: bytes) -> int:
    topic, properties = settlement(found, verb, *more)
    return raw.publish(topic, properties=properties)


def test_queue_1_a_delivery_says_where_it_is_from(jobs: AnyBroker) -> None:
    publisher = connected(jobs, "publisher")
    assert publisher.publish("$queue/jobs/a/b", b"x", properties=user("colour", "red") + b"\x03\0\x01t") == 0
    worker = connected(jobs, "worker")
    worker.subscribe("$queue/jobs/#", properties=GROUP)
    found = worker.delivery()
    assert (found.topic, found.body, found.qos, found.bits) == ("$queue/jobs/a/b", b"x", 1, 0)
    assert found.properties[:2] == [(0x26, ("colour", "red")), (0x03, b"t")]
    facts = found.facts()
    assert (facts["message-id"], facts["queue"], facts["offset"]) == ("jobs:0", "jobs", "0")
    assert "delivery-count" not in facts
    worker.close()
    again = connected(jobs, "worker")
    again.subscribe("$queue/jobs/#", properties=GROUP)
    assert again.delivery().facts()["delivery-count"] == "2"


def test_queue_2_version_5_settles_by_topic_and_its_puback_frees_the_window(jobs: AnyBroker) -> None:
    publisher = connected(jobs, "publisher")
    for body in (b"1", b"2", b"3"):
        publisher.publish("$queue/jobs/k", body)
    worker = connected(jobs, "worker", properties=b"\x21\0\x01")  # receive maximum 1
    worker.subscribe("$queue/jobs/#", properties=GROUP)
    first = worker.delivery()
    worker.quiet()
    worker.send(puback(first.id))
    assert settle(worker, first, "ack") == 0
    assert settle(worker, first, "ack") >= 0x80  # settled already
    second = worker.delivery()
    worker.send(puback(second.id, 0x80))  # back to the queue
    found = worker.delivery()
    assert (second.body, found.body in {b"2", b"3"}) == (b"2", True)


def test_queue_3_version_3_1_1_settles_by_puback(jobs: AnyBroker) -> None:
    publisher = connected(jobs, "publisher", V311)
    publisher.publish("$queue/jobs/k", b"1")
    publisher.publish("$queue/jobs/k", b"2")
    worker = connected(jobs, "g-1", V311)
    worker.subscribe("$queue/jobs/#")
    first, second = worker.delivery(), worker.delivery()
    assert (first.body, second.body) == (b"1", b"2")
    worker.send(puback(first.id))
    worker.quiet()
    worker.close()
    again = connected(jobs, "g-2", V311)
    again.subscribe("$queue/jobs/#")
    assert again.delivery().body == b"2"
    again.quiet()


def test_queue_4_nack_and_reject_by_topic(jobs: AnyBroker) -> None:
    worker = connected(jobs, "worker")
    worker.subscribe("$queue/jobs/#", properties=GROUP)
    publisher = connected(jobs, "publisher")
    publisher.publish("$queue/jobs/k", b"1")
    found = worker.delivery()
    worker.send(puback(found.id))
    assert settle(worker, found, "nack") == 0
    found = worker.delivery()
    assert (found.body, found.facts()["delivery-count"]) == (b"1", "2")
    worker.send(puback(found.id))
    assert settle(worker, found, "reject") == 0
    worker.quiet()


def test_queue_5_commands_that_mean_nothing_say_why(jobs: AnyBroker) -> None:
    raw = connected(jobs)
    for verb, properties, code, text in (
        ("$ack", b"", 0x99, b"message-id: missing"),
        ("$ack", user("message-id", "jobs:x"), 0x99, b"message-id: 'jobs:x'"),
        ("$ack", user("message-id", "jobs:7") + user("group-id", "g"), 0x83, b"no group 'g' on queue 'jobs'"),
        ("$nack", user("message-id", "other:7"), 0x99, b"is not 'jobs':<offset>"),
        ("$commit", user("offset", "1"), 0x99, b"group-id: missing"),
        ("$frob", b"", 0x99, b"is no command"),
    ):
        raw.send(publish(f"$queue/jobs/{verb}", b"", 1, 8, properties=properties))
        rest = raw.expect(0x40)
        assert (rest[:3], text in rest) == (bytes([0, 8, code]), True), rest
    old = connected(jobs, "old", V311)
    assert old.publish("$queue/jobs/$ack") == 0  # it cannot be told


@pytest.mark.parametrize("version", [V311, V5])
def test_queue_6_subscriptions_that_are_refused(jobs: AnyBroker, version: int) -> None:
    raw = connected(jobs, version=version)
    filters = [("$queue/+/a", 1), ("$queue//a", 1), ("$queue/jobs/$ack", 1), ("$queue/jobs/#", 0)]
    raw.send(subscribe(1, *filters, version=version))
    assert raw.granted() == ([0x8F, 0x8F, 0x83, 0x83] if version == V5 else [0x80] * 4)


def test_queue_6_filters_that_are_none_are_refused(jobs: AnyBroker) -> None:
    raw = connected(jobs)
    topics = [("$queue/jobs/#", 1), ("$share/g/a", 1), ("a", 1)]
    for given, codes, text in (
        ("/n >> 5", [0x8F, 0x8F, 0x83], b"filter, position 5, '>'"),
        ("age_ms > 5", [0x8F, 0x8F, 0x83], b"filter, 'age_ms'"),
        ("/n > 5", [1, 1, 0x83], b"filter: 'a' is no queue; subscribe to $share/NAME/a"),
    ):
        raw.send(subscribe(1, *topics, properties=user("filter", given)))
        rest = raw.expect(0x90)
        assert (list(rest[-3:]), text in rest) == (codes, True), rest
    publisher = connected(jobs, "publisher")
    assert publisher.publish("$queue/jobs/x", b'{"n": 5}') == 0
    assert publisher.publish("$queue/jobs/x", b'{"n": 6}') == 0
    assert raw.delivery().body == b'{"n": 6}'
    publisher.subscribe("$queue/jobs/#")
    assert publisher.delivery().body == b'{"n": 5}'


def test_queue_7_a_deleted_queue_ends_its_subscribers(jobs: AnyBroker) -> None:
    raw = connected(jobs)
    raw.subscribe("$queue/jobs/#")
    with amqp.connect(jobs) as client:
        client.send(amqp.method(1, (50, 40), b"\0\0" + amqp.short("jobs") + b"\0"))
        client.expect(1, (50, 41))
        raw.refused(0x98)


def test_queue_8_what_amqp_publishes_reaches_mqtt(jobs: AnyBroker) -> None:
    raw = connected(jobs)
    raw.subscribe("$queue/jobs/#", properties=GROUP)
    raw.subscribe("a/+")
    with amqp.connect(jobs) as client:
        client.send(amqp.publish(1, "jobs", b"job", properties=b"\x80\0" + amqp.short("text/plain")))
        found = raw.delivery()
        client.send(amqp.publish(1, "a.b", b"news", "amq.topic"))
        news = raw.delivery()
    assert (found.topic, found.body, found.properties[0]) == ("$queue/jobs", b"job", (0x03, b"text/plain"))
    assert (news.topic, news.body) == ("a/b", b"news")


@pytest.mark.parametrize("key", ["k", "a/b/c"])
def test_queue_9_a_command_behind_the_topic_of_a_delivery(jobs: AnyBroker, key: str) -> None:
    publisher = connected(jobs, "publisher")
    for body in (b"1", b"2", b"3"):
        assert publisher.publish(f"$queue/jobs/{key}", body) == 0
    worker = connected(jobs, "worker")
    worker.subscribe("$queue/jobs/#", properties=GROUP)
    found = [worker.delivery() for _ in range(3)]
    for each, verb in zip(found, ("ack", "reject", "extend"), strict=True):
        assert each.topic == f"$queue/jobs/{key}"
        _, properties = settlement(each, verb)
        assert worker.publish(f"{each.topic}/${verb}", properties=properties) == 0
    _, properties = settlement(found[2], "nack")
    assert worker.publish(f"{found[2].topic}/$nack", properties=properties) == 0
    again = worker.delivery()  # and no command came as a message
    assert (again.body, again.facts()["delivery-count"]) == (b"3", "2")
    assert settle(worker, again, "ack") == 0
    assert worker.publish(f"$queue/jobs/{key}/$ack") == 0x99  # message-id is missing
    worker.quiet()
    with amqp.connect(jobs) as client:
        assert client.count("jobs") == (0, 1)


def test_queue_10_a_delivery_names_its_queue_where_its_topic_names_another(jobs: AnyBroker) -> None:
    with amqp.connect(jobs) as client:
        client.declare("all")
        client.send(
            amqp.method(
                1, (50, 20), b"\0\0" + amqp.short("all") + amqp.short("amq.topic") + amqp.short("a.#") + bytes(5)
            )
        )
        client.expect(1, (50, 21))
    worker = connected(jobs, "worker")
    worker.subscribe("$queue/all/#", properties=GROUP)
    assert worker.publish("a/b", b"1") == 0
    found = worker.delivery()
    _, properties = settlement(found, "ack")
    assert worker.publish("$queue/jobs/a/b/$ack", properties=properties) == 0
    assert worker.publish("$queue/jobs/$ack", properties=properties) == 0x99  # not that queue's


def test_queue_11_only_who_holds_a_message_settles_it(jobs: AnyBroker) -> None:
    publisher = connected(jobs, "publisher")
    assert publisher.publish("$queue/jobs/k", b"1") == 0
    worker, colleague = connected(jobs, "worker"), connected(jobs, "colleague")
    worker.subscribe("$queue/jobs/#", properties=GROUP)
    found = worker.delivery()
    colleague.subscribe("$queue/jobs/#", properties=GROUP)
    for other in (publisher, colleague):
        for verb in ("ack", "nack", "reject", "extend"):
            topic, properties = settlement(found, verb)
            for address in (topic, f"{found.topic}/${verb}"):
                other.send(publish(address, b"", 1, 9, properties=properties))
                rest = other.expect(0x40)
                assert (rest[:3], b"message-id: 'jobs':0 is held by somebody else" in rest) == (b"\0\x09\x87", True)
    colleague.quiet()
    assert settle(worker, found, "ack") == 0


def test_queue_12_of_a_queue_that_is_sublet_all_of_the_group_settle(broker: AnyBroker) -> None:
    with amqp.connect(broker) as client:
        client.declare("jobs", arguments={"x-leasing": "sublet"})
    publisher = connected(broker, "publisher")
    assert publisher.publish("$queue/jobs/k", b"1") == 0
    worker, colleague, stranger = (connected(broker, name) for name in ("worker", "colleague", "stranger"))
    worker.subscribe("$queue/jobs/#", properties=GROUP)
    found = worker.delivery()
    colleague.subscribe("$queue/jobs/#", properties=GROUP)
    stranger.subscribe("$queue/jobs/#", properties=user("consumer-group", "others"))
    stranger.delivery()
    assert settle(publisher, found, "ack") == settle(stranger, found, "ack") == 0x87
    assert settle(colleague, found, "ack") == 0
