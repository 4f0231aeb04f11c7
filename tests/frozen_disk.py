"""File systems of their own on loop devices, which can be frozen: whoever writes to one waits until it is thawed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OCTETS = 192 << 20


class LoopDisk:
    """An ext4 in a file.

    folder  where it is mounted
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_frozen = False

    def freeze(self) -> None:
        """Have every write and sync wait."""
        run("fsfreeze", "--freeze", str(self.folder))
        self.is_frozen = True

    def thaw(self) -> None:
        """Let them go on."""
        if self.is_frozen:
            run("fsfreeze", "--unfreeze", str(self.folder))
            self.is_frozen = False


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}; this test mounts file systems: it needs root"


@contextmanager
def loop_disk(folder: Path) -> Iterator[LoopDisk]:
    """A file system in this folder, which is made; however the test ends it is thawed, and gone."""
    folder.mkdir(parents=True)
    image = folder.with_name(f"{folder.name}.image")
    with image.open("wb") as file:
        file.truncate(OCTETS)
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", str(image))
    run("mount", "-o", "loop", str(image), str(folder))
    disk = LoopDisk(folder)
    try:
        yield disk
    finally:
        try:
            disk.thaw()
        finally:
            run("umount", "--lazy", str(folder))
