"""A session of any protocol in a node in the test's hand: octets go in by hand, turns end by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forebay.session.handshake import Handshake
from forebay.session.session import Session
from tests.node_rig import NodeRig

# The first bytes of a connection by its protocol.
BEGINNINGS = {"mqtt": b"\x10", "amqp": b"AMQP", "blocks": b"FBLK"}
MakeSession = Callable[[NodeRig, int], Session]


class SessionRig(NodeRig):
    """One session, from its handshake on or begun by hand, and everything below it.

    sent  what was written for its client, in all turns that ended
    """

    def __init__(self, folder: str, begin: str | MakeSession, **options: object) -> None:
        super().__init__(Path(folder), None, **options)
        self.begin = begin
        self.reconnect()

    def reconnect(self) -> None:
        """Have another session, of which nothing is known yet."""
        self.sent = b""
        begin = self.begin
        if isinstance(begin, str):
            self.line = self.connect(begin)
            self.line.handshake = self.broker.begin_handshake(self.line, BEGINNINGS[begin])
        else:
            self.line = self.connect("amqp")
            self.broker.seat(self.line, lambda id: begin(self, id))

    @property
    def session(self) -> Session | Handshake:
        """The session, or the handshake before it."""
        found = self.line.session or self.line.handshake
        assert found is not None
        return found

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
        self.broker.touch(self.line)
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
