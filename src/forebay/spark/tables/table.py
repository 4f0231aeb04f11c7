"""The interface of a table to a tier job, for all formats.

A commit names files and, in the same write, the job and its batch: after a crash the table itself shows whether it has
the batch. Offsets are checked too. A queue's files must continue where the table ends, so rows are added once even if a
job begins anew without its checkpoint, or two jobs tier one queue.
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

ABOUT: Final = "_forebay"  # folder of forebay's metadata of the table; readers ignore it
ATTEMPTS_MAX: Final = 50
ATTEMPT_S: Final = 0.02


class Conflict(Exception):
    """Another writer has committed meanwhile: refresh the table and try again."""


class CommitFailed(ForebayError):
    """Other writers commit to the table so often that this commit did not succeed. The table is not changed."""


class LakeTable(ABC):
    """One table in a folder that the driver and all executors see.

    folder  absolute path; paths of files are relative to it
    """

    format: str
    with_partitions: bool  # whether the files contain the partition columns too

    def __init__(self, folder: str, layout: Layout) -> None:
        self.folder = folder
        self.layout = layout

    @abstractmethod
    def refresh(self) -> None:
        """Load the commits of other writers."""

    @abstractmethod
    def last_batch(self, app_id: str) -> int:
        """Return the last batch that this job committed, -1 if none, as of the last refresh."""

    @abstractmethod
    def files(self) -> list[DataFile]:
        """Return all files of the table, as of the last refresh."""

    @abstractmethod
    def ends(self) -> dict[str, int]:
        """Return the highest offset plus one of each queue, as of the last refresh."""

    @abstractmethod
    def append(self, app_id: str, batch: int, files: Sequence[DataFile]) -> None:
        """Try once to commit files on top of the last refresh. Raises Conflict if that is outdated."""

    @abstractmethod
    def swap(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Try once to replace files by others with the same rows. Raises Conflict if the last refresh is outdated."""

    @abstractmethod
    def forget(self, before_s: float) -> None:
        """Remove the table's history before a time, so that it does not refer to replaced files."""

    @abstractmethod
    def referenced(self) -> set[str]:
        """Return the paths of all files that the table refers to, including its history."""

    def commit(self, app_id: str, batch: int, files: Sequence[DataFile]) -> bool:
        """Add the files of a batch, once. They are on disk when this returns.

        returns  False if that batch was committed before
        raises   TableError if the table has offsets of a file already; CommitFailed
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
        """Replace files by others with the same rows, in one commit.

        Returns False if one of the old files is gone already.
        """
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
    """Return the highest offset plus one of each queue."""
    ends: dict[str, int] = {}
    for file in files:
        ends[file.queue] = max(file.end, ends.get(file.queue, 0))
    return ends


def write_file(path: str, octets: bytes) -> None:
    """Create a file atomically; it is on disk when this returns.

    Raises Conflict if the file exists, leaving it unchanged.
    """
    folder = os.path.dirname(path)
    make_folders(folder)
    part = f"{folder}/.{uuid.uuid4().hex}.tmp"
    with open(part, "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, path)  # unlike a rename, a link fails if the file exists
    except FileExistsError:
        raise Conflict(path) from None
    finally:
        os.unlink(part)
    sync(folder)
