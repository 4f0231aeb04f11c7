"""The outside world as the inner layers see it: a clock, chance, a disk and a register. `server` fills them in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

Parts = list[bytes]  # `Disk.list` would shadow the type in the class


class Clock(ABC):
    """Time, from outside."""

    @abstractmethod
    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC; never decreases."""


class MonotonicClock(ABC):
    """Time that never goes back, for time-outs between nodes and leases."""

    @abstractmethod
    def now_us(self) -> int:
        """Return the time in microseconds since an origin that the process chose."""


class Random(ABC):
    """Chance, from outside."""

    @abstractmethod
    def octets(self, count: int) -> bytes:
        """Return so many octets that nobody can foretell."""


class Disk(ABC):
    """Files under one data directory; paths are relative to it.

    Any thread may call any method. Errors: DiskFull where there is no room, StorageError for everything else.
    """

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """Names in a folder, sorted; empty where there is no such folder."""

    @abstractmethod
    def make_folder(self, folder: str) -> None:
        """Make a folder and its parents, durably; no error where it exists."""

    @abstractmethod
    def sync_names(self, folder: str) -> None:
        """Sync the names in a folder, whoever gave them."""

    @abstractmethod
    def remove_folders(self, folders: Sequence[str]) -> None:
        """Remove folders that lie in one, and all in them; no error where there is none."""

    @abstractmethod
    def put_files(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Have these small files say this, in folders that lie in one and are made, durably, where they are missing.

        The files themselves wait for nothing: after a power cut they may be missing, or be empty.
        """

    @abstractmethod
    def open(self, path: str, create: bool) -> int:
        """Open for reading and writing; the handle. With `create`, the name is durable once `sync` returned."""

    @abstractmethod
    def close(self, handle: int) -> None: ...

    @abstractmethod
    def size(self, handle: int) -> int:
        """Octets in the file."""

    @abstractmethod
    def pread(self, handle: int, octets: int, position: int) -> bytes:
        """Up to `octets` from `position`; fewer only at the end of the file."""

    @abstractmethod
    def pwrite(self, handle: int, parts: Parts, position: int) -> None:
        """Write all parts back to back at `position`."""

    @abstractmethod
    def sync(self, handle: int) -> None:
        """fdatasync: on return all that was written to the file is on the disk."""

    @abstractmethod
    def reserve(self, handle: int, octets: int) -> None:
        """Let the file grow to `octets`, with room on the disk for all of it; DiskFull if there is none."""

    @abstractmethod
    def duplicate(self, handle: int) -> int:
        """Another handle of the same open file, which the caller closes with the system's means."""

    @abstractmethod
    def truncate(self, handle: int, octets: int) -> None: ...

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Atomically, durably."""

    @abstractmethod
    def remove(self, path: str) -> None: ...

    @abstractmethod
    def path(self, path: str) -> str:
        """Return the full path of a file, for messages to people."""


# Outcomes of a change of the register.
WON: Final = "won"
LOST: Final = "lost"
UNKNOWN: Final = "unknown"


class RegisterListener(ABC):
    """The party that hears what a register answers."""

    @abstractmethod
    def seen(self, revision: int, value: bytes) -> None:
        """Report the register's record at a revision. Revision 0 without octets says that there is no record."""

    @abstractmethod
    def outcome(self, number: int, outcome: str, why: str) -> None:
        """Report how one attempt to change the register's record ended.

        WON      it is made; the record as it is since then was seen before
        LOST     the record had another revision, so that this attempt never will make it; it was seen before
        UNKNOWN  the attempt may have made the change, may make it yet, or may never have left
        why      for people; empty for WON
        """

    @abstractmethod
    def present(self, nodes: Mapping[tuple[str, str], bytes]) -> None:
        """Report all registered nodes by (node, store id), each with its own record. Called at each change."""

    @abstractmethod
    def reached(self, why: str) -> None:
        """Report that the register can be reached (`why` is empty), or why it cannot. Called when that changes."""


class Register(ABC):
    """One small record that all nodes of a group see alike and change by compare-and-set, and which nodes there are.

    A call returns at once; what comes of it is heard later, by the listener.
    """

    @abstractmethod
    def read(self) -> None:
        """Ask for the record as it is now or later: `seen`, or `reached` where nobody answers."""

    @abstractmethod
    def change(self, number: int, revision: int, value: bytes) -> None:
        """Put a value in the place of that of a revision, 0 for none: `outcome`, with this number."""

    @abstractmethod
    def be_present(self, node: str, store: str, value: bytes) -> None:
        """Have other nodes see that this one is there, and what it says of itself, as long as it lives."""
