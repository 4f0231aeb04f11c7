"""Queues that nobody declares: made by the first use of `$queue/<name>` (docs/reference/queues.md)."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import V5, V311, Raw, connect, connected, publish, subscribe, user
from tests.waiting import until

VERSIONS = pytest.mark.parametrize("version", [V311, V5])
NOT_AUTHORIZED = 0x87
QUOTA_EXCEEDED = 0x97
REASON = 0x1F  # the property of a reason string
ADA = {"user": "ada", "vhost": "/", "configure": "^mine", "write": ".*", "read": ".*"}


def take(broker: BrokerProcess, queue: str, count: int) -> list[bytes]:
    """The messages of a queue, which must be these many."""
    channel = open_channel(broker)
    found: list[bytes] = []

    def is_all() -> bool:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append(body)
        return len(found) == count

    until(is_all, lambda: f"{found} of {count} in {queue}")
    assert channel.basic_get(queue)[0] is None
    return found


def ada(broker: BrokerProcess, version: int) -> Raw:
    raw = Raw(broker, version)
    raw.send(connect(f"ada {version}", version, login=("ada", "a")))
    raw.connack()
    return raw


def publish_refused(raw: Raw, topic: str) -> tuple[int, str]:
    """Code and reason of the PUBACK of a publish."""
    raw.send(publish(topic, b"x", 1, 1, raw.version))
    rest = raw.expect(0x40)
    return rest[2], rest[rest.index(bytes([REASON])) + 3 :].decode()


@VERSIONS
def test_the_first_publish_makes_a_durable_queue_of_that_name(broker: BrokerProcess, version: int) -> None:
    raw = connected(broker, "publisher", version)
    bodies = [b"%d" % number for number in range(3)]
    assert [raw.publish("$queue/later/k", body) for body in bodies] == [0, 0, 0]
    broker.kill9()
    broker.start()
    reader = connected(broker, "reader-1", version)
    reader.subscribe("$queue/later/#")
    found = [reader.delivery() for _ in bodies]
    assert [each.body for each in found] == bodies
    assert {each.topic for each in found} == {"$queue/later/k"}


@VERSIONS
def test_a_queue_made_by_subscribing_survives_kill_9_with_what_was_acknowledged(
    broker: BrokerProcess, version: int
) -> None:
    reader = connected(broker, "reader-1", version)
    reader.subscribe("$queue/made/#")
    reader.vanish()
    raw = connected(broker, "publisher", version)
    assert raw.publish("$queue/made", b"kept") == 0
    broker.kill9()
    broker.start()
    assert take(broker, "made", 1) == [b"kept"]


def test_amqp_makes_it_by_its_address_too(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.basic_publish("", "$queue/a/k", b"1", mandatory=True)
    channel.basic_consume("$queue/b", lambda *_: None)
    assert channel.queue_declare("a", passive=True).method.message_count == 1
    channel.queue_declare("b", durable=True)  # as it is


def test_a_delayed_publish_makes_it_at_once(broker: BrokerProcess) -> None:
    raw = connected(broker, "publisher")
    assert raw.publish("$delayed/0/$queue/soon/k", b"x") == 0
    assert take(broker, "soon", 1) == [b"x"]


def test_who_may_not_configure_it_is_refused_with_the_reason(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(users={"guest": "guest", "ada": "a"}, permissions=[ADA])
    wanted = "configure access to queue '{}', which is not there, in vhost '/' refused for user 'ada'"
    raw = ada(broker, V5)
    for topic in ("$queue/other/k", "$delayed/9/$queue/other/k"):
        assert publish_refused(raw, topic) == (NOT_AUTHORIZED, wanted.format("other"))
    raw.send(subscribe(1, ("$queue/other/#", 1)))
    assert raw.granted() == [NOT_AUTHORIZED]
    assert raw.publish("$queue/mine/k", b"1") == 0
    old = ada(broker, V311)
    old.send(subscribe(1, ("$queue/other/#", 1), version=V311))
    assert old.granted() == [0x80]
    assert old.publish("$queue/other/k", b"lost") == 0  # version 3.1.1 has no way to say no
    login = pika.PlainCredentials("ada", "a")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "/", login)) as connection:
        works: list[Callable[[BlockingChannel], object]] = [
            lambda channel: channel.basic_consume("$queue/other", lambda *_: None),
            lambda channel: channel.basic_publish("", "$queue/other", b"x"),
        ]
        for work in works:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(ChannelClosedByBroker) as refused:
                work(channel)
            assert refused.value.args == (403, f"ACCESS_REFUSED - {wanted.format('other')}")
    open_channel(broker).queue_declare("other", durable=True)
    assert raw.publish("$queue/other/k", b"2") == 0
    assert (take(broker, "mine", 1), take(broker, "other", 1)) == ([b"1"], [b"2"])


def test_there_are_so_many_of_them_at_most(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(address_queues_max=2)
    open_channel(broker).queue_declare("declared", durable=True)  # which does not count
    raw = connected(broker, "publisher")
    assert [raw.publish(f"$queue/{name}", b"x") for name in "ab"] == [0, 0]
    broker.kill9()
    broker.start()
    raw = connected(broker, "publisher")
    wanted = "queue 'c' in vhost '/' cannot be made: 2 were made by their addresses, address_queues_max"
    assert publish_refused(raw, "$queue/c/k") == (QUOTA_EXCEEDED, wanted)
    raw.send(subscribe(1, ("$queue/c/#", 1)))
    assert raw.granted() == [QUOTA_EXCEEDED]
    old = connected(broker, "old", V311)
    old.send(publish("$queue/c/k", b"x", 1, 1, V311))
    assert old.ended()  # without a PUBACK: nothing that is acknowledged is lost
    open_channel(broker).queue_delete("a")
    assert raw.publish("$queue/c/k", b"x") == 0


def test_none_is_made_where_the_option_says_so(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(address_queues="refuse")
    raw = connected(broker, "publisher")
    code, reason = publish_refused(raw, "$queue/c/k")
    assert (code, reason) == (0x83, "no queue 'c' in vhost '/', and address_queues is refuse")
    raw.send(subscribe(1, ("$queue/c/#", 1), properties=user("consumer-group", "g")))
    assert raw.granted() == [0x8F]
    open_channel(broker).queue_declare("c", durable=True)
    assert raw.publish("$queue/c/k", b"x") == 0


def test_one_in_memory_is_made_where_the_option_says_so(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(address_queues="memory")
    raw = connected(broker, "publisher")
    assert raw.publish("$queue/c/k", b"x") == 0
    assert take(broker, "c", 1) == [b"x"]
    broker.kill9()
    broker.start()
    with pytest.raises(ChannelClosedByBroker):
        open_channel(broker).queue_declare("c", passive=True)


def test_the_reserved_queue_is_one_that_is_configured(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(queues=[{"name": "mqtt", "reserved": True}])
    raw = connected(broker, "publisher")
    assert raw.publish("$queue/nobody/has/it", b"rest") == 0
    assert take(broker, "mqtt", 1) == [b"rest"]
    broker.stop()
    broker.options = {}
    broker.start()
    assert connected(broker, "publisher").publish("$queue/nobody/has/it", b"own") == 0
    assert take(broker, "nobody", 1) == [b"own"]
