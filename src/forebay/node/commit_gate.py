"""The gate before the clients of a group's leader: deliveries leave once what they tell of is committed.

On a single node a delivery may leave before its record is on the disk: a crash takes both, the record was never
confirmed, and whoever published it publishes it again. A leader that goes on alone, or is followed by another, must not
have delivered what its followers never had, nor anything while another may deliver. So the octets of connections that
are delivered to wait here, in their order, until the frame of their turn is committed and the lease is valid.
Connections that only publish pass: their confirms wait for the commit anyway, and need no lease. So do deliveries of
records that were committed before, but for the lease: a consumer that is behind waits for no frame.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.core.pieces import Part
from forebay.log.stored_log import StoredLog
from forebay.node.link import Link
from forebay.queue.leases.lease import Delivery
from forebay.session.session import Session

# The kinds of `Link.waits`: what a session has written since it was asked for last.
ANYTHING: Final = 0
COMMITTED: Final = 1  # deliveries of records that are committed, and nothing else
NEWER: Final = 2  # among them of others


@final
class KeptOutput:
    """The output of one connection that waits for a commit.

    pieces  output with the LSN it waits for, which never decreases
    octets  total bytes of the pieces
    """

    def __init__(self) -> None:
        self.pieces: deque[tuple[int, list[Part]]] = deque()
        self.octets = 0

    def add(self, lsn: int, parts: list[Part]) -> None:
        """Append output that waits for this frame, or for the output before it."""
        if not parts:
            return
        for part in parts:
            self.octets += len(part)
        if self.pieces and self.pieces[-1][0] >= lsn:
            self.pieces[-1][1].extend(parts)
        else:
            self.pieces.append((lsn, parts))

    def take(self, durable: int) -> list[Part]:
        """Return and remove the output whose frames are durable."""
        out: list[Part] = []
        while self.pieces and self.pieces[0][0] <= durable:
            out += self.pieces.popleft()[1]
        for part in out:
            self.octets -= len(part)
        return out


@final
class CommitGate:
    """The gate of a leader, which keeps deliveries back until their records are committed.

    lsn      the frame of the last turn: what has been delivered until now is committed when it is
    is_open  whether the leader's lease is valid, so that deliveries may be sent
    kept     output that waits, by connection
    """

    def __init__(self) -> None:
        self.lsn = 0
        self.is_open = False
        self.kept: dict[Link, KeptOutput] = {}

    def keeps(self, link: Link, session: Session, durable: int) -> bool:
        """Return whether the session's output must wait for a commit, and if so keep it behind earlier output."""
        kept = self.kept.get(link)
        lsn = 0 if link.waits == COMMITTED else self.lsn
        link.waits = ANYTHING
        if kept is None:
            if not session.has_delivered or (self.is_open and lsn <= durable):
                return False
            if session.file is not None and self.is_open:
                return False  # only committed records are sent from a file
            kept = self.kept[link] = KeptOutput()
        kept.add(lsn, link.take_written())
        link.kept_octets = kept.octets
        return True

    def look_at(self, link: Link, delivery: Delivery, logs: dict[int, StoredLog]) -> None:
        """Record whether the records of a delivery are committed. Call before the session writes it."""
        session = link.session
        if link.waits == ANYTHING and session is not None:
            link.waits = NEWER if len(session.out) or session.parts else COMMITTED
        if link.waits == COMMITTED:
            stored = logs.get(int(delivery.consumer.log_number))
            end: i64 = delivery.block.base + delivery.index + delivery.count
            if stored is None or (stored.log.durable and end > stored.log.durable_end):
                link.waits = NEWER

    def let(self, link: Link, kept: KeptOutput, durable: int) -> None:
        """Move the committed output of a connection to the bytes that are sent next."""
        link.passed += kept.take(durable)
        link.kept_octets = kept.octets
        if not kept.pieces and not link.is_sending():
            del self.kept[link]

    def pass_on(self, durable: int, dirty: dict[Link, None]) -> list[Link]:
        """Release committed output. Return its connections, without those whose session is writing in this turn.

        What such a session has written was not asked for here yet, and would leave with the rest.
        """
        if not self.is_open or not self.kept:
            return []
        ready: list[Link] = []
        for link, kept in list(self.kept.items()):
            if link not in dirty and (not kept.pieces or kept.pieces[0][0] <= durable):
                self.let(link, kept, durable)
                ready.append(link)
        return ready

    def forget(self, link: Link) -> None:
        """Discard the kept output of a connection that is gone."""
        self.kept.pop(link, None)
        link.kept_octets = 0
