"""One broker for all commands of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess, running
from tests.certificates import Certificates
from tests.unit.cli.commands import Forebay


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, made: Certificates) -> Iterator[BrokerProcess]:
    """A broker with HTTP and TLS."""
    folder: Path = tmp_path_factory.mktemp("broker")
    any_port = "127.0.0.1:0"
    with running(folder, http=any_port, amqps=any_port, https=any_port, **made.options()) as broker:
        yield broker


@pytest.fixture
def forebay(shared: BrokerProcess) -> Forebay:
    return Forebay(shared)
