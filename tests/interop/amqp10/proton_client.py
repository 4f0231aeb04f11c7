"""python-qpid-proton as tests use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proton import Message, symbol
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, BlockingReceiver

from tests.broker_process import BrokerProcess

WAIT_S = 20


class Capability(LinkOption):  # type: ignore[misc]
    """Ask for a kind of node: `queue` or `topic`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def apply(self, link: Any) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_object(symbol(self.name))


QUEUE: LinkOption = Capability("queue")
TOPIC: LinkOption = Capability("topic")


@contextmanager
def connected(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> Iterator[BlockingConnection]:
    """A connection of proton's."""
    url = f"amqp://{user}:{password}@127.0.0.1:{broker.amqp_port}"
    connection = BlockingConnection(url, allowed_mechs="PLAIN", timeout=WAIT_S)
    try:
        yield connection
    finally:
        connection.close()


def take(receiver: BlockingReceiver, count: int) -> list[Message]:
    """The next messages, accepted."""
    found: list[Message] = []
    for _ in range(count):
        found.append(receiver.receive(timeout=WAIT_S))
        receiver.accept()
    return found
