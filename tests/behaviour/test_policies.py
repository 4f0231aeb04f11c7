"""Policies on a running broker: set by administrators, felt by clients that know nothing of them."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from tests.broker_process import BrokerProcess
from tests.waiting import until

QUEUE_TYPES = ["classic", "quorum"]


@pytest.fixture
def control(broker: BrokerProcess) -> Iterator[ControlClient]:
    with administrator(broker) as client:
        yield client


def administrator(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def open_channel(broker: BrokerProcess, vhost: str = "/") -> BlockingChannel:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, vhost))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def declare(channel: BlockingChannel, name: str, queue_type: str = "classic", **arguments: object) -> None:
    typed = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": queue_type, **typed})


def ready(channel: BlockingChannel, name: str) -> int:
    count = channel.queue_declare(name, passive=True).method.message_count
    assert isinstance(count, int)
    return count


def publish(channel: BlockingChannel, name: str, *bodies: bytes) -> int:
    """How many were confirmed."""
    taken = 0
    for body in bodies:
        try:
            channel.basic_publish("", name, body)
            taken += 1
        except pika.exceptions.NackError:
            pass
    return taken


def bodies_of(channel: BlockingChannel, name: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            return found
        found.append(body)


@pytest.mark.parametrize("queue_type", QUEUE_TYPES)
def test_a_length_limit_comes_and_goes_while_the_queue_is_used(
    broker: BrokerProcess, control: ControlClient, queue_type: str
) -> None:
    channel = open_channel(broker)
    declare(channel, "q", queue_type)
    assert publish(channel, "q", b"1", b"2", b"3", b"4") == 4
    control.run("policy.set", policy="short", pattern="^q$", definition={"max-length": 2})
    until(lambda: ready(channel, "q") == 2)  # what is too much goes at once, without a publish
    publish(channel, "q", b"5")
    assert bodies_of(channel, "q") == [b"4", b"5"]

    control.run("policy.set", policy="short", pattern="^q$", definition={"max-length": 2, "overflow": "reject-publish"})
    assert publish(channel, "q", b"6", b"7", b"8") == 2
    control.run("policy.clear", policy="short")
    assert publish(channel, "q", b"9") == 1
    assert bodies_of(channel, "q") == [b"6", b"7", b"9"]


@pytest.mark.parametrize("queue_type", QUEUE_TYPES)
def test_messages_that_come_expire_by_a_policy_and_go_where_it_says(
    broker: BrokerProcess, control: ControlClient, queue_type: str
) -> None:
    channel = open_channel(broker)
    declare(channel, "q", queue_type)
    declare(channel, "dead", queue_type)
    publish(channel, "q", b"before")
    definition = {"message-ttl": 1, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    control.run("policy.set", policy="p", pattern="^q$", definition=definition)
    publish(channel, "q", b"1", b"2")
    assert channel.basic_get("q", auto_ack=True)[2] == b"before", "what waits is not the policy's"
    until(lambda: ready(channel, "dead") == 2)
    assert ready(channel, "q") == 0
    assert bodies_of(channel, "dead") == [b"1", b"2"]


def test_a_delivery_limit_comes_by_a_policy(broker: BrokerProcess, control: ControlClient) -> None:
    channel = open_channel(broker)
    declare(channel, "q")
    control.run("policy.set", policy="p", pattern="^q$", definition={"delivery-limit": 1})
    publish(channel, "q", b"1")
    failures = 0
    while True:
        method, _, _ = channel.basic_get("q")
        if method is None:
            break
        channel.basic_reject(method.delivery_tag, requeue=True)
        failures += 1
    assert failures == 2  # the second failure is beyond the limit


def test_an_unused_queue_goes_by_a_policy(broker: BrokerProcess, control: ControlClient) -> None:
    declare(open_channel(broker), "q")
    control.run("policy.set", policy="p", pattern="^q$", definition={"expires": 1})

    # To list queues is no use of them, as asking for one would be.
    until(lambda: "q" not in {each["queue"] for each in control.items("queue.list")})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        open_channel(broker).queue_declare("q", passive=True)


def test_an_alternate_exchange_comes_by_a_policy(broker: BrokerProcess, control: ControlClient) -> None:
    channel = open_channel(broker)
    channel.exchange_declare("x", "direct", durable=True)
    declare(channel, "rest")
    channel.queue_bind("rest", "amq.fanout")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("x", "nowhere", b"1", mandatory=True)
    control.run("policy.set", policy="ae", pattern="^x$", definition={"alternate-exchange": "amq.fanout"})
    channel.basic_publish("x", "nowhere", b"2", mandatory=True)
    control.run("policy.clear", policy="ae")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("x", "nowhere", b"3", mandatory=True)
    assert bodies_of(channel, "rest") == [b"2"]


def test_an_operators_policy_limits_what_a_declaration_asks_for(broker: BrokerProcess, control: ControlClient) -> None:
    channel = open_channel(broker)
    declare(channel, "q", max_length=4, overflow="reject-publish")
    control.run("operator_policy.set", policy="ops", pattern="^q$", definition={"max-length": 2})
    assert publish(channel, "q", b"1", b"2", b"3") == 2
    control.run("operator_policy.set", policy="ops", pattern="^q$", definition={"max-length": 9})
    assert publish(channel, "q", b"3", b"4", b"5") == 2
    shown = control.run("queue.show", queue="q")
    assert (shown["policy"], shown["operator_policy"]) == (None, "ops")
    control.run("operator_policy.clear", policy="ops")
    assert [policy["policy"] for policy in control.items("operator_policy.list")] == []


def test_policies_are_of_one_vhost_and_outlive_a_kill(broker: BrokerProcess, control: ControlClient) -> None:
    control.run("vhost.add", vhost="other")
    fields: dict[str, object] = {
        "policy": "p",
        "pattern": "^q",
        "definition": {"max-length": 1, "overflow": "reject-publish"},
        "priority": 3,
        "apply_to": "classic_queues",
    }
    control.run("policy.set", vhost="other", **fields)
    control.run("policy.set", policy="gone", pattern="^q", definition={"max-length": 0})
    control.run("policy.clear", policy="gone")
    for name in ("/", "other"):
        declare(open_channel(broker, name), "q")
    broker.kill9()
    broker.start()
    with administrator(broker) as again:
        assert list(again.items("policy.list")) == []
        assert list(again.items("policy.list", vhost="other")) == [fields]
    assert publish(open_channel(broker), "q", b"1", b"2") == 2
    other = open_channel(broker, "other")
    assert publish(other, "q", b"1", b"2") == 1
    declare(other, "q2")
    assert publish(other, "q2", b"1", b"2") == 1


def test_what_makes_no_sense_is_refused_by_name_and_value(control: ControlClient) -> None:
    for arguments, reason, text in (
        ({"pattern": "[", "definition": {"max-length": 1}}, INVALID, "pattern: '\\['"),
        ({"pattern": "", "definition": {"max-length": "x"}}, INVALID, "max-length: 'x' is not a valid maximum length"),
        ({"pattern": "", "definition": {"ha-mode": "all"}}, INVALID, "'ha-mode' .* is not recognised"),
        ({"pattern": "", "definition": {}}, INVALID, "definition: {}"),
    ):
        with pytest.raises(RequestError, match=text) as caught:
            control.run("policy.set", policy="p", **arguments)
        assert caught.value.reason == reason
    with pytest.raises(RequestError, match="no policy 'p'") as caught:
        control.run("policy.clear", policy="p")
    assert caught.value.reason == NOT_FOUND
    assert list(control.items("policy.list")) == []
