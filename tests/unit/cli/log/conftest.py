"""The data folder that `forebay log` is tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores import Everything, Opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with segments and several WAL files, left without being closed."""
    path = tmp_path / "data"
    opened = Opened(path, [1, 2])
    live = Everything()
    for number in range(60):
        opened.publish(1, *(b"%d %d" % (number, each) * 20 for each in range(5)))
        opened.publish(2, b"other")
        opened.sync()
        if opened.store.checkpoint_due():
            opened.store.rotate([])
            opened.sync()
        while number < 40 and opened.housekeep(live):  # later files stay as they are
            pass
    opened.crash()
    assert list(path.rglob("*.seg"))
    assert len(list(path.rglob("*.wal"))) > 1
    return path
