"""Direct reply-to: answers without a queue, between clients of AMQP 1.0 and of 0.9.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from proton import Message, Terminus, symbol
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached, SendException

from tests.broker_process import BrokerProcess
from tests.interop.amqp10.proton_client import WAIT_S, connected, take
from tests.interop.test_pika import connect as pika_connect

REQUESTS = "/queues/requests"


class Volatile(LinkOption):  # type: ignore[misc]
    """Ask for a source of direct replies."""

    def apply(self, link: Any) -> None:
        link.snd_settle_mode = link.SND_SETTLED
        link.source.dynamic = True
        link.source.expiry_policy = Terminus.EXPIRE_WITH_LINK
        link.source.capabilities.put_object(symbol("rabbitmq:volatile-queue"))


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    with connected(broker) as connection:
        yield connection


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    with pika_connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("requests", durable=True)
        yield channel


def replies_of(connection: BlockingConnection, credit: int = 10) -> BlockingReceiver:
    receiver = connection.create_receiver(None, credit=credit, name="replies", options=[Volatile()])
    assert receiver.link.remote_source.address.startswith("/queues/amq.rabbitmq.reply-to.")
    return receiver


def test_between_clients_of_amqp_10(
    broker: BrokerProcess, channel: BlockingChannel, connection: BlockingConnection
) -> None:
    receiver = replies_of(connection)
    address = receiver.link.remote_source.address
    connection.create_sender(REQUESTS).send(Message("question", reply_to=address, id="1"))
    with connected(broker) as other:
        (request,) = take(other.create_receiver(REQUESTS, credit=1), 1)
        assert request.reply_to == address
        other.create_sender(None).send(Message("anonymous", address=request.reply_to, correlation_id=request.id))
        other.create_sender(request.reply_to).send(Message("addressed", correlation_id=request.id))
    found = [receiver.receive(WAIT_S) for _ in range(2)]
    assert [(each.body, each.correlation_id) for each in found] == [("anonymous", "1"), ("addressed", "1")]


def test_a_client_of_091_answers(channel: BlockingChannel, connection: BlockingConnection) -> None:
    receiver = replies_of(connection)
    request = Message("question", reply_to=receiver.link.remote_source.address, id="1", correlation_id="c")
    connection.create_sender(REQUESTS).send(request)
    method, properties, _ = next(channel.consume("requests", auto_ack=True))
    assert method is not None and properties is not None and properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    answer = pika.BasicProperties(correlation_id=properties.correlation_id)
    channel.basic_publish("", properties.reply_to, b"answer", answer)
    found = receiver.receive(WAIT_S)
    assert (found.body, found.correlation_id) == (b"answer", "c")


def test_a_client_of_091_asks(channel: BlockingChannel, connection: BlockingConnection) -> None:
    answers: list[tuple[str | None, bytes]] = []
    channel.basic_consume(
        "amq.rabbitmq.reply-to", lambda _, __, own, body: answers.append((own.correlation_id, body)), auto_ack=True
    )
    own = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="c")
    channel.basic_publish("", "requests", b"question", own)
    (request,) = take(connection.create_receiver(REQUESTS, credit=1), 1)
    assert request.reply_to.startswith("/queues/amq.rabbitmq.reply-to.")
    reply = Message(b"answer", inferred=True, correlation_id=request.correlation_id)
    connection.create_sender(request.reply_to).send(reply)
    while not answers:
        channel.connection.process_data_events(1)
    assert answers == [("c", b"answer")]


def test_answers_without_credit_or_client_are_lost(broker: BrokerProcess, connection: BlockingConnection) -> None:
    receiver = replies_of(connection, credit=1)
    address = receiver.link.remote_source.address
    with connected(broker) as other:
        sender = other.create_sender(address)
        for number in range(3):
            sender.send(Message(str(number)))
        assert receiver.receive(WAIT_S).body == "0"
        sender.send(Message("4"))
        assert receiver.receive(WAIT_S).body == "4"
        receiver.close()
        with pytest.raises(SendException):
            sender.send(Message("late"))
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            other.create_sender(address, name="again")


def test_nobody_else_consumes_the_answers(broker: BrokerProcess, connection: BlockingConnection) -> None:
    address = replies_of(connection).link.remote_source.address
    with connected(broker) as other, pytest.raises(LinkDetached, match="amqp:not-found"):
        other.create_receiver(address, credit=1)


def test_an_unsettled_source_of_answers_is_refused(connection: BlockingConnection) -> None:
    class Unsettled(Volatile):
        def apply(self, link: Any) -> None:
            super().apply(link)
            link.snd_settle_mode = link.SND_UNSETTLED

    with pytest.raises(LinkDetached, match=r"amqp:invalid-field.*settled"):
        connection.create_receiver(None, name="wrong", options=[Unsettled()])
