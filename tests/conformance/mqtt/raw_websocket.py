"""A WebSocket client that sends and reads frames octet by octet, and shares no code with the broker (RFC 6455)."""

from __future__ import annotations

import base64
import hashlib
import socket

from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import V5, Raw

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN = 0x80
MASK = b"\x11\x22\x33\x44"
KEY = base64.b64encode(bytes(range(16))).decode()
ACCEPT = base64.b64encode(hashlib.sha1(KEY.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
HEADERS = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "mqtt",
}


def frame(opcode: int, payload: bytes = b"", fin: bool = True, masked: bool = True) -> bytes:
    size = len(payload)
    long = b"" if size < 126 else size.to_bytes(2, "big") if size < 1 << 16 else size.to_bytes(8, "big")
    short = size if size < 126 else 126 if size < 1 << 16 else 127
    head = bytes([opcode | (FIN if fin else 0), short | (0x80 if masked else 0)]) + long
    if not masked:
        return head + payload
    return head + MASK + bytes(octet ^ MASK[at % 4] for at, octet in enumerate(payload))


def request(path: str = "/mqtt", method: str = "GET", **headers: str | None) -> bytes:
    """A handshake request; a header may be given anew, or None to leave it out."""
    given = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value is not None)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class RawWebSocket(Raw):
    """One connection, of which nothing is sent yet; once it is open, packets are sent and read in binary frames."""

    def __init__(self, broker: BrokerProcess, version: int = V5, listener: str = "mqtt_websocket") -> None:
        super().__init__(broker, version)
        self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", broker.port(listener)), timeout=20)
        self.behind = b""  # read and not yet taken, of the stream below the frames

    def octets(self, count: int) -> bytes:
        """So many octets of the stream below the frames."""
        while len(self.behind) < count:
            more = self.socket.recv(65536)
            assert more, f"the broker closed the connection after {self.behind!r}"
            self.behind += more
        taken, self.behind = self.behind[:count], self.behind[count:]
        return taken

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (names in lower case) and body of the HTTP response that must come now."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.octets(1)
        first, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert first.startswith("HTTP/1.1 ")
        return int(first.split()[1]), headers, self.octets(int(headers.get("content-length", "0")))

    def open(self) -> None:
        """Shake hands, which must succeed."""
        self.socket.sendall(request())
        status, headers, _ = self.answer()
        assert (status, headers["sec-websocket-accept"]) == (101, ACCEPT)

    def frame(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame, which must be whole and unmasked."""
        first, size = self.octets(2)
        assert first & FIN and size < 128
        if size >= 126:
            size = int.from_bytes(self.octets(2 if size == 126 else 8), "big")
        return first & 15, self.octets(size)

    def send(self, *octets: bytes) -> None:
        self.socket.sendall(frame(BINARY, b"".join(octets)))

    def read(self, octets: int) -> bytes:
        while len(self.rest) < octets:
            opcode, payload = self.frame()
            assert opcode == BINARY, (opcode, payload)
            self.rest += payload
        taken, self.rest = self.rest[:octets], self.rest[octets:]
        return taken

    def left(self, code: int) -> None:
        """The broker must take leave with this code."""
        opcode, payload = self.frame()
        assert (opcode, int.from_bytes(payload[:2], "big")) == (CLOSE, code), payload

    def cut(self) -> bool:
        """Wait for the end of the TCP connection; whether nothing more came."""
        try:
            return not self.behind and self.socket.recv(65536) == b""
        except ConnectionResetError:
            return True


def opened(broker: BrokerProcess, version: int = V5) -> RawWebSocket:
    """A WebSocket on which MQTT has not begun."""
    made = RawWebSocket(broker, version)
    made.open()
    return made
