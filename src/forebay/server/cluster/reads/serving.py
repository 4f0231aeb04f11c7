"""The readers of blocks that a node serves which does not lead.

Each pass of the loop answers one fetch of one reader, in turn: what the leader sends is taken in between. Files go from
a thread of its own. What a reader may have is what the leader has granted, as far as it is committed and here; a node
that leads, begins anew or is no longer in sync serves nobody, and its readers go elsewhere.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from forebay.core.errors import INTERNAL, NOT_FOUND, REFUSED, TOO_MANY, RequestError, StorageError
from forebay.log.queue_log import QueueLog
from forebay.replica.outcome import FOLLOWER
from forebay.routing.exchange import text
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.copying import Filling
from forebay.server.cluster.reads.grants import LIFE_US, GivenGrants, decode_grant
from forebay.server.cluster.reads.reader import GrantedReader, ReaderHost
from forebay.server.transport.sending import FileSender
from forebay.session.blocks.answers import answer_fetch
from forebay.wire.blocks.frames import Request

READERS_MAX: Final = 256
WRITTEN_OCTETS_MAX: Final = 1 << 20  # of an answer that is not sent from its file: it waits in memory for its reader
LATE_US: Final = 2_000_000  # for which a reader waits for its grant, or for records that the leader has already
IDLE_US: Final = LIFE_US  # Spark may be long about what it was sent last
UNKNOWN_US: Final = 10_000_000  # within which a reader must show a token
LOOK_US: Final = 1_000_000
logger = logging.getLogger("forebay")


class FollowerReads(ReaderHost):
    """The reads that one node serves as a follower.

    late     readers that wait for what the leader has said, or sent
    turns    readers with a fetch that can be answered
    octets   sent to readers so far
    """

    def __init__(self, member: ClusterNode, filling: Filling) -> None:
        self.member = member
        self.filling = filling
        self.grants = GivenGrants()
        self.readers: set[GrantedReader] = set()
        self.late: set[GrantedReader] = set()
        self.turns: deque[GrantedReader] = deque()
        self.scheduled = False
        self.octets = 0
        self.look_us = 0
        self.file_sender: FileSender | None = None

    def now_us(self) -> int:
        """Return the time of the monotonic clock, in microseconds."""
        return self.member.now_us()

    def sender(self) -> FileSender:
        """Return the thread that sends files; start it at the first call."""
        if self.file_sender is None:
            self.file_sender = FileSender(self.member.process.loop.call_soon_threadsafe)
        return self.file_sender

    def stop(self) -> None:
        """Abort all readers' connections, and stop the thread that sends files."""
        for reader in list(self.readers):
            reader.transport.abort()
        if self.file_sender is not None:
            self.file_sender.stop()
            self.file_sender = None

    # ---- from the leader

    def told(self, node: str, octets: bytes) -> None:
        """Remember a grant that the leader has sent. Raises PeerError if it is malformed."""
        grant = decode_grant(octets)
        if node == self.member.group.leader:
            self.grants.add(grant, self.now_us())
            self.look_at_late()

    # ---- from readers

    def begin(self, reader: GrantedReader) -> None:
        """Add a new reader, or abort its connection if there are too many."""
        if len(self.readers) >= self.member.process.options.connections_max:
            reader.transport.abort()
        else:
            self.readers.add(reader)

    def end(self, reader: GrantedReader) -> None:
        """End the reader: the connection is gone."""
        self.readers.discard(reader)
        self.late.discard(reader)

    def ask(self, reader: GrantedReader) -> None:
        """Look up the grant of a reader's token. Put the reader off if there is none: it may be on its way."""
        now_us = self.now_us()
        if sum([each.grant is not None for each in self.readers]) >= READERS_MAX:
            reader.fail("request", TOO_MANY, f"{READERS_MAX} readers are served already")
            return
        grant = self.grants.take(reader.token, now_us)
        if grant is not None:
            reader.granted(grant, now_us + LIFE_US)
        elif reader.late_us == 0:
            self.put_off(reader)
        elif now_us >= reader.late_us:
            reader.fail("request", REFUSED, "no grant with this token is known here")

    def put_off(self, reader: GrantedReader) -> None:
        """Put a reader off for a short time, until its grant comes."""
        if reader.late_us == 0:
            reader.late_us = self.now_us() + LATE_US
        self.late.add(reader)

    def wake(self, reader: GrantedReader) -> None:
        """Queue a reader, whose fetch is answered when its turn comes."""
        if reader not in self.turns:
            self.turns.append(reader)
        if not self.scheduled:
            self.scheduled = True
            self.member.process.loop.call_soon(self.serve_next)

    # ---- time

    def look(self, now_us: int) -> None:
        """Do the periodic work for the readers."""
        if self.late:
            self.look_at_late()
        if now_us < self.look_us:
            return
        self.look_us = now_us + LOOK_US
        self.grants.end_old(now_us)
        why = self.why_not() if self.readers else ""
        for reader in list(self.readers):
            idle_us = now_us - reader.moved_us
            if why:
                reader.fail("request", REFUSED, why)
            elif idle_us > (UNKNOWN_US if reader.grant is None else IDLE_US):
                reader.transport.abort()

    def look_at_late(self) -> None:
        """Look again for the grants and records that readers wait for."""
        for reader in list(self.late):
            if reader.grant is None:
                self.ask(reader)
            else:
                self.wake(reader)
            if reader.late_us == 0 or reader.closing:
                self.late.discard(reader)

    # ---- answers

    def why_not(self) -> str:
        """Return why this node serves no readers; "" if it serves them."""
        member = self.member
        if member.process.ended or self.filling.taker is not None:
            return f"node {member.settings.node} begins anew"
        if member.group.role != FOLLOWER:
            return f"node {member.settings.node} leads, or is not in sync"
        return ""

    def serve_next(self) -> None:
        """Answer one fetch."""
        self.scheduled = False
        reader = self.turns.popleft()
        if reader.pending and not reader.closing:
            self.serve(reader)
        if self.turns:
            self.wake(self.turns[0])

    def serve(self, reader: GrantedReader) -> None:
        """Answer the first fetch of a reader, if it takes the answer now."""
        if not reader.takes_more():
            if not reader.waits():
                self.wake(reader)
            return
        try:
            self.answer(reader, reader.pending[0])
        except StorageError as error:
            logger.warning("cluster: a reader of blocks cannot be served: %s", error)
            reader.fail("storage", "corrupt", str(error))
        except RequestError as error:
            reader.fail("request", error.reason, error.text)
        except Exception:
            logger.exception("cluster: a reader of blocks was let go by an error of our own")
            reader.fail("protocol", INTERNAL, "an error of the node's own")

    def answer(self, reader: GrantedReader, request: Request) -> None:
        grant = reader.grant
        assert grant is not None
        now_us = self.now_us()
        why = self.why_not()
        if why or now_us > reader.until_us:
            raise RequestError(REFUSED, why or "the grant has ended")
        if request.queue.encode() != grant.queue or not grant.first <= request.first < grant.end:
            raise RequestError(REFUSED, f"offset {request.first} of queue {request.queue!r} was not granted")
        log = self.log_of(grant.log, grant.lsn)
        end = 0 if log is None else min(request.end, grant.end, int(log.readable_end()))
        if log is None or end <= request.first:
            if reader.late_us and now_us >= reader.late_us:
                raise RequestError(REFUSED, f"node {self.member.settings.node} does not have the records yet")
            self.put_off(reader)
            return
        if request.first < log.kept:
            gone = f"queue '{text(grant.queue)}' begins at offset {int(log.kept)} here, after {request.first}"
            raise RequestError(NOT_FOUND, gone)
        reader.late_us = 0
        self.late.discard(reader)
        reader.pending.popleft()
        now = self.member.group.clock.now_us()
        found = answer_fetch(
            log, grant.queue, request, end, reader.picking, now, reader.sends_files(), WRITTEN_OCTETS_MAX
        )
        self.octets += int(found.octets)
        reader.send(found)
        reader.go_on()

    def log_of(self, number: int, lsn: int) -> QueueLog | None:
        """Return a queue's log once this node has committed up to `lsn`, as the leader's grant asks; None before.

        raises  RequestError where there is none
        """
        store = self.member.group.store
        if store.durable < lsn:
            return None
        stored = store.logs.stored.get(number)
        if stored is None:
            raise RequestError(NOT_FOUND, "the queue was deleted")
        return stored.log
