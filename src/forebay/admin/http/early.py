"""Connections over HTTP before the web framework is loaded.

Probes and scrapes are answered, as loading takes seconds on a small machine, and orchestrators do not wait for so long.
Any other request has the framework loaded, and its connection waits for that.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

from forebay.admin.http.early_answers import OTHER_ERROR, EarlyAnswers, refusal_of
from forebay.admin.http.early_request import (
    HEAD_END,
    HEAD_OCTETS_MAX,
    KEEP_ALIVE_S,
    LINE_END,
    EarlyAnswer,
    EarlyRequest,
    encode_answer,
    read_request,
)
from forebay.core.units import MS_PER_S
from forebay.directory.logins.authorizer import Undecided
from forebay.node.peer import Peer, split_name
from forebay.server.broker_view import BrokerView
from forebay.server.faults import REQUEST
from forebay.server.probes import UNAVAILABLE
from forebay.server.transport.door import SLOW

if TYPE_CHECKING:
    from forebay.admin.http.answering import HttpServer


class EarlyHost(ABC):
    """The service whose connections these are.

    server   what makes connections that are answered by the framework; None until it is loaded
    early    its connections that began before
    answers  what they are answered meanwhile
    """

    app: BrokerView
    server: HttpServer | None
    early: set[EarlyConnection]
    answers: EarlyAnswers

    @abstractmethod
    def load_for(self, connection: EarlyConnection) -> None:
        """Load the framework, if that is not under way, for a connection that waits for it."""


class EarlyConnection(asyncio.Protocol):
    """One connection. At most one read of a request that waits is taken, the rest of it waits in the system.

    data      what was received and is not answered
    answering  the request that is being answered; None if there is none
    is_waiting  for the framework
    deadline  of the head, of an idle connection, or of a client that does not read; None while the broker is at work
    """

    def __init__(self, host: EarlyHost, peer: Peer | None) -> None:
        self.host = host
        self.door = host.app.door
        self.peer = peer
        self.client: tuple[str, int] | None = None
        self.address = ""
        self.transport = cast("asyncio.Transport", None)
        self.loop = asyncio.get_running_loop()
        self.data = b""
        self.answering: asyncio.Task[None] | None = None
        self.is_waiting = False
        self.is_lost = False
        self.is_unread = False
        self.deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        known = split_name(self.peer.name) if self.peer is not None else transport.get_extra_info("peername")
        self.client = (str(known[0]), int(known[1])) if isinstance(known, tuple) and len(known) >= 2 else None
        self.address = self.client[0] if self.client is not None else ""
        lack = self.door.enter(self.address)
        if lack:
            self.transport.write(encode_answer(refusal_of(UNAVAILABLE, lack, {}), None, is_last=True))
            self.transport.close()
            return
        self.host.early.add(self)
        self.limit(self.host.app.options.handshake_timeout_ms / MS_PER_S)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.limit(0)
        self.host.early.discard(self)
        self.door.unread.discard(self.transport)
        self.leave()

    def leave(self) -> None:
        self.door.leave(self.address)
        self.door.octets -= len(self.data)

    # ---- what comes

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self.data:
            self.limit(self.host.app.options.handshake_timeout_ms / MS_PER_S)
        self.data += data
        self.door.octets += len(data)
        self.proceed()

    def proceed(self) -> None:
        """Answer the next request, wait for the rest of its head, or for the framework."""
        if self.is_lost or self.answering is not None or self.is_waiting or self.is_unread:
            return
        if self.host.server is not None:
            self.hand_over(self.host.server)
            return
        if not self.data:
            self.transport.resume_reading()
            return
        end = self.data.find(HEAD_END, 0, HEAD_OCTETS_MAX)
        if end < 0 and len(self.data) < HEAD_OCTETS_MAX and self.may_be_answered():
            self.transport.resume_reading()
            return
        request = read_request(self.data[:end]) if end >= 0 else None
        self.transport.pause_reading()
        if request is not None and self.host.answers.takes(request, self.client):
            self.limit(0)
            self.answering = self.loop.create_task(self.answer(request, end + len(HEAD_END)))
        else:
            self.wait()

    def may_be_answered(self) -> bool:
        """Return whether the beginning of a head may be that of a request that is answered here."""
        line, end, _ = self.data.partition(LINE_END)
        request = read_request(line) if end else None
        return not end or (request is not None and self.host.answers.takes(request, None))

    async def answer(self, request: EarlyRequest, octets: int) -> None:
        """Answer a request, which takes so many octets of what was received, and go on with the next."""
        answer: EarlyAnswer | None = None
        is_last = request.is_last
        try:
            answer = await self.host.answers.answer(request, self.client)
        except Undecided:
            pass  # the framework's handlers ask those who decide
        except Exception as error:  # noqa: BLE001  the request's boundary
            self.host.app.faults.note(REQUEST, f"the request {request.method} {request.path}", error)
            answer, is_last = refusal_of(500, OTHER_ERROR, {}), True
        self.answering = None
        if self.is_lost or self.transport.is_closing():
            return
        if answer is None:
            self.wait()
            return
        self.data = self.data[octets:]
        self.door.octets -= octets
        self.transport.write(encode_answer(answer, request, is_last))
        if is_last:
            self.transport.close()
            return
        if not self.is_unread:
            self.limit(KEEP_ALIVE_S)
        self.proceed()

    # ---- the framework

    def wait(self) -> None:
        """Wait for the framework, or go on if it is loaded by now."""
        self.limit(0)
        if self.host.server is not None:
            self.hand_over(self.host.server)
            return
        self.is_waiting = True
        self.transport.pause_reading()
        self.host.load_for(self)

    def on_loaded(self, server: HttpServer) -> None:
        """Go on with the framework, at once or behind the answer that is under way."""
        if self.answering is None and not self.is_unread:
            self.hand_over(server)

    def hand_over(self, server: HttpServer) -> None:
        """Become a connection that the framework answers."""
        self.limit(0)
        self.host.early.discard(self)
        self.leave()
        connection = server.make_connection(self.peer)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        self.transport.resume_reading()
        if self.data:
            connection.data_received(self.data)

    # ---- clients that take long

    def limit(self, seconds: float) -> None:
        """End the connection unless something happens within so many seconds; 0: there is no limit any more."""
        if self.deadline is not None:
            self.deadline.cancel()
        self.deadline = self.loop.call_later(seconds, self.on_deadline) if seconds else None

    def on_deadline(self) -> None:
        if self.data or self.is_unread:
            self.door.refused[SLOW] += 1
        self.transport.abort()

    def pause_writing(self) -> None:
        self.is_unread = True
        self.door.add_unread(self.transport)
        self.limit(self.host.app.options.http_request_timeout_ms / MS_PER_S)

    def resume_writing(self) -> None:
        self.is_unread = False
        self.door.unread.discard(self.transport)
        if not self.transport.is_closing():
            self.limit(KEEP_ALIVE_S)
            self.proceed()
