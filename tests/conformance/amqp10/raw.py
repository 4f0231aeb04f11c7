"""A client that sends and reads AMQP 1.0 octet by octet, and shares no code with the broker."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tests.broker_process import Dialled

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
ERROR, RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED = 0x1D, 0x23, 0x24, 0x25, 0x26, 0x27
SOURCE, TARGET, COORDINATOR = 0x28, 0x29, 0x30
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)
HEADER, ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES, DATA, VALUE = 0x70, 0x72, 0x73, 0x74, 0x75, 0x77
SENDER, RECEIVER = False, True
WINDOW = 1000


# ---- writing: `Symbol`, `Uint` and the like say the type of what Python does not tell apart


class Symbol(str):
    __slots__ = ()


class Uint(int):
    __slots__ = ()


class Ulong(int):
    __slots__ = ()


class Ushort(int):
    __slots__ = ()


class Ubyte(int):
    __slots__ = ()


class Described:
    """A value that is described by a number, or by a symbol."""

    def __init__(self, code: int | Symbol, value: Any) -> None:
        self.code = code
        self.value = value

    def __repr__(self) -> str:
        return f"{self.code if isinstance(self.code, Symbol) else hex(self.code)}{self.value!r}"


def encode(value: Any) -> bytes:
    """A value, always in the widest encoding of its type."""
    if value is None:
        return b"\x40"
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if isinstance(value, Described):
        descriptor = value.code if isinstance(value.code, Symbol) else Ulong(value.code)
        return b"\x00" + encode(descriptor) + encode(value.value)
    if isinstance(value, Ubyte):
        return b"\x50" + bytes([value])
    if isinstance(value, Ushort):
        return b"\x60" + struct.pack(">H", value)
    if isinstance(value, Uint):
        return b"\x70" + struct.pack(">I", value)
    if isinstance(value, Ulong):
        return b"\x80" + struct.pack(">Q", value)
    if isinstance(value, int):
        return b"\x81" + struct.pack(">q", value)
    if isinstance(value, Symbol):
        return b"\xb3" + struct.pack(">I", len(value)) + value.encode()
    if isinstance(value, str):
        return b"\xb1" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return b"\xb0" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        inner = b"".join(encode(each) for each in value)
        return b"\xd0" + struct.pack(">II", len(inner) + 4, len(value)) + inner
    assert isinstance(value, dict), value
    inner = b"".join(encode(key) + encode(each) for key, each in value.items())
    return b"\xd1" + struct.pack(">II", len(inner) + 4, 2 * len(value)) + inner


# ---- reading

FIXED = {0x43: 0, 0x44: 0, 0x50: 1, 0x51: 1, 0x52: 1, 0x53: 1, 0x54: 1, 0x55: 1, 0x60: 2, 0x61: 2, 0x70: 4, 0x71: 4}
FIXED |= {0x80: 8, 0x81: 8, 0x83: 8, 0x72: 4, 0x82: 8, 0x98: 16}
SIGNED = {0x51, 0x54, 0x55, 0x61, 0x71, 0x81, 0x83}


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The value at a position, and where the next one begins."""
    code = data[at]
    at += 1
    if code == 0:
        descriptor, at = decode(data, at)
        value, at = decode(data, at)
        return Described(descriptor, value), at
    if code in {0x40, 0x41, 0x42, 0x45}:
        return {0x40: None, 0x41: True, 0x42: False, 0x45: []}[code], at
    if code in FIXED:
        octets = data[at : at + FIXED[code]]
        at += FIXED[code]
        if code in {0x72, 0x82}:
            return struct.unpack(">f" if code == 0x72 else ">d", octets)[0], at
        return octets if code == 0x98 else int.from_bytes(octets, "big", signed=code in SIGNED), at
    width = 4 if code & 0x10 else 1
    size = int.from_bytes(data[at : at + width], "big")
    at += width
    end = at + size
    if code < 0xC0:
        octets = data[at:end]
        if code & 15 == 0:
            return octets, end
        return octets.decode() if code & 15 == 1 else Symbol(octets.decode()), end
    count = int.from_bytes(data[at : at + width], "big")
    at += width
    items: list[Any] = []
    if code & 0xF0 in {0xE0, 0xF0}:
        item = data[at : at + 1]
        at += 1
        for _ in range(count):
            made, stop = decode(item + data[at:end])
            items.append(made)
            at += stop - 1
        return items, end
    for _ in range(count):
        made, at = decode(data, at)
        items.append(made)
    assert at == end, "a list ends where its size says"
    return (dict(zip(items[::2], items[1::2], strict=True)) if code & 1 else items), end


