"""Fixtures for tests that share one broker a module: they keep apart by their names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.broker_process import AnyBroker
from tests.held_broker import brokers_by

NUMBERS = count(1)


@pytest.fixture(scope="module")
def broker(way: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """A running broker with default options, which the tests of a module share."""
    with brokers_by(way, tmp_path_factory.mktemp("broker")) as start:
        yield start()


@pytest.fixture
def own() -> str:
    """A name for topics and clients that no other test has."""
    return f"own{next(NUMBERS)}"
