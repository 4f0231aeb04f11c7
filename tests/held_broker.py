"""A broker that tests reach as they reach one in a process, and that is a node in the test's hand.

It has the options that the process would have. Its time goes by where a client waits for octets, and where a test says.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from forebay.log.store import Store
from forebay.node.wanted import store_options
from tests.broker_process import AnyBroker, BrokerProcess, brokers_in
from tests.node_rig import TICK_US, NodeRig

MICROSECONDS: Final = 1_000_000
# How a test reaches its broker.
HELD, SOCKETS = "held", "sockets"


class HeldRig(NodeRig):
    """A node whose files are as large as the options say."""

    def make_store(self) -> Store:
        return Store(self.disk, self.clock, store_options(self.options))


class HeldBroker:
    """A data folder and the node on it."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.options = options
        self._rig: HeldRig | None = None

    def start(self) -> None:
        """Begin on what the folder holds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._rig = HeldRig(self.folder, None, **self.options)

    def dial(self, listener: str) -> socket.socket:
        """A new connection to a listener; its client's end."""
        return self.rig.dial(listener)

    @property
    def rig(self) -> HeldRig:
        """The node, and what is done around it."""
        assert self._rig is not None, "the broker does not run"
        return self._rig

    # ---- time

    def now(self) -> float:
        """Seconds since 1970, by its clock."""
        return self.rig.clock.us / MICROSECONDS

    def wait_out(self, seconds: float) -> None:
        """Let so much time pass, and a little more."""
        self.rig.wait(seconds + TICK_US / MICROSECONDS)

    def pass_moment(self) -> None:
        """Let a moment pass between two looks."""
        self.rig.wait(TICK_US / MICROSECONDS)

    # ---- ends

    def log_text(self) -> str:
        """All that it had to say."""
        return "\n".join(self.rig.said)

    def finish(self) -> None:
        """End of a test: nothing may have been wrong, and it must stop in peace, without the clients of the test."""
        for line in list(self.rig.lines):
            line.close()
        self.rig.settle()
        self.rig.check()
        self.rig.stop()

    def abandon(self) -> None:
        """Leave no file open, whatever the test did."""
        if self._rig is not None:
            self._rig.close()


@contextmanager
def brokers_by(way: str, folder: Path) -> Iterator[Callable[..., AnyBroker]]:
    """A function that starts a broker with the options given, which the test reaches this way."""
    if way == SOCKETS:
        with brokers_in(folder, BrokerProcess) as start_process:
            yield start_process
    else:
        with brokers_in(folder, HeldBroker) as start:
            yield start
