"""A broker in the test's hand that ends in every way, and goes on: after SIGTERM, after `kill -9`, on another member.

Each of its nodes is a member of a group, whose store is replicated; the others of the group have all that is on its
disk. A stop in order is one of a node alone, so for that the store is such a node's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from forebay.log.store import Store
from forebay.log.stored import Recovery
from forebay.log.wal import Commit
from forebay.node.group.lone_member import LoneMember, NodeMember
from tests.mqtt_rig import MqttRig
from tests.replicated import Following
from tests.stores import SMALL
from tests.vhosts import OneVhost

STOP: Final = "SIGTERM"
KILL: Final = "kill -9"
TAKE_OVER: Final = "take-over"
ENDS: Final = (STOP, KILL, TAKE_OVER)
SECOND_US: Final = 1_000_000


class FirstMember(LoneMember):
    """A member that leads in an epoch, on what recovery found. The others have all that is on its disk."""

    def __init__(self, store: Store, found: Recovery, epoch: int) -> None:
        super().__init__(store)
        self.found = found
        self.epoch = epoch

    def open(self) -> list[str]:
        self.is_ready = True
        return []

    def written(self, commit: Commit) -> None:
        self.store.commit_to(self.store.written(commit))

    def begin(self) -> None:
        self.store.commit_to(self.store.on_disk)
        super().begin()


class RestartRig(MqttRig, OneVhost):
    """A broker for one way to end.

    epoch  in which its node leads; 0 for a node alone
    """

    def __init__(self, folder: Path, way: str, **options: object) -> None:
        self.way = way
        self.epoch = 0
        self.following: Following | None = None
        super().__init__(folder, None, **options)

    def make_member(self) -> NodeMember:
        if self.way != TAKE_OVER:
            return super().make_member()
        self.epoch += 1
        if self.following is None:
            store = Store(self.disk, self.clock, SMALL, True)
            return FirstMember(store, store.open(), self.epoch)
        self.disk = self.following.disk
        store = self.following.store
        return FirstMember(store, store.recovery(), self.epoch)

    def now_us(self) -> int:
        return self.clock.us

    def note_end(self) -> None:
        self.broker.vhosts.stop_in_order()

    def end(self, down_s: float) -> None:
        """End, and go on so many seconds later."""
        if self.way == STOP:
            self.stop()
        elif self.way == TAKE_OVER:
            self.following = Following(self.folder / f"member {self.epoch}", clock=self.clock)
            assert self.following.fetch(self.store) is None
        self.clock.us += round(down_s * SECOND_US)
        self.crash()
