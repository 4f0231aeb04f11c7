"""Tests of single parts leave the disks of their rigs to the end of the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores import disks_closed


@pytest.fixture(autouse=True)
def close_disks() -> Iterator[None]:
    with disks_closed():
        yield
