"""The connection of a reader of blocks to a node that does not lead: a token, then fetches, and nothing else."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections import deque
from typing import cast

from forebay.core.errors import MALFORMED, REFUSED, UNEXPECTED, PeerError, RequestError
from forebay.server.cluster.reads.grants import Grant
from forebay.server.transport.sending import FileSender, Sending
from forebay.session.blocks.answers import BlocksAnswer
from forebay.session.blocks.picking import Picking
from forebay.session.session import FilePart
from forebay.wire.blocks.frames import (
    FETCH,
    FETCHES_MAX,
    PREFACE,
    PREFACE_OCTETS,
    READ,
    REPLY,
    REQUEST,
    REQUEST_OCTETS_MAX,
    Request,
    decode_frame,
    decode_request,
    encode_error,
    encode_json,
)


class ReaderHost(ABC):
    """The node as its readers call it."""

    @abstractmethod
    def now_us(self) -> int:
        """Return the time of the monotonic clock, in microseconds."""

    @abstractmethod
    def sender(self) -> FileSender:
        """Return the thread that sends files."""

    @abstractmethod
    def begin(self, reader: GrantedReader) -> None:
        """Add a new reader."""

    @abstractmethod
    def end(self, reader: GrantedReader) -> None:
        """End the reader: the connection is gone."""

    @abstractmethod
    def ask(self, reader: GrantedReader) -> None:
        """Look up the grant of a reader that has shown its token. The grant may still be on its way."""

    @abstractmethod
    def wake(self, reader: GrantedReader) -> None:
        """Queue a reader, whose fetch is answered when its turn comes."""


class GrantedReader(asyncio.Protocol):
    """The connection of one reader of blocks.

    token    that it has shown; `grant` is what that stands for, once it is known
    pending  fetches that were not answered yet
    sending  part of a file is on its way: nothing else may be sent before it is there
    blocked  it has not taken the last answer
    moved_us  time at which something was received or sent last
    late_us   when it is told that what it waits for does not come; 0 while it waits for nothing
    until_us  time at which its grant ends
    """

    def __init__(self, reads: ReaderHost) -> None:
        self.reads = reads
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.greeted = False
        self.data = b""
        self.token = ""
        self.grant: Grant | None = None
        self.pending: deque[Request] = deque()
        self.picking = Picking()
        self.sending: Sending | None = None
        self.blocked = False
        self.closing = False
        self.moved_us = reads.now_us()
        self.late_us = 0
        self.until_us = 0

    # ---- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=0)  # an answer at a time is enough memory for a reader
        self.reads.begin(self)

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        self.moved_us = self.reads.now_us()
        self.data += data
        try:
            self.read()
        except PeerError as error:
            self.fail("protocol", error.reason, error.text)
        except RequestError as error:
            self.fail("request", error.reason, error.text)

    def pause_writing(self) -> None:
        self.blocked = True

    def resume_writing(self) -> None:
        self.blocked = False
        self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self.pending.clear()
        if self.sending is not None:
            self.reads.sender().give_up(self.sending)
        self.reads.end(self)

    # ---- what the reader asks

    def read(self) -> None:
        """Process the received data, as far as it forms whole messages."""
        at = 0
        if not self.greeted:
            self.greeted = True
            self.transport.write(PREFACE)
            at = PREFACE_OCTETS
        while not self.closing:
            frame = decode_frame(self.data, at, REQUEST_OCTETS_MAX)
            if frame is None:
                break
            at += frame.octets
            if frame.kind != REQUEST:
                raise PeerError(MALFORMED, f"frame of kind {frame.kind} from a client; only {REQUEST} is expected")
            self.on_request(decode_request(frame.payload))
        self.data = self.data[at:]

    def on_request(self, request: Request) -> None:
        if self.grant is None:
            if request.op != READ or self.token:
                raise RequestError(REFUSED, f"{request.op}: show a token first")
            self.token = request.token
            self.reads.ask(self)
            return
        if request.op != FETCH:
            raise RequestError(REFUSED, f"{request.op}: this node does not lead: only {FETCH} is served here")
        if len(self.pending) >= FETCHES_MAX:
            raise PeerError(UNEXPECTED, f"more than {FETCHES_MAX} fetches at once")
        self.pending.append(request)
        self.go_on()

    def granted(self, grant: Grant, until_us: int) -> None:
        """Accept a reader: the leader has said what it may read. The grant holds until `until_us`."""
        self.grant = grant
        self.until_us = until_us
        self.late_us = 0
        self.transport.write(encode_json(REPLY, {}))

    def go_on(self) -> None:
        """Queue this reader, so that its next fetch is answered when its turn comes."""
        if self.pending and self.late_us == 0 and not self.closing:
            self.reads.wake(self)

    # ---- what it is sent

    def takes_more(self) -> bool:
        """Return whether the reader has taken everything that it was sent."""
        return self.sending is None and not self.blocked and self.transport.get_write_buffer_size() == 0

    def waits(self) -> bool:
        """Return whether an event will tell when the reader takes more, so that no timer has to look."""
        return self.sending is not None or self.blocked

    def sends_files(self) -> bool:
        """Return whether the system can send parts of files to this reader, which TLS does not allow."""
        return self.transport.get_extra_info("sslcontext") is None

    def send(self, answer: BlocksAnswer) -> None:
        """Send the answer to a fetch."""
        self.moved_us = self.reads.now_us()
        if answer.file is not None:
            self.send_file(answer.head, answer.file)
        else:
            self.transport.writelines([answer.head, *answer.parts])

    def send_file(self, head: bytes, part: FilePart) -> None:
        own = self.transport.get_extra_info("socket")
        try:
            self.sending = self.reads.sender().begin(own, head, part, self.file_ended)
        except OSError:  # no handle is left for it
            os.close(part.handle)
            self.transport.abort()

    def file_ended(self, whole: bool) -> None:
        """Resume output after a file. Abort unless all of it was sent: the reader cannot tell what comes next."""
        self.sending = None
        self.moved_us = self.reads.now_us()
        if whole:
            self.go_on()
        else:
            self.transport.abort()

    def fail(self, error: str, reason: str, text: str) -> None:
        """Send the reason why nothing more comes from this node, and close: the reader goes elsewhere."""
        if self.closing:
            return
        self.closing = True
        self.pending.clear()
        if self.waits():
            self.transport.abort()
            return
        greeting = b"" if self.greeted else PREFACE
        self.transport.write(greeting + encode_error(error, reason, text))
        self.transport.close()
