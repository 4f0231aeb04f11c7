"""Clients that come to a node which does not lead and relays nobody: they are told where to go, or no.

MQTT 5: CONNACK with 0x9C and the leader as Server Reference, or 0x88; MQTT 3.1.1: return code 3, which can say no more.
AMQP 0.9.1: connection.close 320 in answer to connection.open, with the leader in its text; nobody's login is looked at.
AMQP 1.0: open and close in answer to open, with amqp:connection:redirect and the leader, or amqp:connection:forced.
The block protocol: an error. WebSocket: status 503. HTTP: 307 to the leader, or 503.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, cast

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay import __version__
from forebay.core.errors import PeerError
from forebay.node.entry.protocols import AMQP10_HEADERS, MQTT_CONNECT
from forebay.node.peer import Peer
from forebay.server.listen import Endpoint
from forebay.session.amqp10.conditions import redirect_error
from forebay.session.amqp10.entry.opening import REFUSED as ESTABLISHMENT_FAILED
from forebay.wire.amqp091 import methods as amqp
from forebay.wire.amqp091.codec import FRAME_OCTETS_MIN, frame_end, put_method
from forebay.wire.amqp10 import frames as amqp10
from forebay.wire.amqp10.frames import PROTOCOL_HEADER_OCTETS
from forebay.wire.amqp10.performatives import Close, Open, decode_performative
from forebay.wire.amqp10.sasl import SASL_OK, SaslMechanisms, SaslOutcome, decode_sasl
from forebay.wire.blocks.frames import PREFACE, PREFACE_OCTETS, encode_error
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.encoding import encode_packet
from forebay.wire.mqtt.packets import Connack, frame

LOGIN_OCTETS_MAX: Final = 64 << 10
FAREWELL_S: Final = 10.0
SNIFF_OCTETS: Final = 4
AMQP_HEADER: Final = b"AMQP\0\0\x09\x01"
CONNECTION_FORCED: Final = 320
MQTT_UNAVAILABLE: Final = 0x88
NOT_LEADING: Final = "not-leading"
TEMPORARY_REDIRECT: Final = 307
UNAVAILABLE: Final = 503
RETRY_S: Final = 1


class LastWords(ABC):
    """The farewell of one protocol to a client that is not served."""

    def __init__(self, text: str, address: str) -> None:
        self.text = text
        self.address = address
        self.done = False

    @abstractmethod
    def answer(self, data: bytes) -> tuple[int, bytes]:
        """Return the number of octets read of all that came and were unread, and the octets to answer with.

        raises  PeerError
        """


class MqttLastWords(LastWords):
    """MQTT: CONNACK."""

    def answer(self, data: bytes) -> tuple[int, bytes]:
        found = frame(data, 0, len(data), LOGIN_OCTETS_MAX)
        if not found:
            return 0, b""
        end, at = found >> 3, found & 7
        self.done = True
        name_octets = int.from_bytes(data[at : at + 2], "big")
        level = data[at + 2 + name_octets] if at + 2 + name_octets < end else 0
        if level != codes.V5:
            return end, encode_packet(Connack(False, codes.V311_UNAVAILABLE, b""), codes.V311)
        known = [props.Property(props.REASON_STRING, 0, self.text.encode(), b"")]
        code = MQTT_UNAVAILABLE
        if self.address:
            code = codes.USE_ANOTHER_SERVER
            known.append(props.Property(props.SERVER_REFERENCE, 0, self.address.encode(), b""))
        return end, encode_packet(Connack(False, code, props.encode_properties(known)), codes.V5)


class AmqpLastWords(LastWords):
    """AMQP 0.9.1: the handshake up to connection.open, and connection.close."""

    def __init__(self, text: str, address: str) -> None:
        super().__init__(text, address)
        self.begun = False

    def answer(self, data: bytes) -> tuple[int, bytes]:
        if self.begun:
            return self.frames(data)
        if len(data) < len(AMQP_HEADER):
            return 0, b""
        self.begun = data.startswith(AMQP_HEADER)
        if not self.begun:
            self.done = True
            return len(data), AMQP_HEADER
        out = BytesWriter()
        capabilities: dict[str, object] = {"authentication_failure_close": True}
        properties: list[tuple[str, object]] = [
            ("capabilities", capabilities),
            ("product", "forebay"),
            ("version", __version__),
        ]
        amqp.put_start(out, properties, b"PLAIN AMQPLAIN EXTERNAL")
        return len(AMQP_HEADER), out.getvalue()

    def frames(self, data: bytes) -> tuple[int, bytes]:
        out = BytesWriter()
        at = 0
        while not self.done:
            end = frame_end(data, at, LOGIN_OCTETS_MAX)
            if not end:
                break
            if data[at] == 1:
                self.method(int.from_bytes(data[at + 7 : at + 11], "big"), out)
            at = int(end)
        return at, out.getvalue()

    def method(self, method: int, out: BytesWriter) -> None:
        if method == amqp.CONNECTION_START_OK:
            amqp.put_tune(out, 1, FRAME_OCTETS_MIN, 0)
        elif method == amqp.CONNECTION_OPEN:
            where = f"; connect to {self.address}" if self.address else ""
            text = amqp.reply_text("CONNECTION_FORCED", self.text + where)
            amqp.put_close(out, 0, amqp.CONNECTION_CLOSE, CONNECTION_FORCED, text, method)
        elif method == amqp.CONNECTION_CLOSE:
            put_method(out, 0, amqp.CONNECTION_CLOSE_OK, b"")
            self.done = True
        elif method != amqp.CONNECTION_TUNE_OK:
            self.done = True


class Amqp10LastWords(LastWords):
    """AMQP 1.0: the login, if the client begins with one, then open and close."""

    def __init__(self, text: str, address: str) -> None:
        super().__init__(text, address)
        self.kind = -1  # of the frames that come; -1 before a protocol header

    def answer(self, data: bytes) -> tuple[int, bytes]:
        out = BytesWriter()
        if self.kind < 0:
            if len(data) < PROTOCOL_HEADER_OCTETS:
                return 0, b""
            self.header(data[:PROTOCOL_HEADER_OCTETS], out)
            return PROTOCOL_HEADER_OCTETS, out.getvalue()
        end = amqp10.frame_end(data, 0, amqp10.EARLY_FRAME_OCTETS_MAX, self.kind)
        if end == 0:
            return 0, b""
        start = amqp10.body_at(data, 0)
        if start < end:
            self.frame(data, start, end, out)
        return int(end), out.getvalue()

    def header(self, header: bytes, out: BytesWriter) -> None:
        if header == amqp10.AMQP_HEADER:
            out.write(header)
            self.kind = amqp10.AMQP_FRAME
            return
        out.write(amqp10.SASL_HEADER)
        self.done = header != amqp10.SASL_HEADER
        self.kind = amqp10.SASL_FRAME
        if not self.done:
            amqp10.put_frame(out, 0, SaslMechanisms(["EXTERNAL", "PLAIN", "ANONYMOUS"]), self.kind)

    def frame(self, data: bytes, start: i64, end: i64, out: BytesWriter) -> None:
        """Accept any login, and refuse the client after it: no client reads errors before."""
        if self.kind == amqp10.SASL_FRAME:
            decode_sasl(data, start, end)
            amqp10.put_frame(out, 0, SaslOutcome(SASL_OK, None), self.kind)
            self.kind = -1
            return
        read = decode_performative(data, start, end)
        if isinstance(read, Open):
            opened = Open("forebay")
            opened.properties = {"product": "forebay", "version": __version__, ESTABLISHMENT_FAILED: True}
            amqp10.put_frame(out, 0, opened)
            amqp10.put_frame(out, 0, Close(redirect_error(self.text, self.address)))
        elif isinstance(read, Close):
            self.done = True


class BlocksLastWords(LastWords):
    """The block protocol: an error before any request."""

    def answer(self, data: bytes) -> tuple[int, bytes]:
        if len(data) < PREFACE_OCTETS:
            return 0, b""
        self.done = True
        where = f"; connect to {self.address}" if self.address else ""
        return len(data), PREFACE + encode_error("protocol", NOT_LEADING, self.text + where)


class WebSocketLastWords(LastWords):
    """HTTP's answer to a request for a WebSocket."""

    def answer(self, data: bytes) -> tuple[int, bytes]:
        if b"\r\n\r\n" not in data:
            if len(data) > LOGIN_OCTETS_MAX:
                self.done = True
            return 0, b""
        self.done = True
        where = f"; connect to {self.address}" if self.address else ""
        body = f"{self.text}{where}\n".encode()
        head = (
            f"HTTP/1.1 {UNAVAILABLE} Service Unavailable\r\nRetry-After: {RETRY_S}\r\nConnection: close\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return len(data), head.encode() + body


class Refusals:
    """The clients of a node that does not lead and relays nobody.

    node       this node's name
    redirects  clients are told where the leader is
    why        it does not serve them, for people
    addresses  the leader's, for clients, by the names of listeners; empty while nobody leads
    """

    def __init__(self, node: str, redirects: bool, clients_max: int, why: str = "does not lead") -> None:
        self.node = node
        self.why = why
        self.redirects = redirects
        self.clients_max = clients_max
        self.addresses: Mapping[str, str] = {}
        self.clients: set[RefusedClient] = set()
        self.refused = 0

    def make(self, endpoint: Endpoint, peer: Peer | None) -> RefusedClient:
        """Make the protocol that refuses a client of a listener."""
        return RefusedClient(self, endpoint)

    def text(self) -> str:
        """Return the reason of the refusal, for people."""
        return f"node {self.node} {self.why}"

    def address(self, listener: str) -> str:
        """Return the address to which clients of a listener are sent; empty if they are not sent elsewhere."""
        return self.addresses.get(listener, "") if self.redirects else ""

    def farewell(self, endpoint: Endpoint, data: bytes) -> LastWords:
        """Return the farewell for a client whose first octets are `data`, in its protocol."""
        text, address = self.text(), self.address(endpoint.name)
        if endpoint.websocket is not None:
            return WebSocketLastWords(text, address)
        if data.startswith(b"FBLK"):
            return BlocksLastWords(text, address)
        if data.startswith(b"AMQP") and data[4:PROTOCOL_HEADER_OCTETS] in AMQP10_HEADERS:
            return Amqp10LastWords(text, address)
        is_amqp = data.startswith(b"AMQP") or (endpoint.protocol == "amqp" and data[0] != MQTT_CONNECT)
        return AmqpLastWords(text, address) if is_amqp else MqttLastWords(text, address)

    def http(self, listener: str, target: str) -> tuple[int, dict[str, str], str]:
        """Return status, headers and text for a request over HTTP; `listener` is `http` or `https`."""
        address = self.address(listener)
        if not address:
            return UNAVAILABLE, {"Retry-After": str(RETRY_S)}, self.text()
        return TEMPORARY_REDIRECT, {"Location": f"{listener}://{address}{target}"}, self.text()


class RefusedClient(asyncio.Protocol):
    """A client's connection that ends after a few words."""

    def __init__(self, refusals: Refusals, endpoint: Endpoint) -> None:
        self.refusals = refusals
        self.endpoint = endpoint
        self.farewell: LastWords | None = None
        self.data = b""
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        refusals = self.refusals
        refusals.refused += 1
        if len(refusals.clients) >= refusals.clients_max:
            self.transport.abort()
            return
        refusals.clients.add(self)
        self.timer = asyncio.get_running_loop().call_later(FAREWELL_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        farewell = self.farewell
        if farewell is not None and farewell.done:
            return  # it may have been sent before the client has read the end
        self.data += data
        if farewell is None:
            if len(self.data) < SNIFF_OCTETS:
                return
            if self.data.startswith(b"AMQP") and len(self.data) < PROTOCOL_HEADER_OCTETS:
                return
            farewell = self.farewell = self.refusals.farewell(self.endpoint, self.data)
        used = len(self.data)
        while used and not farewell.done:  # a client may have sent all of its handshake in one write
            try:
                used, answer = farewell.answer(self.data)
            except PeerError:
                self.transport.abort()
                return
            self.data = self.data[used:]
            if answer:
                self.transport.write(answer)
        if farewell.done:
            self.data = b""
            if self.transport.can_write_eof():
                self.transport.write_eof()
            else:
                self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.refusals.clients.discard(self)
