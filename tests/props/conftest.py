"""Properties: examples leave their disks to the end of the test, and one that fails is made small for minutes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import disks_closed

TIMEOUT_S = 900  # it should not be cut off before it can be told
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(autouse=True)
def close_disks() -> Iterator[None]:
    with disks_closed():
        yield
