"""pyamqp, the AMQP 1.0 client inside of azure-servicebus, driven without its cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus._pyamqp.authentication import SASLPlainAuth
from azure.servicebus._pyamqp.client import ReceiveClient, SendClient
from azure.servicebus._pyamqp.error import AMQPLinkError, MessageException
from azure.servicebus._pyamqp.message import Message, Properties

from tests.broker_process import BrokerProcess, running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the tests of this module share."""
    folder: Path = tmp_path_factory.mktemp("pyamqp")
    with running(folder) as made:
        yield made


def client(broker: BrokerProcess, kind: Any, address: str, **more: Any) -> Any:
    auth = SASLPlainAuth("guest", "guest")
    return kind(f"127.0.0.1:{broker.amqp_port}", address, auth=auth, use_tls=False, **more)


def test_messages_there_and_back(broker: BrokerProcess) -> None:
    with client(broker, SendClient, "$queue/azure") as sender:
        for number in range(20):
            properties = Properties(message_id=f"m{number}", content_type="text/plain")
            sender.send_message(Message(data=[b"%d" % number], properties=properties))
    with client(broker, ReceiveClient, "$queue/azure", link_credit=10) as receiver:
        found: list[Any] = []
        while len(found) < 20:
            found += receiver.receive_message_batch(max_batch_size=10, timeout=10)
    assert [b"".join(each.data) for each in found] == [b"%d" % number for number in range(20)]
    assert [each.properties.message_id for each in found] == [b"m%d" % number for number in range(20)]


def test_a_long_message(broker: BrokerProcess) -> None:
    body = bytes(range(250)) * 4000
    with client(broker, SendClient, "$queue/azure-long") as sender:
        sender.send_message(Message(data=[body]))
    with client(broker, ReceiveClient, "$queue/azure-long", link_credit=1, max_message_size=2_000_000) as receiver:
        (found,) = receiver.receive_message_batch(max_batch_size=1, timeout=10)
    assert b"".join(found.data) == body


def test_a_message_that_is_rejected(broker: BrokerProcess) -> None:
    """Rejected, since pyamqp does not know released: what nobody gets it waits for without end."""
    message = Message(data=[b"x"], properties=Properties(user_id=b"somebody else"))
    with client(broker, SendClient, "$queue/azure") as sender, pytest.raises(MessageException, match="user-id"):
        sender.send_message(message)


def test_a_queue_that_is_not_there(broker: BrokerProcess) -> None:
    with pytest.raises(AMQPLinkError), client(broker, SendClient, "/queues/none") as sender:
        sender.send_message(Message(data=[b"x"]))
