"""RabbitMQ's own AMQP 1.0 client for Python: topology over /management, publishers and consumers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message as ProtonMessage
from rabbitmq_amqp_python_client import (
    AddressHelper,
    AMQPMessagingHandler,
    ClassicQueueSpecification,
    Connection,
    Converter,
    Environment,
    ExchangeSpecification,
    ExchangeToQueueBindingSpecification,
    ExchangeType,
    Message,
    OffsetSpecification,
    OutcomeState,
    QuorumConsumerOptions,
    QuorumQueueSpecification,
    StreamConsumerOptions,
    StreamSpecification,
    ValidationCodeException,
)
from rabbitmq_amqp_python_client.entities import ConsumerSettleStrategy
from rabbitmq_amqp_python_client.publisher import SendException

from tests.broker_process import BrokerProcess, running
from tests.interop.amqp10 import proton_client


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the tests of this module share, and that says it is RabbitMQ: the client refuses others."""
    folder: Path = tmp_path_factory.mktemp("rabbitmq-client")
    with running(folder, amqp_product="RabbitMQ") as made:
        yield made


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[Connection]:
    environment = Environment(uri=f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/")
    made = environment.connection()
    made.dial()
    yield made
    environment.close()


class Done(Exception):
    """All that was waited for has come."""


class Taking(AMQPMessagingHandler):  # type: ignore[misc]
    """Take so many messages, each with the outcome that is asked for."""

    def __init__(self, count: int, outcomes: str = "") -> None:
        super().__init__()
        self.wanted = count
        self.outcomes = outcomes
        self.found: list[Any] = []

    def on_amqp_message(self, event: Any) -> None:
        outcome = self.outcomes[len(self.found) : len(self.found) + 1] or "a"
        self.found.append(event.message)
        if outcome == "a":
            self.delivery_context.accept(event)
        elif outcome == "r":
            self.delivery_context.requeue(event)
        else:
            self.delivery_context.discard(event)
        if len(self.found) == self.wanted:
            raise Done


def take(connection: Connection, address: str, handler: Taking, **more: Any) -> list[Any]:
    """The messages that the handler has taken."""
    consumer = connection.consumer(address, message_handler=handler, **more)
    with pytest.raises(Done):
        consumer.run()
    consumer.close()
    return handler.found


def test_a_work_queue(connection: Connection) -> None:
    management = connection.management()
    management.declare_queue(QuorumQueueSpecification(name="jobs"))
    address = AddressHelper.queue_address("jobs")
    publisher = connection.publisher(address)
    for number in range(20):
        state = publisher.publish(Message(body=Converter.string_to_bytes(str(number)))).remote_state
        assert state == OutcomeState.ACCEPTED
    publisher.close()
    info = management.queue_info("jobs")
    assert (info.name, info.message_count, info.is_durable, info.queue_type.value) == ("jobs", 20, True, "quorum")
    found = take(connection, address, Taking(20))
    assert [Converter.bytes_to_string(each.body) for each in found] == [str(number) for number in range(20)]
    management.delete_queue("jobs")
    management.close()


def test_exchanges_and_bindings(connection: Connection) -> None:
    management = connection.management()
    management.declare_exchange(ExchangeSpecification(name="an exchange/ö", exchange_type=ExchangeType.topic))
    management.declare_queue(ClassicQueueSpecification(name="a queue/ö"))
    spec = ExchangeToQueueBindingSpecification(
        source_exchange="an exchange/ö", destination_queue="a queue/ö", binding_key="order.#"
    )
    path = management.bind(spec)
    publisher = connection.publisher(AddressHelper.exchange_address("an exchange/ö", "order.paid"))
    assert publisher.publish(Message(body=b"1")).remote_state == OutcomeState.ACCEPTED
    publisher.close()
    other = connection.publisher(AddressHelper.exchange_address("an exchange/ö", "user.left"))
    with pytest.raises(SendException):
        other.publish(Message(body=b"2"))
    other.close()
    assert management.purge_queue("a queue/ö") == 1
    management.unbind(path)
    management.delete_exchange("an exchange/ö")
    management.delete_queue("a queue/ö")
    management.close()


def test_a_queue_that_is_there_otherwise(connection: Connection) -> None:
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name="twice"))
    with pytest.raises(ValidationCodeException):
        management.declare_queue(QuorumQueueSpecification(name="twice"))
    management.close()


def test_requeue_and_discard(connection: Connection) -> None:
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name="dead"))
    arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    management.declare_queue(QuorumQueueSpecification(name="tried", **arguments))
    publisher = connection.publisher(AddressHelper.queue_address("tried"))
    publisher.publish(Message(body=b"x"))
    publisher.close()
    assert len(take(connection, AddressHelper.queue_address("tried"), Taking(2, "rd"))) == 2
    assert [each.body for each in take(connection, AddressHelper.queue_address("dead"), Taking(1))] == [b"x"]
    management.close()


def test_a_stream_from_an_offset(connection: Connection) -> None:
    management = connection.management()
    management.declare_queue(StreamSpecification(name="log"))
    address = AddressHelper.queue_address("log")
    publisher = connection.publisher(address)
    for number in range(10):
        publisher.publish(Message(body=b"%d" % number))
    publisher.close()
    first = StreamConsumerOptions(offset_specification=OffsetSpecification.first)
    assert len(take(connection, address, Taking(10), consumer_options=first)) == 10
    later = StreamConsumerOptions(offset_specification=7)
    found = take(connection, address, Taking(3), consumer_options=later)
    assert [bytes(each.body) for each in found] == [b"7", b"8", b"9"]
    management.close()


def test_a_publisher_whose_messages_say_where_they_go(connection: Connection) -> None:
    management = connection.management()
    management.declare_queue(QuorumQueueSpecification(name="named"))
    publisher = connection.publisher()
    message = Message(body=b"x", address=AddressHelper.queue_address("named"))
    assert publisher.publish(message).remote_state == OutcomeState.ACCEPTED
    lost = Message(body=b"x", address=AddressHelper.exchange_address("amq.direct", "nobody"))
    with pytest.raises(SendException):
        publisher.publish(lost)
    publisher.close()
    management.delete_queue("named")
    management.close()


class Answers(AMQPMessagingHandler):  # type: ignore[misc]
    """Take one direct reply."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def on_amqp_message(self, event: Any) -> None:
        self.found.append(bytes(event.message.body))
        raise Done


def test_direct_reply_to(broker: BrokerProcess, connection: Connection) -> None:
    connection.management().declare_queue(ClassicQueueSpecification("requests"))
    answers = Answers()
    options = QuorumConsumerOptions(settle_strategy=ConsumerSettleStrategy.DirectReplyTo)
    consumer = connection.consumer(message_handler=answers, consumer_options=options)
    request = Message(b"question", inferred=True, reply_to=consumer.address)
    status = connection.publisher(AddressHelper.queue_address("requests")).publish(request)
    assert status.remote_state == OutcomeState.ACCEPTED
    with proton_client.connected(broker) as other:
        (found,) = proton_client.take(other.create_receiver("/queues/requests", credit=1), 1)
        other.create_sender(found.reply_to).send(ProtonMessage(b"answer", inferred=True))
        with pytest.raises(Done):
            consumer.run()
    assert answers.found == [b"answer"]
