"""One broker with an HTTP API for the tests of a module, and clients of it; a module may have its own instead."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.clients import open_channel
from tests.broker_process import BrokerProcess, running

WAIT_S_MAX = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("broker"), http="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture(scope="module")
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    """A client of forebay's own API."""
    with httpx.Client(base_url=broker.http_url + "/api/forebay", auth=("guest", "guest"), timeout=WAIT_S_MAX) as client:
        yield client


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    with open_channel(broker) as channel:
        yield channel
