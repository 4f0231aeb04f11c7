"""A property that fails takes minutes to be made small: it should not be cut off before it can be told."""

from __future__ import annotations

from pathlib import Path

import pytest

TIMEOUT_S = 900
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
