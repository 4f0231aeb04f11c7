"""Fixtures for tests that share one broker a module: they keep apart by their names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.broker_process import BrokerProcess

NUMBERS = count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker with default options, which the tests of a module share."""
    made = BrokerProcess(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    try:
        print(made.log_text()[-10_000:])
        made.finish()
    finally:
        made.abandon()


@pytest.fixture
def own() -> str:
    """A name for topics and clients that no other test has."""
    return f"own{next(NUMBERS)}"
