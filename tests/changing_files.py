"""The files of a folder in which somebody else makes and removes files and folders meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path


def changing_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files at any depth below the folder whose names match the pattern.

    `Path.glob` raises if a folder goes between the moments in which it is seen and read; here such a folder is empty.
    A file that is returned may be gone by then, too.
    """
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names if fnmatch(name, pattern)]


def octets_of_changing_files(folder: Path, pattern: str) -> int:
    """Return the octets of these files together; one that is gone meanwhile has none."""
    octets = 0
    for path in changing_files(folder, pattern):
        with suppress(FileNotFoundError):
            octets += path.stat().st_size
    return octets
