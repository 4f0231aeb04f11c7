"""A data folder that is looked at from outside: its files are read, and what recovery would do to them is noted."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from forebay.broker.vhosts import Vhosts
from forebay.core.errors import OptionError, StorageError
from forebay.core.options import Options
from forebay.core.ports import Disk, Parts
from forebay.log.store import Recovery, Store, StoreOptions
from forebay.server.clock import SystemClock
from forebay.server.disk import LOCK, storage_errors


class ReadingDisk(Disk):
    """Files under a folder, none of which is ever changed.

    changes  what whoever holds this disk would have done to them, for people
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.changes: list[str] = []
        self._paths: dict[int, str] = {}

    def list(self, folder: str) -> list[str]:
        with storage_errors("list", self.path(folder)):
            try:
                return sorted(os.listdir(self.path(folder)))
            except FileNotFoundError:
                return []

    def open(self, path: str, create: bool) -> int:
        assert not create, path
        with storage_errors("open", self.path(path)):
            handle = os.open(self.path(path), os.O_RDONLY | os.O_CLOEXEC)
        self._paths[handle] = path
        return handle

    def close(self, handle: int) -> None:
        del self._paths[handle]
        os.close(handle)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def pread(self, handle: int, octets: int, position: int) -> bytes:
        with storage_errors("read", self.path(self._paths[handle])):
            return os.pread(handle, octets, position)

    def path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def make_folder(self, folder: str) -> None:
        if not os.path.isdir(self.path(folder)):
            self.changes.append(f"make the folder {folder}")

    def remove_folder(self, folder: str) -> None:
        self.changes.append(f"remove the folder {folder}")

    def remove(self, path: str) -> None:
        self.changes.append(f"remove {path}")

    def truncate(self, handle: int, octets: int) -> None:
        if octets < self.size(handle):
            self.changes.append(f"cut {self._paths[handle]} to its {octets} octets in use")

    def sync(self, handle: int) -> None:
        """Nothing was written."""

    def duplicate(self, handle: int) -> int:
        return os.dup(handle)

    def pwrite(self, handle: int, parts: Parts, position: int) -> None:
        raise AssertionError("a folder that is looked at is not written to")

    def reserve(self, handle: int, octets: int) -> None:
        raise AssertionError("a folder that is looked at is not written to")

    def rename(self, old: str, new: str) -> None:
        raise AssertionError("a folder that is looked at is not written to")

    def close_all(self) -> None:
        for handle in [*self._paths]:
            self.close(handle)


class Recovered:
    """The state to which a broker would come with this folder.

    report  what it would say of that
    """

    def __init__(self, disk: ReadingDisk) -> None:
        self.store = Store(disk, SystemClock(), StoreOptions())
        recovery: Recovery = self.store.open()
        self.report = recovery.report
        self.vhosts = Vhosts(self.store, Options())
        self.vhosts.recover(recovery.entries, self.store.clock.now_us())


def folder_of(path: str) -> ReadingDisk:
    """The disk of a data folder; OptionError where there is none."""
    if not (Path(path) / "wal").is_dir():
        raise OptionError(f"{path}: is no data folder of a broker: it has no folder wal")
    return ReadingDisk(path)


def user_of(disk: ReadingDisk) -> str:
    """The process of the broker that uses the folder just now, empty if none does."""
    try:
        handle = os.open(disk.path(LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StorageError(f"{disk.path(LOCK)}: cannot open: {error.strerror}") from None
    try:
        # Only for a moment: a broker that starts just now must not find the folder in use.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return ""
    except BlockingIOError:
        return os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "another process"
    finally:
        os.close(handle)
