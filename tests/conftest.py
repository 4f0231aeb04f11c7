"""Fixtures that every test may use: real brokers, and how Hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.broker_process import BrokerProcess

httpx._config.DEFAULT_TIMEOUT_CONFIG.read = 60.0  # of 5 s: on a busy machine the first answer of a broker takes longer
# No deadline: the machine may be busy, and no test is about time. In CI the same examples every time.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Function that starts a broker with the options given; all are stopped and looked over at the test's end."""
    brokers: list[BrokerProcess] = []

    def start(**options: object) -> BrokerProcess:
        broker = BrokerProcess(tmp_path / f"broker-{len(brokers)}", **options)
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    try:
        for broker in brokers:
            print(broker.log_text()[-10_000:])  # pytest shows it where the test failed
            broker.finish()
    finally:
        for broker in brokers:
            broker.abandon()


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A running broker with default options on free ports."""
    return start_broker()
