"""The answer to Prometheus at a node that does not lead: metrics of its own, one answer a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from forebay.server.cluster.administration import ClusterState

HEAD_OCTETS_MAX: Final = 16 << 10
REQUEST_S: Final = 10.0
PATHS: Final = ("/metrics", "/metrics/per-object", "/metrics/detailed")
NAME: Final = "prometheus"  # of the listener's option
# Content type and document, for who sends this Accept header.
TellMetrics = Callable[["ClusterState", str], tuple[str, bytes]]


class ScrapeAnswer(asyncio.Protocol):
    """A connection from Prometheus, which gets one answer."""

    def __init__(self, tell: Callable[[str], tuple[str, bytes]]) -> None:
        self.tell = tell
        self.data = b""
        self.answered = False
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.timer = asyncio.get_running_loop().call_later(REQUEST_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        if self.answered:
            return
        self.data += data
        if b"\r\n\r\n" in self.data:
            self.answer()
        elif len(self.data) > HEAD_OCTETS_MAX:
            self.say(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "text/plain", b"")

    def connection_lost(self, error: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def answer(self) -> None:
        """Answer the request that has been received."""
        head, *lines = self.data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        words = head.split(" ")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if len(words) != 3:
            self.say(HTTPStatus.BAD_REQUEST, "text/plain", b"")
        elif words[0] != "GET":
            self.say(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"")
        elif words[1].partition("?")[0] not in PATHS:
            self.say(HTTPStatus.NOT_FOUND, "text/plain", b"")
        else:
            self.say(HTTPStatus.OK, *self.tell(fields.get("accept", "")))

    def say(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        """Send an answer, and close the connection after it."""
        self.answered = True
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()
