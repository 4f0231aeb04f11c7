"""A session of any protocol in a node in the test's hand: octets go in by hand, turns end by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options
from forebay.directory.logins.login import Auth
from forebay.session.session import Session
from tests.node_rig import NodeRig

MakeSession = Callable[[int, Vhosts, Auth, Options, bool], Session]


class SessionRig(NodeRig):
    """One session, and everything below it.

    sent  what it has written, of all turns that ended
    """

    def __init__(self, folder: str, make: MakeSession, **options: object) -> None:
        super().__init__(Path(folder), None, **options)
        self.make = make
        self.reconnect()

    def reconnect(self) -> None:
        """Have another session, of which nothing is known yet."""
        self.sent = b""
        self.line = self.connect("amqp")
        self.node.seat(self.line, self.made)
        assert self.line.session is not None
        self.session = self.line.session

    def made(self, id: int) -> Session:
        return self.make(id, self.vhosts, self.auth, self.options, True)

    def send(self, octets: bytes) -> None:
        """The octets of one read."""
        if self.session.closing:
            return
        data = self.unused() + octets
        self.line.received(octets)
        self.check()
        assert data.endswith(self.unused())

    def unused(self) -> bytes:
        """The octets that have come and are no whole frame."""
        return self.line.rest if self.line.parts is None else b"".join(self.line.parts)

    def turn(self, sync: bool = True) -> None:
        """As of any node; the session takes part."""
        self.node.touch(self.line)
        super().turn(sync)
        self.sent += bytes(self.line.sent)
        self.line.sent.clear()

    def leave(self) -> None:
        """The connection is gone; nothing may be left of it."""
        self.line.close()
        self.check()
        for queue in self.vhost.catalog.queues.values():
            assert queue.consumer_count() == 0

    def close(self) -> None:
        """As `leave`, and as of any node."""
        self.leave()
        super().close()
