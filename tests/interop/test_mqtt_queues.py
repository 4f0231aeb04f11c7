"""Queues over MQTT with a real client: groups, settlements by topic and by PUBACK, starts of streams, refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V311, Client, client, told


@pytest.fixture
def worker(broker: BrokerProcess) -> Iterator[Client]:
    """A worker of group `g` on the durable queue `jobs`."""
    open_channel(broker).queue_declare("jobs", durable=True)
    with client(broker, "worker") as made:
        assert not made.subscribe("$queue/jobs/#", consumer_group="g").is_failure
        yield made


def test_a_delivery_says_where_it_is_from(broker: BrokerProcess, worker: Client) -> None:
    assert not worker.publish("$queue/jobs/print/a4", b"page 1", colour="red").is_failure
    message = worker.next()
    assert (message.topic, message.payload, message.qos) == ("$queue/jobs/print/a4", b"page 1", 1)
    facts = told(message)
    assert facts == {
        "colour": "red",
        "message-id": "jobs:0",
        "group-id": facts["group-id"],
        "queue": "jobs",
        "offset": "0",
    }
    assert facts["group-id"].startswith("g")


def settle(worker: Client, verb: str, message: mqtt.MQTTMessage, **more: str) -> ReasonCode:
    facts = told(message)
    return worker.publish(
        f"$queue/jobs/${verb}", b"", message_id=facts["message-id"], group_id=facts["group-id"], **more
    )


def test_nack_brings_it_again_ack_and_reject_do_not(broker: BrokerProcess, worker: Client) -> None:
    for body in (b"a", b"b"):
        worker.publish("$queue/jobs/x", body)
    first, second = worker.next(), worker.next()
    assert not settle(worker, "nack", first).is_failure
    again = worker.next()
    assert (again.payload, told(again)["delivery-count"]) == (b"a", "2")
    assert not settle(worker, "ack", again).is_failure
    assert not settle(worker, "reject", second).is_failure
    assert worker.is_quiet()
    channel = open_channel(broker)
    reader = channel.basic_consume("$queue/jobs", lambda *_: None, arguments={"x-consumer-group": "g"})
    assert reader
    assert channel.queue_declare("jobs", durable=True, passive=True).method.consumer_count == 2


@pytest.mark.parametrize(
    ("message_id", "group"), [("jobs:99", "g"), ("jobs:x", "g"), ("other:0", "g"), ("jobs:0", "nobody"), ("", "g")]
)
def test_a_settlement_of_nothing_is_refused(broker: BrokerProcess, worker: Client, message_id: str, group: str) -> None:
    worker.publish("$queue/jobs/x", b"a")
    message = worker.next()
    assert worker.publish("$queue/jobs/$ack", message_id=message_id, group_id=group).is_failure
    assert not settle(worker, "ack", message).is_failure


def test_what_a_lost_worker_held_goes_to_the_next(broker: BrokerProcess, worker: Client) -> None:
    worker.publish("$queue/jobs/x", b"a")
    worker.next()
    with client(broker, "heir") as heir:
        heir.subscribe("$queue/jobs/#", consumer_group="g")
        assert heir.is_quiet()
        worker.client.disconnect()
        message = heir.next()
        assert (message.payload, told(message)["delivery-count"]) == (b"a", "2")


def test_a_client_of_3_1_1_settles_by_puback(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("jobs", durable=True)
    with client(broker, "crew-1", V311) as old:
        old.subscribe("$queue/jobs/#")
        for body in (b"a", b"b"):
            old.publish("$queue/jobs/x", body)
        assert [old.next().payload, old.next().payload] == [b"a", b"b"]
        old.publish("$queue/jobs/x", b"c")  # confirmed behind the settlements of the first two
        assert old.next().payload == b"c"
        old.publish("$queue/jobs/x", b"d")
        assert old.next().payload == b"d"
    with client(broker, "crew-2", V311) as other:
        other.subscribe("$queue/jobs/#")  # the same group: the client identifier up to the first '-'
        assert other.is_quiet()


def test_a_queue_is_not_subscribed_to_at_qos_0(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("jobs", durable=True)
    with client(broker, "c") as made:
        assert made.subscribe("$queue/jobs/#", qos=0).is_failure


def test_a_stream_is_read_from_where_the_client_asks(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("history", durable=True, arguments={"x-queue-type": "stream"})
    with client(broker, "c") as made:
        for number in range(5):
            made.publish("$queue/history/x", b"%d" % number)
        assert not made.subscribe("$queue/history/#", consumer_group="g", stream_offset="offset=2").is_failure
        found = [made.next() for _ in range(3)]
        assert [each.payload for each in found] == [b"2", b"3", b"4"]
        assert all(abs(int(told(each)["stream-timestamp"]) / 1000 - time.time()) < 60 for each in found)
    with client(broker, "d") as made:
        assert made.subscribe("$queue/history/#", consumer_group="h", stream_offset="middle").is_failure


def test_a_new_group_reads_a_stream_from_its_beginning(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("history", durable=True, arguments={"x-queue-type": "stream"})
    with client(broker, "c") as made:
        for number in range(3):
            made.publish("$queue/history/x", b"%d" % number)
        assert not made.subscribe("$queue/history/#", consumer_group="g").is_failure
        assert [made.next().payload for _ in range(3)] == [b"0", b"1", b"2"]
        with client(broker, "d") as other, client(broker, "crew-1", V311) as old, client(broker, "e") as alone:
            assert not other.subscribe("$queue/history/#", consumer_group="h", stream_offset="next").is_failure
            assert not alone.subscribe("$queue/history/#").is_failure
            assert not old.subscribe("$queue/history/#").is_failure  # its group is `crew`, whether it wants or not
            made.publish("$queue/history/x", b"3")
            assert [reader.next().payload for reader in (made, other, alone)] == [b"3"] * 3
            assert [old.next().payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]


def test_a_publish_that_nobody_wants_is_told(broker: BrokerProcess) -> None:
    with client(broker, "c") as made:
        assert made.publish("nobody/listens", b"x") == ReasonCode(PacketTypes.PUBACK, "No matching subscribers")


def test_a_reader_of_a_stream_is_told_how_far_its_primary_group_is(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    stream = {"x-queue-type": "stream", "x-primary-group": "workers"}
    channel.queue_declare("s", durable=True, arguments=stream)
    with client(broker, "worker-1") as worker, client(broker, "reader-1") as reader:
        for body in (b"0", b"1"):
            assert not worker.publish("$queue/s", body).is_failure
        assert not worker.subscribe("$queue/s", consumer_group="workers").is_failure
        assert [worker.next().payload for _ in range(2)] == [b"0", b"1"]
        named = {"message_id": "s:1", "group_id": "workers"}
        assert not worker.publish("$queue/s/$ack", **named).is_failure  # type: ignore[arg-type]
        assert not reader.subscribe("$queue/s", consumer_group="readers", stream_offset="first").is_failure
        for offset, acked in (("0", "false"), ("1", "true")):
            facts = told(reader.next())
            assert (facts["offset"], facts["work-acked"]) == (offset, acked)
            assert (facts["work-group"], facts["work-committed-offset"]) == ("workers", "0")
            assert facts["stream-timestamp"].isdigit()
