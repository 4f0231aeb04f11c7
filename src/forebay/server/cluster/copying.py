"""A copy of the leader's files, for a member that lacks frames which are in no WAL file any more.

    learner                                leader
    ASK                      ────────▶     holds its files still
                             ◀────────     FILES   what is to come
                             ◀────────     PART …  so much each time the leader looks at the clock
                             ◀────────     DONE    nothing more comes
    GIVE_UP                  ────────▶     sends no more: the disk has no room

Each message begins with COPY, which no message of the group begins with, and its kind. The learner's folder says from
the beginning that it is being filled; when all has come, is on the disk and was checked, its process begins anew on it,
as a new store. Where the copy breaks off, it begins anew with nothing, and asks again: where its disk has no room for
all that is to come, once it has.

    FILES  JSON: {"files": [[path, octets], …], "floor": n, "wals": [number, …], "segments": [[queue, first, end], …]}
    PART   u32 number of the file in that list, u64 position, octets
"""

from __future__ import annotations

import logging
import struct
from typing import Final

import msgspec

from forebay.core.errors import MALFORMED, DiskFull, PeerError, StorageError
from forebay.log.folder.inventory import Inventory
from forebay.log.replication.copying import (
    BadCopy,
    FolderCopy,
    Snapshot,
    SnapshotFile,
    begin_copy,
    begin_empty,
    clear,
)
from forebay.log.store import Store
from forebay.replica.standing import Standing
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.links.links import Links

COPY: Final = 0xC0  # the first octet of each message
ASK: Final = 1
FILES: Final = 2
PART: Final = 3
DONE: Final = 4
GIVE_UP: Final = 5
HEAD_OCTETS: Final = 2
PART_HEAD: Final = struct.Struct("<IQ")
PART_OCTETS: Final = 1 << 20
OCTETS_A_LOOK: Final = 2 << 20  # at 50 looks a second: what one learner may cost the leader
BUSY_OCTETS: Final = 512 << 10  # the same while the leader's thread is busy
SILENCE_US: Final = 10_000_000  # after which a learner gives a copy up
ROOM_LOOK_US: Final = 1_000_000
ASK_AGAIN_US: Final = 60_000_000  # the leader may have less by then
logger = logging.getLogger("forebay")


class CopyOffered(msgspec.Struct, frozen=True):
    """The content of FILES."""

    files: list[tuple[str, int]]
    floor: int
    wals: list[int]
    segments: list[tuple[int, int, int]]


def message(kind: int, octets: bytes = b"") -> bytes:
    """Encode a message about a copy."""
    return bytes((COPY, kind)) + octets


class CopySource:
    """The copies that a leader's members are making of its files."""

    def __init__(self, store: Store, links: Links, standing: Standing) -> None:
        self.store = store
        self.links = links
        self.standing = standing
        self.senders: dict[str, CopySender] = {}
        self.asked: set[str] = set()

    def told(self, node: str, wants: bool) -> None:
        """Note whether a member wants a copy, and end the copy that it had begun before."""
        sender = self.senders.pop(node, None)
        if sender is not None:
            self.store.release(sender.snapshot)
        if wants:
            self.asked.add(node)
        else:
            self.asked.discard(node)

    def look(self) -> None:
        """Continue the copies under way, and begin those asked for once the files can be held."""
        for node in sorted(self.asked):
            snapshot = self.store.snapshot()
            if snapshot is None:
                break
            self.asked.discard(node)
            self.senders[node] = CopySender(node, snapshot)
        most = BUSY_OCTETS if self.standing.is_busy else OCTETS_A_LOOK
        for node, sender in list(self.senders.items()):
            try:
                is_done = sender.send(self.links, most)
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
        """Send at most `most` octets as far as they can be sent now; return whether all have been."""
        while most > 0:
            octets, at, position = self.next(min(most, PART_OCTETS))
            if not links.send_bulk(self.node, octets):
                return False
            most -= len(octets)
            self.at, self.position = at, position
            if octets[1] == DONE:
                return True
        return False

    def next(self, most: int) -> tuple[bytes, int, int]:
        """Return the next message, with at most `most` octets of a file, and the position after it."""
        files = self.snapshot.files
        if self.at < 0:
            return message(FILES, self.offered()), 0, 0
        if self.at == len(files):
            return message(DONE), self.at, 0
        file = files[self.at]
        octets = self.snapshot.read(file.path, self.position, most)
        head = PART_HEAD.pack(self.at, self.position)
        end = self.position + len(octets)
        after = (self.at + 1, 0) if end >= file.octets else (self.at, end)
        return message(PART, head + octets), *after

    def offered(self) -> bytes:
        """Encode the content of the message FILES."""
        inventory = self.snapshot.inventory
        files = [(file.path, file.octets) for file in self.snapshot.files]
        return msgspec.json.encode(CopyOffered(files, inventory.floor, list(inventory.wals), list(inventory.segments)))


