"""Files on a disk: a sync takes its time there, and a kill comes between a write and its sync."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="forebay-crash-") as folder:
        yield Path(folder)
