"""A broker in the test's hand that ends in every way, and goes on: after SIGTERM, after `kill -9`, on another member.

Each of its nodes is a member of a group, whose store is replicated; the others of the group have all that is on its
disk. A stop in order is one of a node alone, so for that the store is such a node's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from forebay.core.options import Options
from forebay.core.ports import Clock, Disk
from forebay.log.store import Store
from forebay.log.stored import Recovery
from forebay.node.node import Node
from tests.mqtt_rig import MqttRig
from tests.node_rig import Counted, SmallNode
from tests.replicated import Following
from tests.stores import SMALL
from tests.vhosts import OneVhost

STOP: Final = "SIGTERM"
KILL: Final = "kill -9"
TAKE_OVER: Final = "take-over"
ENDS: Final = (STOP, KILL, TAKE_OVER)
SECOND_US: Final = 1_000_000


class MemberNode(SmallNode):
    """A node that leads a group in an epoch, on what recovery found."""

    def __init__(self, options: Options, disk: Disk, clock: Clock, store: Store, found: Recovery, epoch: int) -> None:
        super().__init__(options, disk, clock, Counted(), 0, store)
        self.found = found
        self.epoch = epoch

    def load(self) -> None:
        self.load_from(self.found, self.epoch)


class RestartRig(MqttRig, OneVhost):
    """A broker for one way to end.

    epoch  in which its node leads; 0 for a node alone
    """

    def __init__(self, folder: Path, way: str, **options: object) -> None:
        self.way = way
        self.epoch = 0
        self.following: Following | None = None
        super().__init__(folder, None, **options)

    def make_node(self) -> Node:
        if self.way != TAKE_OVER:
            return super().make_node()
        self.epoch += 1
        if self.following is None:
            store = Store(self.disk, self.clock, SMALL, True)
            return MemberNode(self.options, self.disk, self.clock, store, store.open(), self.epoch)
        self.disk = self.following.disk
        store = self.following.store
        return MemberNode(self.options, self.disk, self.clock, store, store.recovery(), self.epoch)

    def write(self) -> None:
        if not self.epoch:
            super().write()
            return
        commit, self.commit = self.commit, None
        assert commit is not None
        commit.run()
        self.store.commit_to(self.store.written(commit))
        self.node.committed(self.store.durable)
        self.do(self.node.take())

    def now_us(self) -> int:
        return self.clock.us

    def note_end(self) -> None:
        self.node.vhosts.stop_in_order()

    def end(self, down_s: float) -> None:
        """End, and go on so many seconds later."""
        if self.way == STOP:
            self.stop()
        elif self.way == TAKE_OVER:
            self.following = Following(self.folder / f"member {self.epoch}", clock=self.clock)
            assert self.following.fetch(self.store) is None
        self.clock.us += round(down_s * SECOND_US)
        self.crash()
