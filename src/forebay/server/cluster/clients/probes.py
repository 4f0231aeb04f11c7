"""HTTP at a node that does not lead: it answers probes itself, and passes everything else on, or says where to go.

`/health` and `/ready` are of one node, whoever leads: an orchestrator asks them. The first request of a connection
decides; probes are answered on a connection of their own, as orchestrators make them.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

import msgspec

from forebay.node.peer import Peer
from forebay.server.cluster.clients.new_connection import NewConnection
from forebay.server.listen import Endpoint

LINE_OCTETS_MAX: Final = 8192
HEALTH: Final = "/health"
READY: Final = "/ready"
OK: Final = 200
UNAVAILABLE: Final = 503
BAD_REQUEST: Final = 400
PHRASES: Final = {
    OK: "OK",
    307: "Temporary Redirect",
    BAD_REQUEST: "Bad Request",
    UNAVAILABLE: "Service Unavailable",
}
JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"


class HttpHost(ABC):
    """The node, as probes and other requests over HTTP find it."""

    @abstractmethod
    def why_unready(self) -> str:
        """Return why clients should not come to this node, in a word; "" if they should."""

    @abstractmethod
    def http_elsewhere(self, endpoint: Endpoint, target: str) -> tuple[int, dict[str, str], str] | None:
        """Return status, headers and text for a request that is not passed on; None if it is passed on."""

    @abstractmethod
    def http_relay(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        """Make the protocol that passes a connection on to the leader."""


class HttpClient(NewConnection):
    """A connection over HTTP until its first request tells whether it is a probe."""

    def __init__(self, host: HttpHost, endpoint: Endpoint, peer: Peer | None) -> None:
        super().__init__(endpoint, peer)
        self.host = host

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.data += data
        line, end, _ = self.data.partition(b"\r\n")
        if not end and len(self.data) < LINE_OCTETS_MAX:
            return
        words = line.decode("latin-1").split(" ")
        target = words[1] if len(words) == 3 else ""
        path = target.partition("?")[0]
        is_probe = words[0] in ("GET", "HEAD") and path in (HEALTH, READY)
        if is_probe:
            why = "" if path == HEALTH else self.host.why_unready()
            status = {"status": why or ("healthy" if path == HEALTH else "ready")}
            body = msgspec.json.encode(status)
            self.answer(UNAVAILABLE if why else OK, {"Content-Type": JSON}, body, words[0] == "HEAD")
            return
        answer = self.host.http_elsewhere(self.endpoint, target)
        if answer is None:
            self.become(self.host.http_relay(self.endpoint, self.peer))
        elif not target:
            self.answer(BAD_REQUEST, {}, b"this is no request of HTTP\n", False)
        else:
            code, headers, text = answer
            self.answer(code, {"Content-Type": PLAIN, **headers}, f"{text}\n".encode(), words[0] == "HEAD")

    def answer(self, code: int, headers: dict[str, str], body: bytes, is_head: bool) -> None:
        """Send the only answer of this connection, and close it."""
        lines = [f"HTTP/1.1 {code} {PHRASES[code]}", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + (b"" if is_head else body))
        self.transport.close()
