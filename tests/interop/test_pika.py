"""pika, as people use it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess

WAIT_S = 20


def connect(broker: BrokerProcess, password: str = "guest") -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", broker.amqp_port, credentials=pika.PlainCredentials("guest", password), heartbeat=30
        )
    )


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    """A confirming channel of a connection of its own."""
    connection = connect(broker)
    opened = connection.channel()
    opened.confirm_delivery()
    yield opened
    if connection.is_open:
        connection.close()


def take(channel: BlockingChannel, queue: str, count: int, **arguments: object) -> list[tuple[object, object, bytes]]:
    """The next messages of a queue, acknowledged."""
    found: list[tuple[object, object, bytes]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=WAIT_S, arguments=arguments or None):
        assert method is not None, f"only {len(found)} of {count} messages came"
        found.append((method, properties, body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_hello(channel: BlockingChannel) -> None:
    channel.queue_declare("hello", durable=True)
    channel.basic_publish("", "hello", b"Hello World!")
    assert [body for _, _, body in take(channel, "hello", 1)] == [b"Hello World!"]
    assert channel.queue_declare("hello", passive=True).method.message_count == 0


def test_a_wrong_password(broker: BrokerProcess) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, "wrong")


def test_all_properties_come_back(channel: BlockingChannel) -> None:
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={"text": "é", "number": 5, "big": 1 << 40, "yes": True, "list": [1, "a"], "table": {"k": None}},
        delivery_mode=2,
        priority=3,
        correlation_id="corr",
        reply_to="answers",
        expiration="60000",
        message_id="id",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="app",
    )
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x", sent)
    _, got, _ = channel.basic_get("q", auto_ack=True)
    assert vars(got) == vars(sent)


def test_messages_of_every_size(channel: BlockingChannel) -> None:
    sizes = [0, 1, 131_064, 131_065, 300_000, 5_000_000]
    channel.queue_declare("q", durable=True)
    for size in sizes:
        channel.basic_publish("", "q", bytes([size % 251]) * size)
    found = take(channel, "q", len(sizes))
    assert [(len(body), body[:1]) for _, _, body in found] == [(n, bytes([n % 251]) if n else b"") for n in sizes]


def test_order_and_prefetch(channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    for index in range(1000):
        channel.basic_publish("", "q", b"%d" % index)
    channel.basic_qos(prefetch_count=7)
    assert [body for _, _, body in take(channel, "q", 1000)] == [b"%d" % index for index in range(1000)]


def test_what_cannot_be_routed(channel: BlockingChannel) -> None:
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        channel.basic_publish("amq.direct", "nowhere", b"x", mandatory=True)
    assert [message.body for message in caught.value.messages] == [b"x"]
    channel.basic_publish("amq.direct", "nowhere", b"x")  # confirmed and gone


def test_an_unacknowledged_message_comes_again(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"x")
    other = connect(broker)
    method, properties, _ = other.channel().basic_get("q")
    assert not method.redelivered
    assert properties.headers is None
    other.close()
    method, properties, body = take(channel, "q", 1)[0]
    assert (method.redelivered, body) == (True, b"x")  # type: ignore[attr-defined]
    assert properties.headers is None  # type: ignore[attr-defined]


def test_a_consumer_is_told_that_its_queue_is_gone(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    gone: list[str] = []
    channel.add_on_cancel_callback(lambda frame: gone.append(frame.method.consumer_tag))
    tag = channel.basic_consume("q", lambda *_: None)
    other = connect(broker)
    other.channel().queue_delete("q")
    other.close()
    deadline = time.monotonic() + WAIT_S
    while not gone and time.monotonic() < deadline:
        channel.connection.process_data_events(0.1)
    assert gone == [tag]


def test_an_error_names_what_was_wrong(broker: BrokerProcess) -> None:
    connection = connect(broker)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        connection.channel().queue_declare("missing", passive=True)
    assert (caught.value.reply_code, caught.value.reply_text) == (404, "NOT_FOUND - no queue 'missing' in vhost '/'")
    assert connection.channel().is_open
    connection.close()


def test_a_stream_is_read_twice(channel: BlockingChannel) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    for index in range(20):
        channel.basic_publish("", "s", b"%d" % index)
    channel.basic_qos(prefetch_count=50)
    for start in ("first", 5):
        found = take(channel, "s", 20 if start == "first" else 15, **{"x-stream-offset": start})
        offsets = [properties.headers["x-stream-offset"] for _, properties, _ in found]  # type: ignore[attr-defined]
        assert [b"%d" % offset for offset in offsets] == [body for _, _, body in found]


def test_two_workers_share_and_two_groups_do_not(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    seen: dict[str, list[bytes]] = {"a1": [], "a2": [], "b": []}
    channel.basic_qos(prefetch_count=5)
    for name, bodies in seen.items():
        channel.basic_consume(
            "q",
            lambda ch, method, _, body, bodies=bodies: (bodies.append(body), ch.basic_ack(method.delivery_tag)),
            arguments={"x-consumer-group": name[0]},
        )
    other = connect(broker)
    publisher = other.channel()
    for index in range(100):
        publisher.basic_publish("", "q", b"%d" % index)
    deadline = time.monotonic() + WAIT_S
    while sum(map(len, seen.values())) < 200 and time.monotonic() < deadline:
        channel.connection.process_data_events(0.1)
    other.close()
    everything = sorted(b"%d" % index for index in range(100))
    assert sorted(seen["b"]) == sorted(seen["a1"] + seen["a2"]) == everything
    assert seen["a1"]
    assert seen["a2"]


def test_direct_reply_to(broker: BrokerProcess, channel: BlockingChannel) -> None:
    """The way of pika's own example: one channel asks and waits, another connection serves."""
    server = connect(broker).channel()
    server.queue_declare("requests")
    answers: list[tuple[str | None, bytes]] = []
    channel.basic_consume(
        "amq.rabbitmq.reply-to", lambda *got: answers.append((got[2].correlation_id, got[3])), auto_ack=True
    )
    for number in range(3):
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
        channel.basic_publish("", "requests", b"%d" % number, properties)
        _, asked, body = take(server, "requests", 1)[0]
        answer = pika.BasicProperties(correlation_id=asked.correlation_id)  # type: ignore[attr-defined]
        server.basic_publish("", asked.reply_to, body * 2, answer)  # type: ignore[attr-defined]
        deadline = time.monotonic() + WAIT_S
        while len(answers) <= number:
            assert time.monotonic() < deadline, "no answer came"
            channel.connection.process_data_events(time_limit=0.1)
    assert answers == [("0", b"00"), ("1", b"11"), ("2", b"22")]
    server.connection.close()


