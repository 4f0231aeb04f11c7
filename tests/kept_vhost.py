"""A vhost over real files that can be left and opened again, without a server."""

from __future__ import annotations

from pathlib import Path

from forebay.broker.vhost import Vhost
from forebay.core.options import make_options
from forebay.log.store import Store
from tests.stores import SMALL, SmallDisk, TestClock


class KeptVhost:
    """The vhost, open; its clock stands still."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = TestClock()
        self.open()

    def open(self) -> None:
        self.disk = SmallDisk(str(self.folder))
        self.store = Store(self.disk, self.clock, SMALL)
        recovery = self.store.open()
        self.vhost = Vhost(b"/", self.store, make_options({}))
        self.vhost.recover(recovery.entries, self.clock.us)
        self.store.start(self.vhost.checkpoint())

    def reopen(self) -> None:
        """As after a kill: what was synced is there."""
        self.vhost.end_turn(self.clock.us)
        commit = self.store.flush()
        if commit is not None:
            commit.run()
            self.store.synced(commit)
        self.close()
        self.open()

    def close(self) -> None:
        self.disk.close_all()
