"""How conformance tests reach a broker.

`broker` and `start_broker` are a node in the test's hand; where a module is marked `over_sockets`, each of its tests
runs on a broker in a process as well. What a node has not, a test asks `broker_process` for: signals, a process's end,
WebSocket, real time, and what the system's sockets do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_process import AnyBroker, BrokerProcess, brokers_in
from tests.held_broker import HELD, SOCKETS, brokers_by


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" in metafunc.fixturenames and metafunc.definition.get_closest_marker("over_sockets"):
        metafunc.parametrize("way", [HELD, SOCKETS], scope="module")


@pytest.fixture(scope="session")
def way() -> str:
    """How a test reaches its broker where its module does not say so."""
    return HELD


@pytest.fixture
def start_broker(way: str, tmp_path: Path) -> Iterator[Callable[..., AnyBroker]]:
    """Function that starts a broker with the options given; all are stopped and looked over at the test's end."""
    with brokers_by(way, tmp_path) as start:
        yield start


@pytest.fixture
def broker(start_broker: Callable[..., AnyBroker]) -> AnyBroker:
    """A running broker with default options."""
    return start_broker()


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """As `start_broker`, each in a process of its own."""
    with brokers_in(tmp_path, BrokerProcess) as start:
        yield start


@pytest.fixture
def broker_process(start_process: Callable[..., BrokerProcess]) -> BrokerProcess:
    """As `broker`, in a process."""
    return start_process()
