"""A data folder read from outside: its files are not changed, and what recovery would do to them is recorded.

While a broker uses the folder its files come, grow and go. `HeldDisk` is such a folder at one moment: the files that
were there stay open, and the write-ahead log ends where it ended then.
"""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from forebay.broker.vhosts import Vhosts
from forebay.core.errors import CorruptFile, OptionError, StorageError
from forebay.core.options import Options
from forebay.core.ports import Disk, Parts
from forebay.log.folder.manifest import NAME as MANIFEST
from forebay.log.recovery.recovery import WalReader
from forebay.log.segment import queue_folder
from forebay.log.store import Recovery, Store, StoreOptions
from forebay.log.wal import FOLDER
from forebay.server.system.clock import SystemClock
from forebay.server.system.disk import LOCK, storage_errors

LISTINGS_MAX: Final = 100  # attempts, as files may be replaced while they are opened


class ReadingDisk(Disk):
    """The files under a folder, opened only for reading.

    changes  changes that the reader of this disk would have made, as text for people
    user     process id of the broker that uses the folder; empty if none does
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.changes: list[str] = []
        self.user = ""
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

    def sync_names(self, folder: str) -> None:
        """Do nothing: nothing was renamed."""

    def remove_folders(self, folders: Sequence[str]) -> None:
        self.changes += [f"remove the folder {folder}" for folder in folders]

    def put_files(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.changes += [f"write {path}" for path, _ in files]

    def remove(self, path: str) -> None:
        self.changes.append(f"remove {path}")

    def truncate(self, handle: int, octets: int) -> None:
        if octets < self.size(handle):
            self.changes.append(f"cut {self._paths[handle]} to its {octets} octets in use")

    def sync(self, handle: int) -> None:
        """Do nothing: nothing was written."""

    def duplicate(self, handle: int) -> int:
        return os.dup(handle)

    def pwrite(self, handle: int, parts: Parts, position: int) -> None:
        raise AssertionError("a folder that is looked at is not written to")

    def reserve(self, handle: int, octets: int) -> None:
        raise AssertionError("a folder that is looked at is not written to")

    def rename(self, old: str, new: str) -> None:
        raise AssertionError("a folder that is looked at is not written to")

    def renew(self) -> bool:
        """Open the files as they are now. Return False if the folder does not change."""
        return False

    def close_all(self) -> None:
        for handle in [*self._paths]:
            self.close(handle)


class HeldDisk(ReadingDisk):
    """The files of a folder that a broker uses, as they were at one moment.

    The write-ahead log is opened, and its end found, before the segments: blocks that left the log since are in these.
    A segment may be gone since, as a later note records. A reader that finds one missing has to call `renew`.
    """

    def __init__(self, root: str, user: str) -> None:
        super().__init__(root)
        self.user = user
        self._names: dict[str, list[str]] = {}
        self._held: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        room_for_files()
        self.hold()

    def hold(self) -> None:
        """Open all files of the folder as they are at this moment."""
        self._names = {"": super().list("")}
        self._ends = {}
        if MANIFEST in self._names[""]:
            self._held[MANIFEST] = os.open(self.path(MANIFEST), os.O_RDONLY | os.O_CLOEXEC)
        self._hold(FOLDER)
        self._find_end()
        self._names["queues"] = super().list("queues")
        for name in self._names["queues"]:
            if name.isdigit():
                self._hold(queue_folder(int(name)))

    def list(self, folder: str) -> list[str]:
        return self._names.get(folder, [])

    def open(self, path: str, create: bool) -> int:
        assert not create, path
        if path not in self._held:
            return super().open(path, False)
        handle = os.dup(self._held[path])
        self._paths[handle] = path
        return handle

    def size(self, handle: int) -> int:
        return self._ends.get(self._paths[handle], super().size(handle))

    def pread(self, handle: int, octets: int, position: int) -> bytes:
        end = self._ends.get(self._paths[handle])
        if end is not None:
            octets = max(0, min(octets, end - position))
        return super().pread(handle, octets, position)

    def renew(self) -> bool:
        self.close_all()
        self.hold()
        return True

    def close_all(self) -> None:
        super().close_all()
        for handle in self._held.values():
            os.close(handle)
        self._held = {}

    def _hold(self, folder: str) -> None:
        """Open the files of a folder, all as they were at one moment."""
        for left in reversed(range(LISTINGS_MAX)):
            opened: dict[str, int] = {}
            try:
                for name in super().list(folder):
                    path = f"{folder}/{name}"
                    try:
                        opened[path] = os.open(self.path(path), os.O_RDONLY | os.O_CLOEXEC)
                    except FileNotFoundError:
                        if left and not name.endswith(".tmp"):
                            raise  # list again: its replacement may have the name of an older file that is open already
            except FileNotFoundError:
                for handle in opened.values():
                    os.close(handle)
                continue
            except OSError as error:
                raise StorageError(f"{self.path(folder)}: cannot open its files: {error.strerror}") from None
            self._held.update(opened)
            self._names[folder] = [path.rpartition("/")[2] for path in opened]
            return

    def _find_end(self) -> None:
        """Find the end of the last WAL file. Sets no end if the file is damaged, so that readers find the damage."""
        files = [name for name in self._names[FOLDER] if name.endswith(".wal") and name[:-4].isdigit()]
        if not files:
            return
        path = f"{FOLDER}/{files[-1]}"
        handle = self.open(path, False)
        try:
            reader = WalReader(self, path, handle, int(files[-1][:-4]), True)
            try:
                while reader.next() is not None:
                    pass
            except CorruptFile:
                if not reader.has_grown():
                    return
            self._ends[path] = reader.position
        except CorruptFile:
            return  # even the file head is damaged
        finally:
            self.close(handle)


def room_for_files() -> None:
    """Raise this process's limit of open files to the hard limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Recovered:
    """The state that a broker would recover from a data folder.

    report  messages about the recovery that the broker would log
    """

    def __init__(self, disk: ReadingDisk) -> None:
        self.store = Store(disk, SystemClock(), StoreOptions())
        recovery: Recovery = self.store.open()
        self.report = recovery.report
        self.vhosts = Vhosts(self.store, Options(), b"")
        self.vhosts.recover(recovery.entries, self.store.clock.now_us())


def folder_of(path: str) -> ReadingDisk:
    """Return the disk of a data folder as it is now. Raises OptionError if `path` is no data folder."""
    if not (Path(path) / "wal").is_dir():
        raise OptionError(f"{path}: is no data folder of a broker: it has no folder wal")
    user = user_of(path)
    return HeldDisk(path, user) if user else ReadingDisk(path)


def user_of(folder: str) -> str:
    """Return the process id of the broker that uses a data folder, or "another process". Returns "" if none does."""
    lock = os.path.join(folder, LOCK)
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StorageError(f"{lock}: cannot open: {error.strerror}") from None
    try:
        # Release the lock at once: a broker that starts now must not find the folder in use.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return ""
    except BlockingIOError:
        return os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "another process"
    finally:
        os.close(handle)
