"""Fixtures that every test may use: real brokers, and how Hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.broker_process import BrokerProcess, brokers_in
from tests.examples import examples
from tests.memory_folder import memory_folder
from tests.open_files import OpenFiles

if (folder := memory_folder()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))  # where `tmp_path` is
httpx._config.DEFAULT_TIMEOUT_CONFIG.read = 60.0  # of 5 s: on a busy machine the first answer of a broker takes longer
# No deadline: the machine may be busy, and no test is about time. In CI the same examples every time.
settings.register_profile(
    "dev", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
OPEN_FILES = OpenFiles()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Function that starts a broker with the options given; all are stopped and looked over at the test's end."""
    with brokers_in(tmp_path, BrokerProcess) as start:
        yield start


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A running broker with default options on free ports."""
    return start_broker()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """No test leaves so many files open that clients of those after it fail."""
    OPEN_FILES.check()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """How `--dist loadfile` shares the files among workers."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import LongestFirst

    return LongestFirst(config, log)