class CopyTaker:
    """A learner's side of a copy, which fills the learner's folder.

    node     the leader
    heard_us time at which something came last
    """

    def __init__(self, copy: FolderCopy, node: str, now_us: int) -> None:
        self.copy = copy
        self.node = node
        self.heard_us = now_us
        self.offered: CopyOffered | None = None

    def take(self, octets: bytes, now_us: int) -> bool:
        """Process a message of the leader; return whether the folder is complete.

        Raises BadCopy, DiskFull or PeerError.
        """
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
        """Decode the offer of files that the leader has sent. Raises PeerError."""
        try:
            return msgspec.json.decode(octets, type=CopyOffered)
        except msgspec.DecodeError as error:
            raise PeerError(MALFORMED, f"a list of files cannot be read: {error}") from error

    def octets(self) -> int:
        """Return the number of octets of all offered files."""
        return 0 if self.offered is None else sum(octets for _, octets in self.offered.files)

    def is_silent(self, now_us: int) -> bool:
        """Return whether the leader has sent nothing for long."""
        return now_us - self.heard_us > SILENCE_US


class Filling:
    """The filling of a member's folder with the files of its leader.

    taker    of the copy: there is no store as long as it is there
    lacking  octets for which the disk has no room; 0 while the copy goes on
    """

    def __init__(self, member: ClusterNode) -> None:
        self.member = member
        self.taker: CopyTaker | None = None
        self.lacking = 0
        self.look_us = 0
        self.until_us = 0

    def is_folder_in_use(self) -> bool:
        """Return whether something writes to the folder, whose files cannot be taken away then."""
        group = self.member.group
        return group.under_way or group.store.job_running is not None or self.member.is_writing_aside()

    def begin(self, node: str) -> None:
        """Replace this node's files by those of the leader, as soon as nothing writes to them."""
        member = self.member
        if self.taker is not None or self.is_folder_in_use():
            return  # the caller repeats the call until the copy has begun
        logger.warning("cluster: this node lacks what is in no log file any more: it copies the files of %s", node)
        member.group.store.close()
        self.taker = CopyTaker(begin_copy(member.process.disk, member.process.chance), node, member.now_us())
        member.links.send(node, message(ASK))

    def begin_empty(self, why: str) -> None:
        """Give up this node's data, which can never become the leader's log again. A copy brings the files then."""
        member = self.member
        if self.is_folder_in_use():
            return  # the leader's frames come again, and are refused again
        if member.group.is_in_sync():
            raise StorageError(
                f"{member.process.disk.root}: this store is in sync, and yet has another log than the leader: {why}"
            )
        member.group.store.close()
        begin_empty(member.process.disk, member.process.chance)
        member.begin_anew(why)

    def take(self, node: str, octets: bytes) -> None:
        """Process a message of the leader about the copy."""
        taker = self.taker
        if taker is None or taker.node != node or self.lacking:
            return
        try:
            is_whole = taker.take(octets, self.member.now_us())
            if octets[1] == FILES:
                self.check_room(taker.octets())
        except BadCopy as error:
            self.member.begin_anew(f"the copy of the files of {node} failed: {error}")
            return
        except DiskFull as error:
            self.wait(taker, error)
            return
        if is_whole:
            self.member.begin_anew(f"the files of {node} are copied")

    def check_room(self, octets: int) -> None:
        """Raise DiskFull if the disk cannot take all that is to come: half a copy is of no use, and takes long."""
        disk = self.member.process.disk
        free = disk.free_octets()
        if free < octets:
            raise DiskFull(f"{disk.root}: {octets} octets are to come, and {free} are free")

    def wait(self, taker: CopyTaker, error: DiskFull) -> None:
        """Put the copy off until the disk has room for it."""
        logger.error(
            "cluster: the disk is full, so the files of %s are not copied until there is room: %s", taker.node, error
        )
        self.member.links.send(taker.node, message(GIVE_UP))
        clear(self.member.process.disk)
        now = self.member.now_us()
        self.lacking = max(1, taker.octets())
        self.look_us = now + ROOM_LOOK_US
        self.until_us = now + ASK_AGAIN_US

    def look(self, now_us: int) -> None:
        """Start over if the leader has gone silent, or if the disk has room for a copy that was put off."""
        taker = self.taker
        assert taker is not None
        if not self.lacking:
            if taker.is_silent(now_us):
                self.member.begin_anew(f"nothing more came of the files of {taker.node}")
        elif now_us >= self.look_us:
            self.look_us = now_us + ROOM_LOOK_US
            if self.member.process.disk.free_octets() >= self.lacking:
                self.member.begin_anew(f"the disk has room for the files of {taker.node}")
            elif now_us >= self.until_us:
                self.member.begin_anew(f"it looks again how long the files of {taker.node} are")
