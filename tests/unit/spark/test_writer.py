"""The sink's check of its target, on a real broker but without a JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pika
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from forebay.client.control import ControlClient
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError, Unreachable
from forebay.spark.sink.options import parse_sink, sink_columns
from forebay.spark.sink.writer import ForebayWriter, WriteTarget
from forebay.spark.source import ForebaySource
from tests.broker_process import BrokerProcess

WAIT_S = 60


def schema(*names: str) -> StructType:
    return StructType([StructField(name, StringType()) for name in ("value", *names)])


def stager(broker: BrokerProcess, *columns: str, **options: object) -> WriteTarget:
    given = {"forebay.servers": f"127.0.0.1:{broker.amqp_port}", "retryMs": "0"}
    parsed = parse_sink({**given, **{name.replace("__", "."): str(value) for name, value in options.items()}})
    return WriteTarget(parsed, sink_columns(schema(*columns), parsed))


@pytest.fixture
def broker_with_queue(broker: BrokerProcess) -> BrokerProcess:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.queue_declare("out", durable=True)
    return broker


def control(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def test_a_target_that_takes_rows_is_left_as_it_was(broker_with_queue: BrokerProcess) -> None:
    for options in ({"topic": "out"}, {"exchange": "amq.topic"}, {"exchange": "amq.topic", "topic": "a.b"}):
        stager(broker_with_queue, **options).check("batch")
        stager(broker_with_queue, **options).check()
    with control(broker_with_queue) as client:
        assert list(client.items("transaction.list")) == []
        assert client.run("queue.show", queue="out")["ready"] == 0


@pytest.mark.parametrize(
    ("options", "reason", "text"),
    [
        ({"topic": "nowhere"}, NOT_FOUND, r": no queue 'nowhere' in vhost '/' \(user 'guest', vhost '/'\)$"),
        ({"exchange": "none"}, NOT_FOUND, r": no exchange 'none' .*\(user 'guest', vhost '/'\)$"),
        ({"topic": "out", "forebay__password": "x"}, REFUSED, r"Login was refused.*\(user 'guest', vhost '/'\)$"),
        ({"topic": "out", "forebay__vhost": "v"}, None, r"\(user 'guest', vhost 'v'\)$"),
    ],
)
def test_what_cannot_be_written_is_said_on_the_driver(
    broker_with_queue: BrokerProcess, options: dict[str, str], reason: str | None, text: str
) -> None:
    for query in ("batch", None):
        with pytest.raises(RequestError, match=text) as caught:
            stager(broker_with_queue, **options).check(query)
        assert reason in {None, caught.value.reason}
        assert "row 0" not in caught.value.text


def test_the_right_to_write_is_needed(broker_with_queue: BrokerProcess) -> None:
    with control(broker_with_queue) as client:
        client.run("user.add", user="reader", password="secret")
        client.run("permission.set", user="reader", vhost="/", configure="", write="^$", read=".*")
    login = {"forebay__user": "reader", "forebay__password": "secret"}
    with pytest.raises(RequestError, match=r"\(user 'reader', vhost '/'\)$") as caught:
        stager(broker_with_queue, topic="out", **login).check("batch")
    assert caught.value.reason == REFUSED
    stager(broker_with_queue, "topic", **login).check("batch")  # each row says where to: a task will find out


def test_a_batch_that_is_committed_is_not_checked(broker_with_queue: BrokerProcess) -> None:
    once = stager(broker_with_queue, topic="out", transactionId="once")
    once.commit("once", 0, [])
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker_with_queue.amqp_port)) as connection:
        connection.channel().queue_delete("out")
    once.check("once")
    with pytest.raises(RequestError, match="no queue 'out'"):
        once.check("another")


def test_spark_asks_for_a_writer_on_the_driver(broker_with_queue: BrokerProcess) -> None:
    options = {"forebay.servers": f"127.0.0.1:{broker_with_queue.amqp_port}", "topic": "out"}
    assert isinstance(ForebaySource(options).writer(schema(), False), ForebayWriter)
    astray = ForebaySource({**options, "topic": "nowhere"})
    with pytest.raises(RequestError, match="no queue 'nowhere'"):
        astray.writer(schema(), False)
    with pytest.raises(RequestError, match="no queue 'nowhere'"):
        astray.streamWriter(schema(), False)


def test_a_broker_that_is_away_is_waited_for(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        connection.channel().queue_declare("out", durable=True)
    broker.stop()
    with pytest.raises(Unreachable):
        stager(broker, topic="out").check("batch")
    waiting = stager(broker, topic="out", retryMs=1000 * WAIT_S)
    thread = threading.Thread(target=lambda: waiting.check("batch"))
    thread.start()
    broker.wait_for_a_client()
    broker.start()
    thread.join(WAIT_S)
    assert not thread.is_alive()
