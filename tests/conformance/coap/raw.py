"""A client of CoAP that sends what a test wants, right or wrong, with a codec of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from tests.broker_process import BrokerProcess
from tests.waiting import readable

CON, NON, ACK, RST = range(4)
GET, POST, PUT, DELETE = range(1, 5)
CHANGED, CONTENT, CONTINUE = 0x44, 0x45, 0x5F
IF_MATCH, OBSERVE, URI_PATH, CONTENT_FORMAT, MAX_AGE, URI_QUERY, ACCEPT = 1, 6, 11, 12, 14, 15, 17
BLOCK2, BLOCK1, SIZE2, PROXY_URI, SIZE1, ECHO, NO_RESPONSE, REQUEST_TAG = 23, 27, 28, 35, 60, 252, 258, 292
GUEST = ("user=guest", "password=guest")
WAIT_S = 10.0
Options = list[tuple[int, bytes]]


@dataclass
class Message:
    """A message as it came; `octets` is the datagram."""

    type: int
    code: int
    message_id: int
    token: bytes
    options: Options = field(default_factory=list)
    payload: bytes = b""
    octets: bytes = b""

    @property
    def code_text(self) -> str:
        return f"{self.code >> 5}.{self.code & 31:02d}"

    def option(self, number: int) -> bytes | None:
        """The value of an option; None without it."""
        return next((value for found, value in self.options if found == number), None)

    def number(self, option: int) -> int:
        """The number that an option has; -1 without it."""
        value = self.option(option)
        return -1 if value is None else int.from_bytes(value, "big")


def number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def block(index: int, more: bool, exponent: int) -> bytes:
    return number(index << 4 | more << 3 | exponent)


def nibble(value: int) -> tuple[int, bytes]:
    if value < 13:
        return value, b""
    return (13, bytes([value - 13])) if value < 269 else (14, (value - 269).to_bytes(2, "big"))


def encode(message: Message) -> bytes:
    octets = bytes([1 << 6 | message.type << 4 | len(message.token), message.code])
    octets += message.message_id.to_bytes(2, "big") + message.token
    last = 0
    for option, value in sorted(message.options, key=lambda each: each[0]):
        (delta, delta_more), (length, length_more) = nibble(option - last), nibble(len(value))
        octets += bytes([delta << 4 | length]) + delta_more + length_more + value
        last = option
    return octets + (b"\xff" + message.payload if message.payload else b"")


def decode(octets: bytes) -> Message:
    assert octets[0] >> 6 == 1, octets
    at = 4 + (octets[0] & 15)
    found = Message(octets[0] >> 4 & 3, octets[1], int.from_bytes(octets[2:4], "big"), octets[4:at], octets=octets)
    last = 0
    while at < len(octets):
        if octets[at] == 0xFF:
            found.payload = octets[at + 1 :]
            assert found.payload
            break
        parts = [octets[at] >> 4, octets[at] & 15]
        at += 1
        for index, value in enumerate(parts):
            if value == 13:
                parts[index] = octets[at] + 13
                at += 1
            elif value == 14:
                parts[index] = int.from_bytes(octets[at : at + 2], "big") + 269
                at += 2
        last += parts[0]
        found.options.append((last, octets[at : at + parts[1]]))
        at += parts[1]
    return found


class Client:
    """One socket, from which nothing is sent but what a test says."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.message_id = int.from_bytes(os.urandom(2), "big")

    def send(self, octets: bytes) -> None:
        self.socket.send(octets)

    def hear(self, seconds: float = WAIT_S) -> Message | None:
        """The next message that comes within this time."""
        return decode(self.socket.recv(65_536)) if readable(self.socket, seconds) else None

    def expect(self) -> Message:
        found = self.hear()
        assert found is not None, "nothing came"
        return found

    def is_silent(self) -> bool:
        """True if nothing came before the answer to a question that is sent now."""
        self.send(encode(Message(CON, 0, 0xFFFF, b"")))
        found = self.expect()
        return (found.type, found.code, found.message_id) == (RST, 0, 0xFFFF)

    def make(
        self,
        code: int,
        path: str,
        query: tuple[str, ...] = (),
        options: Options | None = None,
        payload: bytes = b"",
        type: int = CON,
        token: bytes | None = None,
    ) -> Message:
        """A request with a message ID and a token of its own."""
        self.message_id = (self.message_id + 1) % 65_536
        every: Options = [(URI_PATH, part.encode()) for part in path.split("/")]
        every += [(URI_QUERY, part.encode()) for part in query]
        token = os.urandom(4) if token is None else token
        return Message(type, code, self.message_id, token, every + (options or []), payload)

    def ask(self, message: Message) -> Message:
        """The next answer with the request's token; a confirmable one is acknowledged."""
        self.send(encode(message))
        while True:
            found = self.expect()
            if found.code and found.token == message.token:
                self.acknowledge(found)
                return found

    def request(self, code: int, path: str, query: tuple[str, ...] = GUEST, **fields: object) -> Message:
        return self.ask(self.make(code, path, query, **fields))  # type: ignore[arg-type]

    def publish(self, topic: str, payload: bytes, *query: str, **fields: object) -> Message:
        return self.request(PUT, f"publish/{topic}", (*GUEST, *query), payload=payload, **fields)

    def acknowledge(self, message: Message) -> None:
        if message.type == CON:
            self.send(encode(Message(ACK, 0, message.message_id, b"")))

    def reject(self, message: Message) -> None:
        self.send(encode(Message(RST, 0, message.message_id, b"")))

    def prove(self) -> None:
        """Show the broker that the client is there."""
        answer = self.request(GET, "topic/x", ("token=" + "x" * 8,), options=[(ECHO, b"x")])
        assert answer.code_text == "4.01"
        observed = self.request(GET, "topic/to-be-there", options=[(OBSERVE, b"")])
        assert observed.code == CONTENT
        self.request(GET, "topic/to-be-there", options=[(OBSERVE, b"\1")], token=observed.token)

    def close(self) -> None:
        self.socket.close()


@contextmanager
def client(broker: BrokerProcess) -> Iterator[Client]:
    found = Client(broker.port("coap"))
    try:
        yield found
    finally:
        found.close()


def operate(broker: BrokerProcess, operation: str, **arguments: object) -> dict[str, object]:
    """The answer of an operation over HTTP."""
    url = f"{broker.http_url}/api/forebay/operations/{operation}"
    answer = httpx.post(url, json=arguments, auth=("guest", "guest"), timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def bodies(broker: BrokerProcess, queue: str) -> list[object]:
    """The bodies of a queue's messages, as text."""
    url = f"{broker.http_url}/api/forebay/queues/%2F/{queue}/messages"
    items = httpx.get(
        url, params={"limit": 1000, "body_octets_max": 100_000}, auth=("guest", "guest"), timeout=30
    ).json()["items"]
    return [each["body"] for each in items]


def metric(broker: BrokerProcess, name: str) -> dict[str, float]:
    """The values of a metric, by its labels."""
    text = httpx.get(f"{broker.http_url}/metrics", auth=("guest", "guest"), timeout=30).text
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
    return {head[len(name) :]: float(value) for head, _, value in lines}
