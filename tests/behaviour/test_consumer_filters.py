"""Consumers that want only what a filter says, over every kind of queue, by AMQP and MQTT."""

from __future__ import annotations

import json
import time

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from tests.behaviour.kinds import CLASSIC, EPHEMERAL, KINDS, NAME, QUORUM, STREAM, Kind, broker, open_channel, take_all
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client
from tests.waiting import until

__all__ = ["broker"]

WAIT_S = 30


@pytest.fixture
def channel(broker: BrokerProcess) -> BlockingChannel:
    return open_channel(broker)


def order_of(number: int, **more: object) -> bytes:
    """An order of a symbol, three in turn; 60 octets or so."""
    return json.dumps({"n": number, "order": {"symbol": ("IBM", "AAPL", "SAP")[number % 3]}, **more}).encode()


def publish(channel: BlockingChannel, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        channel.basic_publish("", f"$queue/{NAME}", order_of(number))


class Wants:
    """A consumer with a filter, on a connection of its own; what it has got, by number."""

    def __init__(
        self, broker: BrokerProcess, text: str = "", prefetch: int = 100, address: str = NAME, **arguments: object
    ) -> None:
        self.channel = open_channel(broker)
        self.channel.basic_qos(prefetch_count=prefetch)
        given: dict[str, object] = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        if text:
            given["x-filter"] = text
        self.got: list[int] = []
        self.tags: list[int] = []
        self.channel.basic_consume(address, self.take, arguments=given)

    def take(self, _channel: object, method: pika.spec.Basic.Deliver, _properties: object, body: bytes) -> None:
        self.got.append(json.loads(body)["n"])
        self.tags.append(method.delivery_tag)

    def wait(self, count: int) -> list[int]:
        """Until so many came, and those that should not would have."""
        deadline = time.monotonic() + WAIT_S
        while len(self.got) < count and time.monotonic() < deadline:
            self.channel.connection.process_data_events(0.05)
        take_all(self.channel)
        return self.got

    def ack_all(self) -> None:
        for tag in self.tags:
            self.channel.basic_ack(tag)
        self.tags.clear()
        self.channel.connection.process_data_events(0.05)

    def leave(self) -> None:
        self.channel.connection.close()


def first_of(kind: Kind, broker: BrokerProcess, text: str, prefetch: int = 100) -> Wants:
    """A consumer of this kind of queue that gets what was published before."""
    if kind is STREAM:
        return Wants(broker, text, prefetch, stream_offset="first")
    return Wants(broker, text, prefetch)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_gets_what_its_filter_wants(broker: BrokerProcess, channel: BlockingChannel, kind: Kind) -> None:
    kind.declare(channel)
    publish(channel, 30)
    ibm = first_of(kind, broker, "/order/symbol = 'IBM'", prefetch=4)
    assert ibm.wait(4) == [0, 3, 6, 9]
    ibm.ack_all()
    assert ibm.wait(8)[4:] == [12, 15, 18, 21]
    apple = first_of(kind, broker, "/order/symbol = 'AAPL' AND /n > 20")
    assert apple.wait(3) == [22, 25, 28]
    publish(channel, 6, 30)
    assert apple.wait(5)[3:] == [31, 34]
    if kind is STREAM:
        return
    rest = Wants(broker)
    left = set(range(36)) - set(ibm.got) - set(apple.got)
    assert rest.wait(len(left)) == sorted(left)
    ibm.leave()  # what it held returns, and is somebody else's in its place
    assert rest.wait(len(left) + 4)[len(left) :] == [12, 15, 18, 21]


@pytest.mark.parametrize("kind", [CLASSIC, QUORUM, EPHEMERAL], ids=lambda kind: kind.name)
def test_nothing_is_settled_because_nobody_here_wants_it(
    broker: BrokerProcess, channel: BlockingChannel, kind: Kind
) -> None:
    kind.declare(channel)
    publish(channel, 10)
    nobody = Wants(broker, "/order/symbol = 'none'")
    assert nobody.wait(0) == []
    assert channel.queue_declare(NAME, passive=True).method.message_count == 10
    method, _, body = channel.basic_get(NAME)
    assert json.loads(body)["n"] == 0
    channel.basic_nack(method.delivery_tag)
    everything = Wants(broker)
    assert everything.wait(10) == list(range(10))
    if kind.survives_restart:
        for wants in (nobody, everything):
            wants.leave()
        broker.kill9()
        broker.start()
        assert Wants(broker, "/n >= 4").wait(6) == [4, 5, 6, 7, 8, 9]


def test_a_group_keeps_what_its_consumers_do_not_want(broker: BrokerProcess, channel: BlockingChannel) -> None:
    CLASSIC.declare(channel)
    publish(channel, 9)
    one = Wants(broker, "/order/symbol = 'IBM'", consumer_group="one")
    two = Wants(broker, consumer_group="two")
    assert one.wait(3) == [0, 3, 6]
    assert two.wait(9) == list(range(9))
    one.ack_all()
    two.ack_all()
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        found = {group["group"]: group for group in control.items("group.list", queue=NAME)}
        assert (found["one"]["ready"], found["two"]["ready"]) == (6, 0)
        assert found["one"]["consumer_filters"] == ["/order/symbol = 'IBM'"]
        assert [each["filter"] for each in control.items("consumer.list")] == ["/order/symbol = 'IBM'", ""]


def declare(channel: BlockingChannel, **arguments: object) -> None:
    given = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    channel.queue_declare(NAME, durable=True, arguments=given)


def test_the_highest_priority_of_what_is_wanted_goes_first(broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel, max_priority=9)
    for number in range(40):
        properties = pika.BasicProperties(priority=number % 10)
        channel.basic_publish("", NAME, order_of(number), properties)
    reader = Wants(broker, "priority IN (3, 7) AND /n > 10", prefetch=1)
    while len(reader.wait(1)) < 6:
        reader.ack_all()
    assert reader.got == [17, 27, 37, 13, 23, 33]


def test_one_of_each_message_group_is_out_whoever_wants_it(broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel)
    for number in range(6):
        headers = {"x-group-id": ("odd", "even")[number % 2 == 0]}
        channel.basic_publish("", NAME, order_of(number), pika.BasicProperties(headers=headers))
    large = Wants(broker, "/n >= 2")
    small = Wants(broker, "/n < 2")
    assert small.wait(2) == [0, 1]
    assert large.wait(0) == []  # 0 and 1 are before its own, and out
    small.ack_all()
    assert large.wait(2) == [2, 3]
    large.ack_all()
    assert large.wait(4) == [2, 3, 4, 5]


def test_the_active_consumer_has_its_filter_and_the_others_wait(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    declare(channel, single_active_consumer=True)
    publish(channel, 6)
    active = Wants(broker, "/order/symbol = 'SAP'")
    waiting = Wants(broker)
    assert active.wait(2) == [2, 5]
    assert waiting.wait(0) == []
    active.ack_all()
    active.leave()
    assert waiting.wait(4) == [0, 1, 3, 4]


def test_what_nobody_wants_expires_and_dies_with_its_cause(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.queue_declare("dead")
    declare(channel, message_ttl=500, dead_letter_exchange="", dead_letter_routing_key="dead")
    reader = Wants(broker, "/order/symbol = 'IBM'")
    publish(channel, 3)
    assert reader.wait(1) == [0]
    dead = Wants(broker, "death_reason = 'expired' AND death_queue = 'q'", address="dead")
    assert dead.wait(2) == [1, 2]
    reader.channel.basic_reject(reader.tags[0], requeue=False)
    rejected = Wants(broker, "death_reason = 'rejected'", address="dead")
    assert rejected.wait(1) == [0]


def test_the_oldest_go_first_from_a_full_queue_whoever_wants_them(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    declare(channel, max_length=4)
    reader = Wants(broker, "/order/symbol = 'IBM'")
    publish(channel, 12)
    assert reader.wait(4) == [0, 3, 6, 9]
    assert Wants(broker).wait(4) == [7, 8, 10, 11]


def test_what_is_returned_is_in_its_place_again(broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel)
    publish(channel, 9)
    reader = Wants(broker, "/order/symbol = 'IBM' AND deliveries < 2", prefetch=2)
    assert reader.wait(2) == [0, 3]
    reader.channel.basic_nack(reader.tags[0])
    assert reader.wait(3) == [0, 3, 0]
    retries = Wants(broker, "deliveries >= 2")
    assert retries.wait(0) == []
    reader.channel.basic_nack(reader.tags[2])
    assert retries.wait(1) == [0]
    assert reader.wait(4)[3:] == [6]
    everything = Wants(broker, prefetch=3)
    assert everything.wait(3) == [1, 2, 4]


def test_without_acknowledgements_everything_wanted_comes_at_once(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    declare(channel)
    publish(channel, 30)
    got: list[int] = []
    open_channel(broker)
    channel.basic_consume(
        NAME, lambda *given: got.append(json.loads(given[3])["n"]), auto_ack=True, arguments={"x-filter": "/n % 2 = 1"}
    )
    deadline = time.monotonic() + WAIT_S
    while len(got) < 15 and time.monotonic() < deadline:
        channel.connection.process_data_events(0.05)
    assert got == list(range(1, 30, 2))
    assert channel.queue_declare(NAME, passive=True).method.message_count == 15


def test_headers_properties_and_keys_can_be_asked_for(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.exchange_declare("news", "topic")
    declare(channel)
    channel.queue_bind(NAME, "news", "#")
    for number in range(8):
        properties = pika.BasicProperties(
            headers={"region": ("eu", "us")[number % 2]}, type="tick", correlation_id=str(number)
        )
        channel.basic_publish("news", f"stock.{number % 4}", order_of(number), properties)
    assert Wants(broker, "header.region = 'eu' AND routing_key LIKE '[.]2$'").wait(2) == [2, 6]
    assert Wants(broker, "type = 'tick' AND correlation_id > 5 AND exchange = 'news'").wait(1) == [7]
    assert Wants(broker, "topic = 'stock/1'").wait(2) == [1, 5]


REFUSED = [
    ("/n > 5 AN /n < 9", "filter, position 8, 'AN': the filter is complete before it"),
    ("", "filter, position 1, the end: a value is due here"),
    ("/n = 1 OR " * 1000 + "/n = 2", "over 8192 characters"),
    ("age_ms > 5", "filter, 'age_ms': a consumer's filter looks at a message once"),
    (5, "x-filter: expected longstr, got signedint"),
]


def test_a_filter_that_is_none_is_refused(broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel)
    for given, said in REFUSED:
        asking = open_channel(broker)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            asking.basic_consume(NAME, lambda *_: None, arguments={"x-filter": given})
        assert caught.value.reply_code == 406
        assert said in caught.value.reply_text
    assert channel.queue_declare(NAME, passive=True).method.consumer_count == 0


def test_readers_of_one_group_of_a_stream_have_one_filter(broker: BrokerProcess, channel: BlockingChannel) -> None:
    STREAM.declare(channel)
    publish(channel, 12)
    first = Wants(broker, "/n > 5", consumer_group="g", stream_offset="first", prefetch=2)
    assert first.wait(2) == [6, 7]
    second = Wants(broker, "(/n>5)", consumer_group="g", prefetch=2)
    assert second.wait(2) == [8, 9]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="reads with another filter"):
        Wants(broker, "/n > 4", consumer_group="g")
    values = Wants(broker, "/n > 4", stream_offset="first", stream_filter="none", stream_match_unfiltered=True)
    assert values.wait(7) == [5, 6, 7, 8, 9, 10, 11]


# ---- MQTT


def test_an_mqtt_consumer_says_its_filter_by_a_user_property(broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel)
    publish(channel, 9)
    with client(broker, "ibm") as ibm, client(broker, "rest") as rest:
        assert not ibm.subscribe(f"$queue/{NAME}", filter="/order/symbol = 'IBM'").is_failure
        assert [json.loads(ibm.next().payload)["n"] for _ in range(3)] == [0, 3, 6]
        assert ibm.is_quiet()
        assert not rest.subscribe(f"$queue/{NAME}").is_failure
        assert [json.loads(rest.next().payload)["n"] for _ in range(6)] == [1, 2, 4, 5, 7, 8]


def wait_until_nothing_is_held(broker: BrokerProcess) -> None:
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        until(lambda: not list(control.items("lease.list")), "the end of all leases")


def test_members_of_a_share_have_filters_of_their_own(broker: BrokerProcess) -> None:
    with client(broker, "cold") as cold, client(broker, "warm") as warm, client(broker, "publisher") as publisher:
        assert not cold.subscribe("$share/g/rooms/+", filter="/celsius < 18").is_failure
        assert not warm.subscribe("$share/g/rooms/+", filter="/celsius >= 18").is_failure
        for number in range(12):
            publisher.publish(f"rooms/{number}", b'{"celsius": %d}' % (12 + number))
        assert [warm.next().topic for _ in range(6)] == [f"rooms/{number}" for number in range(6, 12)]
        assert [cold.next().topic for _ in range(6)] == [f"rooms/{number}" for number in range(6)]
        wait_until_nothing_is_held(broker)  # else what is not acknowledged yet goes to somebody else
        assert not cold.subscribe("$share/g/rooms/+", filter="/celsius > 100").is_failure
        publisher.publish("rooms/1", b'{"celsius": 1}')
        assert cold.is_quiet()
        assert not warm.subscribe("$share/g/rooms/+").is_failure
        assert warm.next().payload == b'{"celsius": 1}'


def test_a_durable_session_keeps_the_filter_of_its_subscription(
    broker: BrokerProcess, channel: BlockingChannel
) -> None:
    declare(channel)
    with client(broker, "kept", expiry_s=1000) as kept:
        assert not kept.subscribe(f"$queue/{NAME}", filter="/n IN (2, 4)").is_failure
        assert not kept.subscribe("$share/g/t", filter="/n = 5").is_failure
    publish(channel, 6)
    broker.kill9()
    broker.start()
    with client(broker, "kept", expiry_s=1000) as kept, client(broker, "publisher") as publisher:
        assert [json.loads(kept.next().payload)["n"] for _ in range(2)] == [2, 4]
        publisher.publish("t", b'{"n": 4}')
        publisher.publish("t", b'{"n": 5}')
        assert kept.next().payload == b'{"n": 5}'
        assert kept.is_quiet()


def test_dead_letters_of_one_cause_over_mqtt(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.queue_declare("$dlq/q", durable=True)
    declare(channel, dead_letter_exchange="", dead_letter_routing_key="$dlq/q", max_length=3)
    publish(channel, 4)
    method, _, _ = channel.basic_get(NAME)
    channel.basic_reject(method.delivery_tag, requeue=False)
    with client(broker, "reader") as reader:
        assert not reader.subscribe(f"$dlq/{NAME}", filter="death_reason = 'rejected'").is_failure
        assert json.loads(reader.next().payload)["n"] == 1
        assert reader.is_quiet()


def test_a_filter_that_is_none_is_refused_over_mqtt(broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel)
    with client(broker, "reader") as reader:
        for address in (f"$queue/{NAME}", "$share/g/t"):
            code = reader.subscribe(address, filter="/n >> 5")
            assert (code.value, code.getName()) == (0x8F, "Topic filter invalid")
            assert not reader.subscribe(address, filter="/n > 5").is_failure
        assert reader.subscribe("rooms/#", filter="/n > 5").value == 0x83
