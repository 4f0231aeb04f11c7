"""A copy of the leader's files, for a member that lacks frames which are in no WAL file any more.

    learner                                leader
    ASK                      ────────▶     holds its files still
                             ◀────────     FILES   what is to come
                             ◀────────     PART …  so much each time the leader looks at the clock
                             ◀────────     DONE    nothing more comes

Each message begins with COPY, which no message of the group begins with, and its kind. The learner's folder says from
the beginning that it is being filled; when all has come, is on the disk and was checked, its process begins anew on it,
as a new store. Where the copy breaks off, it begins anew with nothing, and asks again.

    FILES  JSON: {"files": [[path, octets], …], "floor": n, "wals": [number, …], "segments": [[queue, first, end], …]}
    PART   u32 number of the file in that list, u64 position, octets
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from forebay.core.errors import MALFORMED, PeerError, StorageError
from forebay.log.folder.inventory import Inventory
from forebay.log.replication.copying import BadCopy, FolderCopy, Snapshot, SnapshotFile
from forebay.log.store import Store
from forebay.server.cluster.links import Links

COPY: Final = 0xC0  # the first octet of each message
ASK: Final = 1
FILES: Final = 2
PART: Final = 3
DONE: Final = 4
HEAD_OCTETS: Final = 2
PART_HEAD: Final = struct.Struct("<IQ")
PART_OCTETS: Final = 1 << 20
OCTETS_A_LOOK: Final = 2 << 20  # at 50 looks a second: what one learner may cost the leader
SILENCE_US: Final = 10_000_000  # after which a learner gives a copy up


class CopyOffered(msgspec.Struct, frozen=True):
    """The content of FILES."""

    files: list[tuple[str, int]]
    floor: int
    wals: list[int]
    segments: list[tuple[int, int, int]]


def message(kind: int, octets: bytes = b"") -> bytes:
    """A message about a copy."""
    return bytes((COPY, kind)) + octets


class CopySource:
    """The copies that a leader's members are making of its files."""

    def __init__(self, store: Store, links: Links) -> None:
        self.store = store
        self.links = links
        self.senders: dict[str, CopySender] = {}
        self.asked: set[str] = set()

    def ask(self, node: str) -> None:
        """A member wants a copy; one that it had begun before is over."""
        sender = self.senders.pop(node, None)
        if sender is not None:
            self.store.release(sender.snapshot)
        self.asked.add(node)

    def look(self) -> None:
        """Send on; begin what was asked for as soon as the files hold still."""
        for node in sorted(self.asked):
            snapshot = self.store.snapshot()
            if snapshot is None:
                break
            self.asked.discard(node)
            self.senders[node] = CopySender(node, snapshot)
        for node, sender in list(self.senders.items()):
            try:
                is_done = sender.send(self.links, OCTETS_A_LOOK)
            except StorageError:
                is_done = True  # the files were needed, or could not be read: the learner asks again
            if is_done:
                del self.senders[node]
                self.store.release(sender.snapshot)


class CopySender:
    """One copy on its way.

    at, position  the file and the place in it that are sent next; `at` is -1 before the list of files
    """

    def __init__(self, node: str, snapshot: Snapshot) -> None:
        self.node = node
        self.snapshot = snapshot
        self.at = -1
        self.position = 0

    def send(self, links: Links, most: int) -> bool:
        """Send so many octets, if they can be sent now; True once all have been."""
        while most > 0:
            octets, at, position = self.next()
            if not links.send_bulk(self.node, octets):
                return False
            most -= len(octets)
            self.at, self.position = at, position
            if octets[1] == DONE:
                return True
        return False

    def next(self) -> tuple[bytes, int, int]:
        """The next message, and the place behind it."""
        files = self.snapshot.files
        if self.at < 0:
            return message(FILES, self.offered()), 0, 0
        if self.at == len(files):
            return message(DONE), self.at, 0
        file = files[self.at]
        octets = self.snapshot.read(file.path, self.position, PART_OCTETS)
        head = PART_HEAD.pack(self.at, self.position)
        end = self.position + len(octets)
        after = (self.at + 1, 0) if end >= file.octets else (self.at, end)
        return message(PART, head + octets), *after

    def offered(self) -> bytes:
        """The content of FILES."""
        inventory = self.snapshot.inventory
        files = [(file.path, file.octets) for file in self.snapshot.files]
        return msgspec.json.encode(CopyOffered(files, inventory.floor, list(inventory.wals), list(inventory.segments)))


class CopyTaker:
    """A learner's side: the folder is being filled.

    node     the leader
    heard_us when something came last
    """

    def __init__(self, copy: FolderCopy, node: str, now_us: int) -> None:
        self.copy = copy
        self.node = node
        self.heard_us = now_us
        self.offered: CopyOffered | None = None

    def take(self, octets: bytes, now_us: int) -> bool:
        """Take a message of the leader; True once the folder is whole. BadCopy, DiskFull; PeerError."""
        self.heard_us = now_us
        kind = octets[1]
        if kind == FILES:
            self.offered = self.parsed(octets[HEAD_OCTETS:])
        elif kind == PART and self.offered is not None:
            at, position = PART_HEAD.unpack_from(octets, HEAD_OCTETS)
            if at >= len(self.offered.files):
                raise BadCopy(f"file {at} of {len(self.offered.files)} cannot be")
            self.copy.copy(self.offered.files[at][0], position, octets[HEAD_OCTETS + PART_HEAD.size :])
        elif kind == DONE and self.offered is not None:
            offered = self.offered
            inventory = Inventory(offered.floor, tuple(offered.wals), tuple(offered.segments))
            self.copy.finish(inventory, [SnapshotFile(path, length) for path, length in offered.files])
            return True
        else:
            raise BadCopy(f"a message of kind {kind} comes without a list of files")
        return False

    def parsed(self, octets: bytes) -> CopyOffered:
        """The same, as it has come; PeerError."""
        try:
            return msgspec.json.decode(octets, type=CopyOffered)
        except msgspec.DecodeError as error:
            raise PeerError(MALFORMED, f"a list of files cannot be read: {error}") from error

    def is_silent(self, now_us: int) -> bool:
        """True if the leader has sent nothing for long."""
        return now_us - self.heard_us > SILENCE_US
