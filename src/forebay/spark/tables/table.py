"""The face of a table to a tier job, whatever its format.

A commit names files and, in the same write, the job and its batch: after a crash in between nobody needs to guess.
Offsets are looked at too. A queue's files must go on where the table ends, so rows come once even if a job begins anew
without its checkpoint, or two jobs tier one queue.
"""

from __future__ import annotations

import os
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from forebay.core.errors import ForebayError
from forebay.spark.tables.layout import DataFile, Layout, TableError
from forebay.spark.tables.writing import make_folders, sync

ABOUT: Final = "_forebay"  # this folder's files are about the table; readers pass over it
ATTEMPTS_MAX: Final = 50
ATTEMPT_S: Final = 0.02


class Conflict(Exception):
    """Somebody else has committed meanwhile: look again and try again."""


class CommitFailed(ForebayError):
    """Others commit to the table so often that there was no room for this commit; nothing changed."""


class LakeTable(ABC):
    """One table in a folder that the driver and all executors see.

    folder  absolute; paths of files are relative to it
    """

    format: str
    with_partitions: bool  # the partition columns are in the files, not only in their folders' names

    def __init__(self, folder: str, layout: Layout) -> None:
        self.folder = folder
        self.layout = layout

    @abstractmethod
    def refresh(self) -> None:
        """See what others committed."""

    @abstractmethod
    def last_batch(self, app_id: str) -> int:
        """The last batch that this job committed, -1 before the first, as of the last look."""

    @abstractmethod
    def files(self) -> list[DataFile]:
        """All files of the table, as of the last look."""

    @abstractmethod
    def ends(self) -> dict[str, int]:
        """Highest offset of each queue plus one, as of the last look."""

    @abstractmethod
    def append(self, app_id: str, batch: int, files: Sequence[DataFile]) -> None:
        """One try to commit on what was seen last; Conflict if that is old."""

    @abstractmethod
    def swap(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """One try to replace files by others with the same rows; Conflict if what was seen last is old."""

    @abstractmethod
    def forget(self, before_s: float) -> None:
        """Give up what the table keeps of its past before a time, so that nothing refers to replaced files."""

    @abstractmethod
    def referenced(self) -> set[str]:
        """Paths that the table refers to, past included."""

    def commit(self, app_id: str, batch: int, files: Sequence[DataFile]) -> bool:
        """Add files, once. All of it is on the disk when this returns.

        returns  False if that batch was committed before
        raises   TableError if offsets of a file are in the table already
        """

        def attempt() -> bool:
            if self.last_batch(app_id) >= batch:
                return False
            if not files:
                return True
            ends = self.ends()
            for file in files:
                if file.first < ends.get(file.queue, 0):
                    raise TableError(
                        f"{self.folder}: offsets {file.first} to below {file.end} of queue {file.queue!r} were to be "
                        f"added, but the table has that queue to below {ends[file.queue]}; does another job tier it, "
                        f"or was the queue made anew?"
                    )
            self.append(app_id, batch, files)
            return True

        return self.again(attempt)

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> bool:
        """Put files in the place of others with the same rows, at once; False if one of the old is gone already."""
        gone = {file.path for file in old}

        def attempt() -> bool:
            if not gone <= {file.path for file in self.files()}:
                return False
            self.swap(old, new)
            return True

        return self.again(attempt)

    def again(self, attempt: Callable[[], bool]) -> bool:
        for number in range(ATTEMPTS_MAX):
            try:
                return attempt()
            except Conflict:
                time.sleep(ATTEMPT_S * min(number, 10))
                self.refresh()
        raise CommitFailed(f"{self.folder}: others committed before {ATTEMPTS_MAX} tries to commit")

    def path(self, file: DataFile) -> str:
        return os.path.join(self.folder, file.path)


def highest(files: Iterable[DataFile]) -> dict[str, int]:
    """Highest offset of each queue plus one."""
    ends: dict[str, int] = {}
    for file in files:
        ends[file.queue] = max(file.end, ends.get(file.queue, 0))
    return ends


def write_file(path: str, octets: bytes) -> None:
    """A file that is there whole or not at all, and on the disk when this returns; one that is there stays."""
    folder = os.path.dirname(path)
    make_folders(folder)
    part = f"{folder}/.{uuid.uuid4().hex}.tmp"
    with open(part, "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, path)  # unlike a rename it fails where somebody was quicker
    except FileExistsError:
        raise Conflict(path) from None
    finally:
        os.unlink(part)
    sync(folder)