# ---- frames


def frame(channel: int, body: bytes, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


def performative(channel: int, code: int, *fields: Any, payload: bytes = b"", kind: int = 0) -> bytes:
    return frame(channel, encode(Described(code, list(fields))) + payload, kind)


def sasl_plain(user: str = "guest", password: str = "guest") -> bytes:
    response = f"\0{user}\0{password}".encode()
    return SASL_HEADER + performative(0, INIT, Symbol("PLAIN"), response, kind=1)


def opened(container: str = "raw", hostname: str | None = None, *more: Any) -> bytes:
    return performative(0, OPEN, container, hostname, *more)


def begin(channel: int = 0, window: int = WINDOW, next_outgoing: int = 0) -> bytes:
    return performative(channel, BEGIN, None, Uint(next_outgoing), Uint(window), Uint(WINDOW))


def source(address: str | None, *more: Any) -> Described:
    return Described(SOURCE, [address, *more])


def target(address: str | None, *more: Any) -> Described:
    return Described(TARGET, [address, *more])


def attach(
    name: str,
    handle: int,
    role: bool,
    source_: Described | None = None,
    target_: Described | None = None,
    settled: int = 2,
    channel: int = 0,
    properties: dict[Any, Any] | None = None,
    unsettled: dict[Any, Any] | None = None,
) -> bytes:
    count = None if role else Uint(0)
    fields = [name, Uint(handle), role, Ubyte(settled), Ubyte(0), source_, target_, unsettled, None, count, None]
    return performative(channel, ATTACH, *fields, None, None, properties)


def publisher(address: str | None, handle: int = 0, channel: int = 0, name: str = "publisher") -> bytes:
    return attach(name, handle, SENDER, source(None), target(address), channel=channel)


def consumer(address: str, handle: int = 1, channel: int = 0, settled: int = 0, name: str = "consumer") -> bytes:
    return attach(name, handle, RECEIVER, source(address), target(None), settled, channel)


def message(body: bytes = b"body", **properties: Any) -> bytes:
    """Properties by name (`to`), and one data section."""
    names = ["message_id", "user_id", "to", "subject", "reply_to", "correlation_id"]
    octets = b""
    if properties:
        octets = encode(Described(PROPERTIES, [properties.get(name) for name in names]))
    return octets + encode(Described(DATA, body))


def transfer(
    delivery: int,
    payload: bytes,
    handle: int = 0,
    channel: int = 0,
    settled: bool = False,
    more: bool = False,
    aborted: bool = False,
) -> bytes:
    fields = [Uint(handle), Uint(delivery), b"%d" % delivery, Uint(0), settled, more, None, None, None, aborted]
    return performative(channel, TRANSFER, *fields, payload=payload)


def flow(
    handle: int | None = None,
    credit: int | None = None,
    count: int = 0,
    channel: int = 0,
    window: int = WINDOW,
    next_incoming: int | None = 0,
    drain: bool = False,
    echo: bool = False,
) -> bytes:
    link: list[Any] = [None, None, None] if handle is None else [Uint(handle), Uint(count), Uint(credit or 0)]
    seen = None if next_incoming is None else Uint(next_incoming)
    return performative(channel, FLOW, seen, Uint(window), Uint(0), Uint(WINDOW), *link, None, drain, echo)


def disposition(
    first: int,
    last: int | None = None,
    state: Any = None,
    settled: bool = True,
    role: bool = RECEIVER,
    channel: int = 0,
) -> bytes:
    outcome = Described(ACCEPTED, []) if state is None else state
    return performative(channel, DISPOSITION, role, Uint(first), None if last is None else Uint(last), settled, outcome)


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

    def frame(self) -> tuple[int, int, int, list[Any], bytes]:
        """Kind, channel, code, fields and payload of the next frame that is no heartbeat."""
        while True:
            size, offset, kind, channel = struct.unpack(">IBBH", self.read(8))
            body = self.read(size - 8)[4 * offset - 8 :]
            if body:
                found, end = decode(body)
                return kind, channel, found.code, found.value, body[end:]

    def expect(self, code: int, channel: int = 0, kind: int = 0) -> list[Any]:
        """Fields of the next frame, which must be this one; those that are left out are None."""
        found = self.frame()
        assert found[:3] == (kind, channel, code), f"0x{found[2]:02x} on {found[1]}: {found[3]}"
        return found[3] + [None] * (14 - len(found[3]))

    def flow(self, handle: int | None, channel: int = 0) -> list[Any]:
        """Fields of the flow that must come next, of this link."""
        fields = self.expect(FLOW, channel)
        assert fields[4] == handle, fields
        return fields

    def delivery(self, channel: int = 0) -> tuple[list[Any], list[Described]]:
        """Fields of the first frame of the delivery that must come next, and its sections."""
        kind, where, code, fields, payload = self.frame()
        assert (kind, where, code) == (0, channel, TRANSFER), f"0x{code:02x}: {fields}"
        first = fields + [None] * (11 - len(fields))
        while len(fields) > 5 and fields[5]:
            kind, where, code, fields, more = self.frame()
            assert (where, code, fields[0]) == (channel, TRANSFER, first[0])
            payload += more
        return first, sections(payload)

    def outcome(self, channel: int = 0) -> tuple[int, int, int]:
        """First and last delivery of the disposition that must come next, and the code of its state; it settles."""
        fields = self.expect(DISPOSITION, channel)
        assert fields[3] is True
        return fields[1], fields[1] if fields[2] is None else fields[2], fields[4].code

    def error(self, code: int, channel: int = 0) -> tuple[str, str]:
        """Condition and text of the end, detach or close that must come next."""
        fields = self.expect(code, channel)
        found = fields[2] if code == DETACH else fields[0]
        assert found is not None and found.code == ERROR, fields
        return found.value[0], found.value[1]

    def refused(self, role: bool, channel: int = 0) -> tuple[str, str]:
        """The error of a link that is not made: an attach without the broker's terminus, and a detach."""
        fields = self.expect(ATTACH, channel)
        assert fields[2] is not role
        assert fields[6 if role is SENDER else 5] is None
        return self.error(DETACH, channel)

    def ended(self) -> bool:
        """Wait for the broker to close the connection; whether it did so without another word."""
        try:
            return not self.rest and self.socket.recv(65536) == b""
        except ConnectionResetError:
            return True

    def log_in(self, user: str = "guest", password: str = "guest") -> list[str]:
        """The mechanisms; the login has succeeded."""
        self.send(sasl_plain(user, password))
        assert self.read(8) == SASL_HEADER
        offered = self.expect(MECHANISMS, kind=1)[0]
        assert self.expect(OUTCOME, kind=1)[0] == 0
        self.send(AMQP_HEADER)
        assert self.read(8) == AMQP_HEADER
        return [offered] if isinstance(offered, str) else offered

    def open(self, *fields: Any) -> list[Any]:
        """Open the connection; fields of the broker's open."""
        self.log_in()
        self.send(opened("raw", *fields))
        return self.expect(OPEN)

    def publisher(self, address: str | None, handle: int = 0, channel: int = 0) -> list[Any]:
        """Attach a link to publish by; fields of the answer."""
        self.send(publisher(address, handle, channel, f"publisher {handle}"))
        fields = self.expect(ATTACH, channel)
        assert fields[6] is not None, "the link is refused"
        self.flow(handle, channel)
        return fields

    def consumer(self, address: str, handle: int = 1, credit: int = 0, channel: int = 0, settled: int = 0) -> list[Any]:
        """Attach a link to consume by; fields of the answer."""
        self.send(consumer(address, handle, channel, settled, f"consumer {handle}"))
        fields = self.expect(ATTACH, channel)
        assert fields[5] is not None, "the link is refused"
        if credit:
            self.send(flow(handle, credit, channel=channel))
        return fields

    def quiet_session(self, channel: int = 0, window: int = WINDOW) -> None:
        """Nothing more comes than the answer to a question."""
        self.send(performative(channel, FLOW, None, Uint(window), Uint(0), Uint(WINDOW), *[None] * 5, True))
        self.flow(None, channel)


def sections(payload: bytes) -> list[Described]:
    """The sections of a message."""
    found: list[Described] = []
    at = 0
    while at < len(payload):
        value, at = decode(payload, at)
        found.append(value)
    return found


def body_of(found: Sequence[Described]) -> Any:
    """The body of a message in one data section or value."""
    (only,) = [each.value for each in found if each.code in {DATA, VALUE}]
    return only


def begun(broker: Dialled, window: int = WINDOW) -> Raw:
    """A connection with a session on channel 0."""
    raw = Raw(broker)
    raw.open()
    raw.send(begin(window=window))
    raw.expect(BEGIN)
    return raw
