"""One broker for all statements about CoAP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess, running
from tests.conformance.coap import raw


@pytest.fixture(scope="package")
def coap_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    options = {"coap": "127.0.0.1:0", "http": "127.0.0.1:0", "message_octets_max": 100_000}
    with running(tmp_path_factory.mktemp("coap"), **options) as broker:
        yield broker


@pytest.fixture
def client(coap_broker: BrokerProcess) -> Iterator[raw.Client]:
    with raw.client(coap_broker) as client:
        yield client
