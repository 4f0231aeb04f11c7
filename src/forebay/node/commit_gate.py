"""The gate before the clients of a group's leader: deliveries leave once what they tell of is committed.

On a single node a delivery may leave before its record is on the disk: a crash takes both, the record was never
confirmed, and whoever published it publishes it again. A leader that goes on alone, or is followed by another, must not
have delivered what its followers never had, nor anything while another may deliver. So the octets of connections that
are delivered to wait here, in their order, until the frame of their turn is committed and the lease is valid.
Connections that only publish pass: their confirms wait for the commit anyway, and need no lease.
"""

from __future__ import annotations

from collections import deque
from typing import final

from forebay.core.pieces import Part
from forebay.node.link import Link
from forebay.session.session import Session


@final
class KeptOutput:
    """The octets that one connection has to wait for.

    pieces  by the frame that they wait for, which never decreases
    octets  of all of them
    freed   what waits no longer: the first that the session has to send, unless that is done
    """

    def __init__(self) -> None:
        self.pieces: deque[tuple[int, list[Part]]] = deque()
        self.octets = 0
        self.freed: list[Part] = []

    def gather(self, link: Link, session: Session, lsn: int) -> None:
        """Keep what the session has written since the last look, for this frame; only what waits no longer stays."""
        parts = link.take()
        freed = self.freed
        if freed and parts and parts[0] is freed[0]:
            session.parts[:] = freed
            del parts[: len(freed)]
        else:
            self.freed = []
        self.add(lsn, parts)

    def free(self, session: Session, durable: int) -> None:
        """Have what waits no longer be the next that the session sends; it has nothing else to send."""
        parts = self.take(durable)
        if parts and not self.freed:
            parts[0] = bytes(bytearray(parts[0]))  # an object of its own, by which `gather` knows it
        self.freed += parts
        session.parts += parts

    def add(self, lsn: int, parts: list[Part]) -> None:
        """These wait for this frame, or for what came before them."""
        if not parts:
            return
        for part in parts:
            self.octets += len(part)
        if self.pieces and self.pieces[-1][0] >= lsn:
            self.pieces[-1][1].extend(parts)
        else:
            self.pieces.append((lsn, parts))

    def take(self, durable: int) -> list[Part]:
        """The octets that wait no longer."""
        out: list[Part] = []
        while self.pieces and self.pieces[0][0] <= durable:
            out += self.pieces.popleft()[1]
        for part in out:
            self.octets -= len(part)
        return out


@final
class CommitGate:
    """One for a node that leads.

    lsn      the frame of the last turn: what has been delivered until now is committed when it is
    is_open  the lease is valid: deliveries may leave
    kept     the octets of connections that wait
    """

    def __init__(self) -> None:
        self.lsn = 0
        self.is_open = False
        self.kept: dict[Link, KeptOutput] = {}

    def keeps(self, link: Link, session: Session, durable: int) -> bool:
        """True if something of what the session has written stays here for now; the rest is in its `parts`."""
        kept = self.kept.get(link)
        if kept is None:
            if not session.has_delivered or (self.is_open and self.lsn <= durable):
                return False
            if session.file is not None and self.is_open:
                return False  # of a file is sent only what was committed before
            kept = self.kept[link] = KeptOutput()
        self.let(link, session, kept, durable)
        return bool(kept.pieces)

    def let(self, link: Link, session: Session, kept: KeptOutput, durable: int) -> None:
        """Leave with a session what waits no longer, and keep all else that it has written."""
        kept.gather(link, session, self.lsn)
        if self.is_open:
            kept.free(session, durable)
        link.kept_octets = kept.octets
        if not kept.pieces:
            del self.kept[link]

    def pass_on(self, durable: int) -> list[Link]:
        """The connections that have something to be sent now."""
        if not self.is_open or not self.kept:
            return []
        ready: list[Link] = []
        for link, kept in list(self.kept.items()):
            session = link.session
            if session is not None and kept.pieces[0][0] <= durable:
                self.let(link, session, kept, durable)
                ready.append(link)
        return ready

    def forget(self, link: Link) -> None:
        """The connection is gone."""
        self.kept.pop(link, None)
        link.kept_octets = 0
