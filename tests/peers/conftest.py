"""Each test of this folder runs once with every broker that is here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.peers.peer import Forebay, Peer, RabbitMQ, is_rabbitmq_here

PEERS = [pytest.param("forebay", id="forebay")]
if is_rabbitmq_here():
    PEERS.append(pytest.param("rabbitmq", id="rabbitmq", marks=pytest.mark.peers))


@pytest.fixture(scope="module")
def forebay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all tests of a module, looked over at their end."""
    broker = BrokerProcess(tmp_path_factory.mktemp("forebay"), http="127.0.0.1:0")
    broker.start()
    yield broker
    try:
        broker.finish()
    finally:
        broker.abandon()


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    """A broker with an empty virtual host."""
    made = RabbitMQ() if request.param == "rabbitmq" else Forebay(request.getfixturevalue("forebay"))
    yield made
    made.close()