def test_a_transaction(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.queue_declare("from", durable=True)
    channel.queue_declare("to", durable=True)
    channel.basic_publish("", "from", b"x")
    worker = connect(broker).channel()
    worker.tx_select()
    method, _, body = worker.basic_get("from")
    worker.basic_publish("", "to", body)
    worker.basic_ack(method.delivery_tag)
    assert channel.queue_declare("to", passive=True).method.message_count == 0
    worker.tx_rollback()
    worker.basic_publish("", "to", body)
    worker.basic_ack(method.delivery_tag)
    worker.tx_commit()
    worker.connection.close()
    assert channel.basic_get("from")[0] is None
    assert [body for _, _, body in take(channel, "to", 1)] == [b"x"]


def test_copies_and_delays(channel: BlockingChannel) -> None:
    for queue in ("a", "b", "c"):
        channel.queue_declare(queue, durable=True)
    headers: dict[str, object] = {"CC": ["b"], "BCC": ["c"], "x-delay": 300}
    channel.basic_publish("", "a", b"x", pika.BasicProperties(headers=headers), mandatory=True)
    for queue in ("a", "b", "c"):
        _, properties, body = take(channel, queue, 1)[0]
        assert (properties.headers, body) == ({"CC": ["b"], "x-delay": -300}, b"x")  # type: ignore[attr-defined]
