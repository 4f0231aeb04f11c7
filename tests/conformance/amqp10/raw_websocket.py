"""AMQP 1.0 octet by octet in the frames of a WebSocket."""

from __future__ import annotations

from tests.broker_process import BrokerProcess
from tests.conformance.amqp10.raw import Raw
from tests.conformance.mqtt.raw_websocket import BINARY, PONG, RawWebSocket, request


class CarriedRaw(Raw):
    """One connection over WebSocket, of which no octet of AMQP has been sent yet.

    web      the frames, and the socket below them
    headers  of the answer to the request
    pongs    what the broker's answers to pings held
    """

    def __init__(self, broker: BrokerProcess, path: str = "/amqp", subprotocols: str = "amqp") -> None:
        self.web = RawWebSocket(broker)
        self.socket = self.web.socket
        self.rest = b""
        self.pongs: list[bytes] = []
        self.socket.sendall(request(path, Sec_WebSocket_Protocol=subprotocols))
        status, self.headers, _ = self.web.answer()
        assert status == 101

    def send(self, *octets: bytes) -> None:
        self.web.send(*octets)

    def read(self, octets: int) -> bytes:
        while len(self.rest) < octets:
            self.read_frame()
        taken, self.rest = self.rest[:octets], self.rest[octets:]
        return taken

    def read_frame(self) -> None:
        """Read the next frame, which must hold octets of AMQP or answer a ping."""
        opcode, payload = self.web.frame()
        if opcode == PONG:
            self.pongs.append(payload)
        else:
            assert opcode == BINARY, (opcode, payload)
            self.rest += payload
