"""kombu on py-amqp, as people use them: the transport of Celery, and a client of its own."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Iterator
from typing import Any

import kombu
import pytest
from kombu.mixins import ConsumerMixin

from tests.broker_process import BrokerProcess

WAIT_S = 20


def url(broker: BrokerProcess) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}//"


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[kombu.Connection]:
    """A connection whose publishes are confirmed."""
    with kombu.Connection(url(broker), transport_options={"confirm_publish": True}) as made:
        yield made


def take(connection: kombu.Connection, queue: kombu.Queue, count: int, **options: Any) -> list[Any]:
    """The next messages of a queue, acknowledged."""
    found: list[Any] = []

    def note(_body: object, message: Any) -> None:
        found.append(message)
        message.ack()

    with connection.Consumer(queue, callbacks=[note], **options):
        while len(found) < count:
            connection.drain_events(timeout=WAIT_S)
    return found


def test_producers_and_consumers(connection: kombu.Connection) -> None:
    media = kombu.Exchange("media", "direct", durable=True)
    video = kombu.Queue("video", exchange=media, routing_key="video")
    producer = connection.Producer(serializer="json")
    for number in range(50):
        producer.publish(
            {"name": f"{number}.mp4"}, exchange=media, routing_key="video", declare=[video], headers={"number": number}
        )
    found = take(connection, video, 50, prefetch_count=10)
    assert [message.payload["name"] for message in found] == [f"{number}.mp4" for number in range(50)]
    assert [message.headers["number"] for message in found] == list(range(50))
    assert {message.delivery_info["routing_key"] for message in found} == {"video"}


@pytest.mark.parametrize("compression", [None, "zlib", "bzip2"])
@pytest.mark.parametrize("serializer", ["json", "yaml", "pickle"])
def test_serializers_and_compression(connection: kombu.Connection, serializer: str, compression: str | None) -> None:
    body = {"numbers": list(range(1000)), "text": "é"}
    queue = kombu.Queue("q")
    connection.Producer().publish(
        body, routing_key="q", serializer=serializer, compression=compression, declare=[queue]
    )
    assert [message.payload for message in take(connection, queue, 1, accept=[serializer])] == [body]


def test_a_simple_queue(connection: kombu.Connection) -> None:
    with connection.SimpleQueue("simple") as queue:
        for number in range(10):
            queue.put({"number": number})
        assert queue.qsize() == 10
        queue.get(block=True, timeout=WAIT_S).requeue()
        found = [queue.get(block=True, timeout=WAIT_S) for _ in range(10)]
        # It holds the others already, so what was given back comes last.
        assert [message.payload["number"] for message in found] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
        assert [message.delivery_info["redelivered"] for message in found] == [False] * 9 + [True]
        for message in found:
            message.ack()
        with pytest.raises(queue.Empty):
            queue.get(block=False)


def test_priorities(connection: kombu.Connection) -> None:
    queue = kombu.Queue("q", max_priority=10)
    producer = connection.Producer()
    for priority in (1, 9, 5, 9):
        producer.publish(priority, routing_key="q", priority=priority, declare=[queue])
    assert [message.payload for message in take(connection, queue, 4, prefetch_count=1)] == [9, 9, 5, 1]


def test_dead_letters(connection: kombu.Connection) -> None:
    dead = kombu.Queue("dead", exchange=kombu.Exchange("dlx", "fanout"))
    queue = kombu.Queue("q", queue_arguments={"x-dead-letter-exchange": "dlx"}, message_ttl=60.0, max_length=100)
    connection.Producer().publish("x", routing_key="q", declare=[dead, queue])
    with connection.Consumer(queue, callbacks=[lambda _body, message: message.reject()]):
        connection.drain_events(timeout=WAIT_S)
    (found,) = take(connection, dead, 1)
    assert (found.payload, found.headers["x-death"][0]["reason"]) == ("x", "rejected")


def test_what_nobody_takes_comes_back(connection: kombu.Connection) -> None:
    returned: list[tuple[int, str]] = []
    producer = connection.Producer(
        on_return=lambda error, exchange, key, message: returned.append((error.reply_code, key))
    )
    producer.publish("x", routing_key="nowhere", mandatory=True)
    assert returned == [(312, "nowhere")]


def test_queues_that_expire_and_of_other_types(connection: kombu.Connection) -> None:
    channel = connection.default_channel
    for queue in (
        kombu.Queue("expiring", expires=600.0, auto_delete=True),
        kombu.Queue("quorum", queue_arguments={"x-queue-type": "quorum"}),
        kombu.Queue("active", queue_arguments={"x-single-active-consumer": True}),
        kombu.Queue("own", exclusive=True),
    ):
        queue(channel).declare()
        connection.Producer().publish(queue.name, routing_key=queue.name)
        assert [message.payload for message in take(connection, queue(channel), 1)] == [queue.name]


class Worker(ConsumerMixin):  # type: ignore[misc]
    """A consumer that comes back by itself when its connection is lost."""

    def __init__(self, connection: kombu.Connection) -> None:
        self.connection = connection
        self.found: queues.Queue[object] = queues.Queue()

    def get_consumers(self, consumer: Any, channel: object) -> list[Any]:
        """What ConsumerMixin asks for."""
        return [consumer(queues=[kombu.Queue("q")], callbacks=[self.on_message], prefetch_count=5)]

    def on_message(self, body: object, message: Any) -> None:
        """Note and acknowledge."""
        message.ack()
        self.found.put(body)


def test_a_worker_survives_a_restart_of_the_broker(broker: BrokerProcess) -> None:
    policy = {"max_retries": 50, "interval_start": 0.05, "interval_max": 0.2}
    with (
        kombu.Connection(url(broker)) as own,
        kombu.Connection(url(broker), transport_options={"confirm_publish": True}) as other,
    ):
        worker = Worker(own)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            for body in ("before", "after"):
                options: dict[str, Any] = {"declare": [kombu.Queue("q")], "retry": True, "retry_policy": policy}
                other.Producer().publish(body, routing_key="q", **options)
                assert worker.found.get(timeout=WAIT_S) == body
                if body == "before":
                    broker.restart()
        finally:
            worker.should_stop = True
            thread.join()
