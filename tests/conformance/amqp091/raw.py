"""A client that sends and reads AMQP 0.9.1 octet by octet, and shares no code with the broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.broker_process import Dialled

HEADER = b"AMQP\x00\x00\x09\x01"
CLIENT: dict[str, object] = {"capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True}}

START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK = (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41)
CLOSE, CLOSE_OK = (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 10), (20, 11), (20, 40), (20, 41)
QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
PUBLISH, RETURN, DELIVER, ACK, NACK, REJECT = (60, 40), (60, 50), (60, 60), (60, 80), (60, 120), (60, 90)
QOS, QOS_OK, CONSUME, CONSUME_OK, CANCEL, CANCEL_OK = (60, 10), (60, 11), (60, 20), (60, 21), (60, 30), (60, 31)
GET, GET_OK, GET_EMPTY, RECOVER, RECOVER_OK = (60, 70), (60, 71), (60, 72), (60, 110), (60, 111)
CONFIRM_SELECT, CONFIRM_SELECT_OK = (85, 10), (85, 11)

Method = tuple[int, int]


def number(value: int, octets: int) -> bytes:
    return value.to_bytes(octets, "big")


def short(text: str | bytes) -> bytes:
    octets = text.encode() if isinstance(text, str) else text
    return number(len(octets), 1) + octets


def long(text: str | bytes) -> bytes:
    octets = text.encode() if isinstance(text, str) else text
    return number(len(octets), 4) + octets


def table(fields: Mapping[str, object] | None = None) -> bytes:
    """A field table of texts, numbers, truth values and tables."""
    inner = b""
    for name, value in (fields or {}).items():
        inner += short(name)
        if isinstance(value, bool):
            inner += b"t" + number(value, 1)
        elif isinstance(value, int):
            inner += b"l" + value.to_bytes(8, "big", signed=True)
        elif isinstance(value, dict):
            inner += b"F" + table(value)
        else:
            inner += b"S" + long(str(value))
    return long(inner)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return number(kind, 1) + number(channel, 2) + number(len(payload), 4) + payload + b"\xce"


def method(channel: int, which: Method, args: bytes = b"") -> bytes:
    return frame(1, channel, number(which[0], 2) + number(which[1], 2) + args)


def content(channel: int, body: bytes, properties: bytes = b"\0\0", frame_max: int = 131072) -> bytes:
    octets = frame(2, channel, b"\0\x3c\0\0" + number(len(body), 8) + properties)
    for start in range(0, len(body), frame_max - 8):
        octets += frame(3, channel, body[start : start + frame_max - 8])
    return octets


def publish(
    channel: int,
    key: str,
    body: bytes,
    exchange: str = "",
    properties: bytes = b"\0\0",
    mandatory: bool = False,
    frame_max: int = 131072,
) -> bytes:
    args = b"\0\0" + short(exchange) + short(key) + number(mandatory, 1)
    return method(channel, PUBLISH, args) + content(channel, body, properties, frame_max)


class Raw:
    """One connection."""

    def __init__(self, broker: Dialled) -> None:
        self.socket = broker.dial("amqp")
        self.rest = b""

    def send(self, *octets: bytes) -> None:
        self.socket.sendall(b"".join(octets))

    def read(self, octets: int) -> bytes:
        while len(self.rest) < octets:
            more = self.socket.recv(65536)
            assert more, f"the broker closed the connection after {self.rest!r}"
            self.rest += more
        taken, self.rest = self.rest[:octets], self.rest[octets:]
        return taken

    def frame(self) -> tuple[int, int, bytes]:
        """Kind, channel and payload of the next frame that is no heartbeat."""
        while True:
            head = self.read(7)
            payload = self.read(int.from_bytes(head[3:], "big"))
            assert self.read(1) == b"\xce"
            if head[0] != 8:
                return head[0], int.from_bytes(head[1:3], "big"), payload

    def expect(self, channel: int, which: Method) -> bytes:
        """Arguments of the next frame, which must be this method on this channel."""
        kind, where, payload = self.frame()
        assert (kind, where) == (1, channel), (kind, where, payload)
        found = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        assert found == which, (found, payload)
        return payload[4:]

    def content(self, channel: int) -> tuple[bytes, bytes, list[int]]:
        """Properties, body and the lengths of the body's frames."""
        kind, where, header = self.frame()
        assert (kind, where, header[:4]) == (2, channel, b"\0\x3c\0\0")
        octets = int.from_bytes(header[4:12], "big")
        parts: list[bytes] = []
        while sum(len(part) for part in parts) < octets:
            kind, where, part = self.frame()
            assert (kind, where) == (3, channel)
            parts.append(part)
        return header[12:], b"".join(parts), [len(part) for part in parts]

    def ended(self) -> bool:
        """Wait for the broker to close the connection; whether it did so without another word."""
        try:
            return not self.rest and self.socket.recv(65536) == b""
        except ConnectionResetError:
            return True

    def handshake(
        self,
        user: str = "guest",
        password: str = "guest",
        channel_max: int = 2047,
        frame_max: int = 131072,
        beat: int = 0,
        client: Mapping[str, object] = CLIENT,
    ) -> None:
        """Everything up to connection.open-ok."""
        self.send(HEADER)
        self.expect(0, START)
        self.send(method(0, START_OK, table(client) + short("PLAIN") + long(f"\0{user}\0{password}") + short("en_US")))
        self.expect(0, TUNE)
        self.send(method(0, TUNE_OK, number(channel_max, 2) + number(frame_max, 4) + number(beat, 2)))
        self.send(method(0, OPEN, short("/") + b"\0\0"))
        self.expect(0, OPEN_OK)

    def open_channel(self, channel: int = 1) -> None:
        self.send(method(channel, CHANNEL_OPEN, b"\0"))
        self.expect(channel, CHANNEL_OPEN_OK)

    def declare(
        self, queue: str, bits: int = 2, arguments: Mapping[str, object] | None = None, channel: int = 1
    ) -> str:
        """Declare a queue, durable unless said otherwise; its name."""
        self.send(method(channel, QUEUE_DECLARE, b"\0\0" + short(queue) + number(bits, 1) + table(arguments)))
        args = self.expect(channel, QUEUE_DECLARE_OK)
        return args[1 : 1 + args[0]].decode()

    def count(self, queue: str, channel: int = 1) -> tuple[int, int]:
        """Ready messages and consumers of a queue."""
        self.send(method(channel, QUEUE_DECLARE, b"\0\0" + short(queue) + b"\x01" + table()))
        args = self.expect(channel, QUEUE_DECLARE_OK)
        return int.from_bytes(args[-8:-4], "big"), int.from_bytes(args[-4:], "big")

    def consume(
        self, queue: str, tag: str = "t", bits: int = 0, arguments: Mapping[str, object] | None = None, channel: int = 1
    ) -> None:
        self.send(method(channel, CONSUME, b"\0\0" + short(queue) + short(tag) + number(bits, 1) + table(arguments)))
        assert self.expect(channel, CONSUME_OK) == short(tag)

    def delivery(self, channel: int = 1, tag: str = "t") -> tuple[int, bool, bytes]:
        """Delivery tag, redelivered and body of the next delivery."""
        args = self.expect(channel, DELIVER)
        assert args.startswith(short(tag))
        args = args[1 + len(tag) :]
        return int.from_bytes(args[:8], "big"), args[8] == 1, self.content(channel)[1]

    def prefetch(self, count: int, whole_channel: bool = False, channel: int = 1) -> None:
        self.send(method(channel, QOS, b"\0\0\0\0" + number(count, 2) + number(whole_channel, 1)))
        self.expect(channel, QOS_OK)

    def settle(self, which: Method, tag: int, bits: int = 0, channel: int = 1) -> None:
        self.send(method(channel, which, number(tag, 8) + (number(bits, 1))))

    def confirm(self, channel: int = 1) -> None:
        self.send(method(channel, CONFIRM_SELECT, b"\0"))
        self.expect(channel, CONFIRM_SELECT_OK)

    def confirmed(self, tag: int, channel: int = 1) -> None:
        """Wait until the publish of that tag is confirmed."""
        while True:
            args = self.expect(channel, ACK)
            upto = int.from_bytes(args[:8], "big")
            assert upto <= tag
            if upto == tag:
                return

    def fill(self, queue: str, bodies: list[bytes], channel: int = 1) -> None:
        """Publish messages from a connection's only confirming channel, and wait for their confirms."""
        self.confirm(channel)
        self.send(*[publish(channel, queue, body) for body in bodies])
        self.confirmed(len(bodies), channel)

    def channel_closed(self, code: int, text: str, channel: int = 1, cause: Method = (0, 0)) -> None:
        """The broker must close the channel so; answer it."""
        self.check_close(self.expect(channel, CHANNEL_CLOSE), code, text, cause)
        self.send(method(channel, CHANNEL_CLOSE_OK))

    def connection_closed(self, code: int, text: str, cause: Method = (0, 0)) -> None:
        """The broker must close the connection so; answer it, and see it go."""
        self.check_close(self.expect(0, CLOSE), code, text, cause)
        self.send(method(0, CLOSE_OK))
        assert self.ended()

    def check_close(self, args: bytes, code: int, text: str, cause: Method) -> None:
        found = args[3 : 3 + args[2]].decode()
        assert (int.from_bytes(args[:2], "big"), found) == (code, text)
        if cause != (0, 0):
            assert args[-4:] == number(cause[0], 2) + number(cause[1], 2)

    def sync(self, channel: int = 1) -> None:
        """Wait until the broker has handled everything sent so far; nothing else may be on the way."""
        self.send(method(channel, (20, 20), b"\x01"))
        assert self.expect(channel, (20, 21)) == b"\x01"


@contextmanager
def connect(
    broker: Dialled, channels: int = 1, frame_max: int = 131072, client: Mapping[str, object] = CLIENT
) -> Iterator[Raw]:
    """A connection with open channels 1, 2, …"""
    raw = Raw(broker)
    try:
        raw.handshake(frame_max=frame_max, client=client)
        for channel in range(1, channels + 1):
            raw.open_channel(channel)
        yield raw
    finally:
        raw.socket.close()
