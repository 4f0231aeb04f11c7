"""A session of any protocol in a node in the test's hand: octets go in by hand, turns end by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forebay.broker.auth import Auth
from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options
from forebay.session.effects import Session
from tests.node_rig import NodeRig

MakeSession = Callable[[int, Vhosts, Auth, Options, bool], Session]


class SessionRig:
    """One session, and everything below it.

    sent  what it has written, of all turns that ended
    """

    def __init__(self, folder: str, make: MakeSession, **options: object) -> None:
        self.rig = NodeRig(Path(folder), None, **options)
        self.make = make
        self.node = self.rig.node
        self.clock = self.rig.clock
        self.disk = self.rig.disk
        self.store = self.node.store
        self.vhosts = self.node.vhosts
        self.vhost = self.vhosts.default
        self.reconnect()

    def reconnect(self) -> None:
        """Have another session, of which nothing is known yet."""
        self.sent = b""
        self.line = self.rig.connect("amqp")
        self.node.seat(self.line, self.made)
        assert self.line.session is not None
        self.session = self.line.session

    def made(self, id: int) -> Session:
        return self.make(id, self.vhosts, self.node.auth, self.node.options, True)

    def send(self, octets: bytes) -> None:
        """The octets of one read."""
        if self.session.closing:
            return
        data = self.unused() + octets
        self.line.received(octets)
        self.rig.check()
        assert data.endswith(self.unused())

    def unused(self) -> bytes:
        """The octets that have come and are no whole frame."""
        return self.line.rest if self.line.parts is None else b"".join(self.line.parts)

    def turn(self) -> None:
        """The end of a turn whose writes are on disk at once."""
        self.node.touch(self.line)
        self.rig.do(self.node.turn())
        while self.rig.commit is not None:
            self.rig.sync()
        self.sent += bytes(self.line.sent)
        self.line.sent.clear()

    def close(self) -> None:
        """The connection is gone; nothing may be left of it."""
        self.line.close()
        self.rig.check()
        for queue in self.vhost.queues.values():
            assert queue.consumer_count() == 0
        self.rig.close()
