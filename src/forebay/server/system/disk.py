"""The disk: real files under one data directory."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic_ns
from typing import Final

from forebay.core.errors import DiskFull, StorageError, UnreadableFile
from forebay.core.ports import Disk

LOCK: Final = "LOCK"
PARTS_MAX: Final = 1024  # IOV_MAX of Linux
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
UNREADABLE: Final = (errno.EIO, errno.ENOENT, errno.ENXIO, errno.EBADMSG, errno.EUCLEAN, errno.EILSEQ, errno.ESTALE)
READING: Final = ("open", "look at", "read")  # what fails then touches that file alone; a write that fails, the log
FOLDER_MODE: Final = 0o700  # what is in it is nobody else's: messages, and hashes of passwords
FILE_MODE: Final = 0o600
OTHERS: Final = 0o077
logger = logging.getLogger("forebay")


@contextmanager
def storage_errors(doing: str, path: str) -> Iterator[None]:
    """Turn an OSError into a StorageError, which names the act and the file."""
    try:
        yield
    except OSError as error:
        kind: type[StorageError] = StorageError
        if error.errno in FULL:
            kind = DiskFull
        elif error.errno in UNREADABLE and doing in READING:
            kind = UnreadableFile
        raise kind(f"{path}: cannot {doing}: {error.strerror}") from error


Parts = list[bytes]  # `list` is a method of the class below
Handles = list[int]


class HandleClosing:
    """Handles of one file to be closed."""

    def __init__(self, path: str, handles: Handles) -> None:
        self.path = path
        self.handles = handles

    def run(self) -> None:
        with storage_errors("close", self.path):
            for handle in self.handles:
                os.close(handle)


class Removal:
    """A file to be removed."""

    def __init__(self, path: str) -> None:
        self.path = path

    def run(self) -> None:
        with storage_errors("remove", self.path):
            os.remove(self.path)


class FreeSpace:
    """A query of the free space of a disk."""

    def __init__(self, disk: DataDisk) -> None:
        self.disk = disk

    def run(self) -> None:
        with storage_errors("look at", self.disk.root):
            self.disk.free_octets()
        self.disk.is_asked = False


class DataDisk(Disk):
    """Files under `root`, which this process alone uses: held by a lock on the file `LOCK` that names its process.

    synced     is told after each sync when that began, in nanoseconds of the monotonic clock
    elsewhere  takes what a file system may hold up and the loop's thread must not wait for; None while it may
    """

    def __init__(self, root: str, synced: Callable[[int], None] | None = None) -> None:
        self.begin(os.path.abspath(root), {}, set(), synced)
        with storage_errors("make the data directory", self.root):
            os.makedirs(self.root, FOLDER_MODE, exist_ok=True)
            keep_to_owner(self.root)
            self.lock = os.open(os.path.join(self.root, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self.take_lock()

    def begin(
        self, root: str, paths: dict[int, str], nameless: set[int], synced: Callable[[int], None] | None = None
    ) -> None:
        """Start with the open files `paths`, of which `nameless` have no durable name yet."""
        self.synced = synced
        self.elsewhere: Callable[[HandleClosing | Removal | FreeSpace], None] | None = None
        self.loop_thread = threading.get_ident()
        self.free = self.total = 0
        self.is_asked = False  # how much is free, for the loop
        self.root = root
        self.paths = paths
        self.nameless = nameless
        self.durable_handles: dict[int, int] = {}  # by the handle of a file: another, whose writes are synced at once
        self.lock = -1

    def take_lock(self) -> None:
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self.lock, 32, 0).decode("ascii", "replace").strip()
            os.close(self.lock)
            who = f"the process {owner}" if owner else "another process"
            raise StorageError(f"data directory {self.root} is in use by {who}") from error
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, b"%d\n" % os.getpid(), 0)

    def close_all(self) -> None:
        """Close every file, and release the lock of the folder."""
        for handle in list(self.paths):
            self.close(handle)
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def free_octets(self) -> int:
        """Return the free octets of the disk for users other than root; on the event loop, those found last."""
        if self.elsewhere is not None and self.is_loop_off():
            if not self.is_asked:
                self.is_asked = True
                self.elsewhere(FreeSpace(self))
            return self.free
        state = os.statvfs(self.root)
        self.free = state.f_bavail * state.f_frsize
        self.total = state.f_blocks * state.f_frsize
        return self.free

    def is_loop_off(self) -> bool:
        """Return whether this is the loop's thread, at a time when the loop must not wait for the disk."""
        return self.elsewhere is not None and threading.get_ident() == self.loop_thread

    def path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def list(self, folder: str) -> list[str]:
        with storage_errors("list", self.path(folder)):
            try:
                return sorted(os.listdir(self.path(folder)))
            except FileNotFoundError:
                return []

    def make_folder(self, folder: str) -> None:
        path = Path(self.path(folder))
        with storage_errors("make the folder", str(path)):
            missing = [place for place in (path, *path.parents) if not place.exists()]
            path.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            for place in missing:
                sync_folder(str(place.parent))

    def sync_names(self, folder: str) -> None:
        sync_folders([self.path(folder)])

    def remove_folders(self, folders: Sequence[str]) -> None:
        parents: set[str] = set()
        for folder in folders:
            path = self.path(folder)
            with storage_errors("remove the folder", path), suppress(FileNotFoundError):
                shutil.rmtree(path)
                parents.add(os.path.dirname(path))
        sync_folders(parents)

    def put_files(self, files: Sequence[tuple[str, bytes]]) -> None:
        parents: set[str] = set()
        for path, octets in files:
            full_path = self.path(path)
            folder = os.path.dirname(full_path)
            with storage_errors("write", full_path):
                if not os.path.isdir(folder):
                    parent = os.path.dirname(folder)
                    if parent not in parents:
                        self.make_folder(os.path.dirname(os.path.dirname(path)))
                        parents.add(parent)
                    os.mkdir(folder, FOLDER_MODE)
                elif says(full_path, octets):
                    continue
                handle = self.open(path + ".tmp", True)
                try:
                    self.truncate(handle, 0)
                    self.pwrite(handle, [octets], 0)
                finally:
                    self.close(handle)
                os.replace(full_path + ".tmp", full_path)
        sync_folders(parents)

    def open(self, path: str, create: bool) -> int:
        full_path = self.path(path)
        with storage_errors("open", full_path):
            new = create and not os.path.exists(full_path)
            handle = os.open(full_path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), FILE_MODE)
        self.paths[handle] = full_path
        if new:
            self.nameless.add(handle)
        return handle

    def close(self, handle: int) -> None:
        self.nameless.discard(handle)
        another = self.durable_handles.pop(handle, -1)
        self.do(HandleClosing(self.paths.pop(handle), [handle] if another < 0 else [handle, another]))

    def do(self, work: HandleClosing | Removal) -> None:
        """Run the work now, or hand it to another thread if the loop would have to wait for the disk."""
        if self.elsewhere is not None and self.is_loop_off():
            self.elsewhere(work)
        else:
            work.run()

    def size(self, handle: int) -> int:
        with storage_errors("look at", self.paths[handle]):
            return os.fstat(handle).st_size

    def pread(self, handle: int, octets: int, position: int) -> bytes:
        with storage_errors("read", self.paths[handle]):
            data = os.pread(handle, octets, position)
            if len(data) == octets or not data:
                return data
            parts = [data]
            got = len(data)
            while got < octets and (data := os.pread(handle, octets - got, position + got)):
                parts.append(data)
                got += len(data)
            return b"".join(parts)

    def pwrite(self, handle: int, parts: Parts, position: int) -> None:
        with storage_errors("write", self.paths[handle]):
            for first in range(0, len(parts), PARTS_MAX):
                batch = parts[first : first + PARTS_MAX]
                octets = sum(map(len, batch))
                written = os.pwritev(handle, batch, position)
                if written < octets:
                    write_rest(handle, b"".join(batch), written, position)
                position += octets

    def sync(self, handle: int) -> None:
        path = self.paths[handle]
        began_ns = monotonic_ns()
        with storage_errors("sync", path):
            os.fdatasync(handle)
            self.note_sync(began_ns)
            if handle in self.nameless:
                sync_folder(os.path.dirname(path))
                self.nameless.discard(handle)

    def open_durable(self, handle: int) -> None:
        """Open another handle of a file, whose writes are on the disk when they return."""
        with storage_errors("open", self.paths[handle]):
            flags = os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC
            self.durable_handles[handle] = os.open(f"/proc/self/fd/{handle}", flags)

    def note_sync(self, began_ns: int) -> None:
        """Report a finished sync, which began at `began_ns`."""
        if self.synced is not None:
            self.synced(began_ns)

    def reserve(self, handle: int, octets: int) -> None:
        with storage_errors("reserve room for", self.paths[handle]):
            size = os.fstat(handle).st_size
            if octets > size:
                # Only behind the end: where the file system cannot reserve, the C library writes zeros there instead.
                os.posix_fallocate(handle, size, octets - size)

    def duplicate(self, handle: int) -> int:
        with storage_errors("open", self.paths[handle]):
            return os.dup(handle)

    def truncate(self, handle: int, octets: int) -> None:
        with storage_errors("truncate", self.paths[handle]):
            os.ftruncate(handle, octets)

    def rename(self, old: str, new: str) -> None:
        with storage_errors(f"rename to {new}", self.path(old)):
            os.rename(self.path(old), self.path(new))
            sync_folder(os.path.dirname(self.path(new)))

    def remove(self, path: str) -> None:
        self.do(Removal(self.path(path)))


def write_rest(handle: int, data: bytes, written: int, position: int) -> None:
    """Write the rest of `data` after `written` octets: a write may take less than it was given."""
    view = memoryview(data)
    while written < len(data):
        written += os.pwrite(handle, view[written:], position + written)


def says(path: str, octets: bytes) -> bool:
    """Return whether the file is there and holds exactly these octets."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read(len(octets) + 1) == octets
    return False


def keep_to_owner(path: str) -> None:
    """Take other users' access from an existing folder of the broker's."""
    found = os.stat(path)
    if found.st_mode & OTHERS and found.st_uid == os.geteuid():
        logger.warning("data: the folder %s was open to others; it is not any more", path)
        os.chmod(path, FOLDER_MODE)


def sync_folders(paths: Iterable[str]) -> None:
    for path in paths:
        with storage_errors("sync the folder", path):
            sync_folder(path)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
