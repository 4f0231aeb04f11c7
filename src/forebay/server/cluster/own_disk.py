"""The own disk of a node of a cluster: calls that the loop must not wait for, and what follows when it does not answer.

A leader whose own write or sync has not returned for `replica_timeout_ms` hands over at once to a member that has all.
Its heartbeats stop, too, so that others take over where that fails; and so does the lease of its presence in etcd.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from forebay.core.errors import DiskFull
from forebay.log.folder.identity import StoreIdentity, promise
from forebay.node.back_pressure.disk_room import LEADING, RoomTrial
from forebay.node.back_pressure.disk_silence import DiskSilence
from forebay.node.group.group_member import GroupMember
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.system.disk import DataDisk, FreeSpace
from forebay.server.system.disk_work import Work, Worker

PLENTY_OCTETS: Final = 1 << 30  # with so much free there is room to begin to lead
LOOK_S: Final = 0.05  # between two looks whether the disk answers
logger = logging.getLogger("forebay")


class Promise:
    """A promise on its way to the disk, after which `identity` holds it."""

    def __init__(self, disk: DataDisk, identity: StoreIdentity, epoch: int) -> None:
        self.disk = disk
        self.identity = identity
        self.epoch = epoch

    def run(self) -> None:
        self.identity = promise(self.disk, self.identity, self.epoch)


class OwnDisk:
    """The calls to one node's disk that a thread makes.

    files     the thread that waits for the disk
    asked     a question to the disk is not answered yet
    promises  on their way to the disk
    silence   of the disk
    told      the log says that another is to lead, or why none can
    told_full  the log says that the disk has no room for what the leader sends
    """

    def __init__(self, group: GroupMember, disk: DataDisk, limit_us: int, files: Worker) -> None:
        self.group = group
        self.disk = disk
        self.silence = DiskSilence(group, limit_us)
        self.files = files
        self.asked: set[str] = set()
        self.promises = 0
        self.told = ""
        self.told_full = False
        self.leaving: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Move disk calls that may wait to a thread, away from the loop, from here on."""
        self.disk.free_octets()
        self.disk.elsewhere = self.files.put
        self.group.promiser = self.promise

    def promise(self, epoch: int) -> None:
        """Write a promise by the thread, which then calls `GroupMember.promised`."""
        self.promises += 1
        self.files.put(Promise(self.disk, self.group.identity, epoch))

    def is_writing(self) -> bool:
        """Return whether the thread may have a file of the folder in hand, which nobody may take away then."""
        return self.promises > 0 or "room" in self.asked

    def ask(self) -> None:
        """Ask the disk for its free space, and try its room. Called about once a second while the node follows."""
        if "free" not in self.asked:
            self.asked.add("free")
            self.files.put(FreeSpace(self.disk))
        if not self.group.replica.standing.can_lead or self.disk.free < PLENTY_OCTETS:
            self.try_room(self.group.trial_to_lead())

    def try_room(self, trial: RoomTrial | None) -> None:
        """Try on the thread whether the disk has room, unless a trial is under way."""
        if trial is not None and "room" not in self.asked:
            self.asked.add("room")
            self.files.put(trial)

    def came_back(self, work: Work, error: BaseException | None, now: int) -> None:
        """Process an answer of the disk. Raise its error again if it is one of the log."""
        if isinstance(work, Promise):
            self.promises -= 1
            if error is not None:
                raise error
            self.group.promised(work.identity, work.epoch, now)
        elif isinstance(work, RoomTrial):
            self.asked.discard("room")
            if error is not None:
                raise error
            self.take_trial(work, now)
        else:
            if isinstance(work, FreeSpace):
                self.asked.discard("free")
            if error is not None:
                logger.error("data: %s", error)

    def take_trial(self, trial: RoomTrial, now: int) -> None:
        if trial.purpose != LEADING:
            self.group.tried(trial, now)
            return
        standing = self.group.replica.standing
        could, standing.can_lead = standing.can_lead, trial.fits
        self.tell_room(could, trial.fits)

    def tell_room(self, could: bool, can: bool) -> None:
        """Log that the disk has room to lead again, or no longer has."""
        if could and not can:
            logger.error("cluster: the disk of %s is full: this node does not lead until it has room", self.disk.root)
        elif can and not could:
            logger.info("cluster: the disk of %s has room: this node can lead again", self.disk.root)

    def tell_full(self, error: DiskFull | None) -> None:
        """Log once when the disk is full, and once when it has room again."""
        if error is not None and not self.told_full:
            logger.error("cluster: the disk is full, so this node cannot follow until it has room: %s", error)
        elif error is None and self.told_full:
            logger.info("cluster: the disk has room again, and this node follows")
        self.told_full = error is not None

    # ---- a disk that does not answer

    def await_answer(self, node: ClusterNode, then: Callable[[], None]) -> None:
        """Close the client listeners, and call `then` once the disk answers.

        A process that waits for a disk cannot end.
        """
        logger.warning("cluster: waits for its disk before it begins anew")
        node.listeners.close()
        self.leaving = node.process.loop.create_task(self.leave(node))
        self.leaving.add_done_callback(lambda _: then())

    async def leave(self, node: ClusterNode) -> None:
        await node.links.stop()
        await node.register.stop()
        while self.silence.is_silent():  # noqa: ASYNC110  a commit that comes back tells nobody else
            await asyncio.sleep(LOOK_S)

    def look(self, leads: bool, now: int) -> None:
        """Watch for a disk that does not answer: log that once, and hand over leadership."""
        words = self.silence.look(leads, now)
        if words and not self.told:
            logger.error("cluster: %s", words)
        self.told = words or (self.told if self.silence.is_silent() else "")
