"""The folder of tests: a broker's start and stop alone wait for twenty syncs of a disk, and memory syncs at once.

`PYTEST_DEBUG_TEMPROOT=/tmp make test` has them on the disk, where `tests/crash` has them in any case.
"""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path("/dev/shm")
ROOM_OCTETS = 4 << 30  # a run leaves less than half of that


def available_octets() -> int:
    """Memory that the system could give."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def memory_folder() -> Path | None:
    """A folder in memory, where the system has one and enough room in it."""
    if FOLDER.is_dir() and min(shutil.disk_usage(FOLDER).free, available_octets()) >= ROOM_OCTETS:
        return FOLDER
    return None
