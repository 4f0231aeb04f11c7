"""A client that sends and reads MQTT 3.1.1 and 5.0 octet by octet, and shares no code with the broker."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from tests.broker_process import Dialled

V311, V5 = 4, 5
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"
DISCONNECT = b"\xe0\x00"
CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x20, 0x40, 0x50, 0x62, 0x70
SUBACK, UNSUBACK, DISCONNECTED = 0x90, 0xB0, 0xE0
# Octets of a property's value by identifier; 0: a text, -1: a variable byte integer, -2: two texts.
WIDTHS = {0x01: 1, 0x02: 4, 0x03: 0, 0x08: 0, 0x09: 0, 0x0B: -1, 0x11: 4, 0x12: 0, 0x13: 2, 0x15: 0, 0x16: 0}
WIDTHS |= {0x17: 1, 0x18: 4, 0x19: 1, 0x1A: 0, 0x1C: 0, 0x1F: 0, 0x21: 2, 0x22: 2, 0x23: 2, 0x24: 1, 0x25: 1}
WIDTHS |= {0x26: -2, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1}


def number(value: int, octets: int = 2) -> bytes:
    return value.to_bytes(octets, "big")


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def text(value: str | bytes) -> bytes:
    octets = value.encode() if isinstance(value, str) else value
    return number(len(octets)) + octets


def packet(first: int, rest: bytes = b"") -> bytes:
    return bytes([first]) + varint(len(rest)) + rest


def block(version: int, properties: bytes) -> bytes:
    """The property block where the version has one."""
    return varint(len(properties)) + properties if version == V5 else b""


def user(name: str, value: str) -> bytes:
    return b"\x26" + text(name) + text(value)


def connect_head(flags: int, version: int = V5, properties: bytes = b"", beat: int = 0) -> bytes:
    """A CONNECT up to its payload."""
    return text("MQTT") + bytes([version, flags]) + number(beat) + block(version, properties)


def connect(
    client: str = "c",
    version: int = V5,
    properties: bytes = b"",
    beat: int = 0,
    will: bytes = b"",
    will_flags: int = 4,
    login: tuple[str, str] = ("guest", "guest"),
    clean: bool = True,
) -> bytes:
    """A CONNECT; `will` is its part of the payload, of this version."""
    flags = 0xC0 | (2 if clean else 0) | (will_flags if will else 0)
    return packet(
        0x10, connect_head(flags, version, properties, beat) + text(client) + will + text(login[0]) + text(login[1])
    )


def will(topic: str, body: bytes, version: int = V5, properties: bytes = b"") -> bytes:
    return block(version, properties) + text(topic) + text(body)


def publish(
    topic: str | bytes, body: bytes = b"", qos: int = 0, id: int = 1, version: int = V5, properties: bytes = b"",
    bits: int = 0,
) -> bytes:  # fmt: skip
    """A PUBLISH; `bits` are DUP (8) and RETAIN (1)."""
    head = text(topic) + (number(id) if qos else b"") + block(version, properties)
    return packet(0x30 | qos << 1 | bits, head + body)


def subscribe(id: int, *filters: tuple[str | bytes, int], version: int = V5, properties: bytes = b"") -> bytes:
    rest = b"".join(text(name) + bytes([options]) for name, options in filters)
    return packet(0x82, number(id) + block(version, properties) + rest)


def unsubscribe(id: int, *filters: str, version: int = V5) -> bytes:
    return packet(0xA2, number(id) + block(version, b"") + b"".join(map(text, filters)))


def acknowledge(kind: int, id: int, code: int = 0) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return packet(kind, number(id) + (bytes([code]) if code else b""))


def puback(id: int, code: int = 0) -> bytes:
    return acknowledge(PUBACK, id, code)


def split_block(data: bytes) -> tuple[bytes, bytes]:
    """A property block without its length, and what is behind it."""
    length, data = cut_varint(data)
    return data[:length], data[length:]


def cut_varint(data: bytes) -> tuple[int, bytes]:
    """A variable byte integer, and what is behind it."""
    value, at = 0, 0
    while True:
        octet = data[at]
        value |= (octet & 127) << 7 * at
        at += 1
        if octet < 128:
            assert octet or at == 1, "a variable byte integer of more octets than it needs"  # [MQTT-1.5.5-1]
            return value, data[at:]


def properties_of(data: bytes) -> list[tuple[int, object]]:
    """Identifier and value of each property of a block: a number, octets, or a pair of texts."""
    found: list[tuple[int, object]] = []
    while data:
        id, data = data[0], data[1:]
        width = WIDTHS[id]
        if width > 0:
            found.append((id, int.from_bytes(data[:width], "big")))
        elif width == -1:
            value, data = cut_varint(data)
            found.append((id, value))
        else:
            first, data = cut_text(data)
            if width == -2:
                second, data = cut_text(data)
                found.append((id, (first.decode(), second.decode())))
            else:
                found.append((id, first))
        data = data[max(width, 0) :]
    return found


def cut_text(data: bytes) -> tuple[bytes, bytes]:
    end = 2 + int.from_bytes(data[:2], "big")
    assert end <= len(data)
    return data[2:end], data[end:]


@dataclass
class Delivery:
    """A PUBLISH from the broker."""

    topic: str
    body: bytes
    qos: int = 0
    id: int = 0
    bits: int = 0
    properties: list[tuple[int, object]] = field(default_factory=list)

    def facts(self) -> dict[str, str]:
        """The user properties."""
        return dict(value for id, value in self.properties if id == 0x26 and isinstance(value, tuple))


class Raw:
    """One connection, of which nothing is sent yet."""

    def __init__(self, broker: Dialled, version: int = V5) -> None:
        self.version = version
        self.socket = broker.dial("mqtt")
        self.rest = b""

    def send(self, *octets: bytes) -> None:
        self.socket.sendall(b"".join(octets))

    def read(self, octets: int) -> bytes:
        if len(self.rest) < octets:
            parts, missing = [self.rest], octets - len(self.rest)
            while missing > 0:
                parts.append(self.socket.recv(65536))
                assert parts[-1], f"the broker closed the connection after {b''.join(parts)!r}"
                missing -= len(parts[-1])
            self.rest = b"".join(parts)
        taken, self.rest = self.rest[:octets], self.rest[octets:]
        return taken

    def packet(self) -> tuple[int, bytes]:
        """First octet of the next packet, and what follows its remaining length."""
        first = self.read(1)[0]
        length, shift = 0, 0
        while True:
            octet = self.read(1)[0]
            length |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                assert octet or shift == 7, "a remaining length of more octets than it needs"
                return first, self.read(length)

    def expect(self, first: int) -> bytes:
        """What the next packet, which must begin so, holds."""
        found, rest = self.packet()
        assert found == first, (hex(found), rest)
        return rest

    def connack(self, code: int = 0, present: bool = False) -> list[tuple[int, object]]:
        """Properties of the CONNACK that must come now, with this code and Session Present."""
        rest = self.expect(CONNACK)
        assert rest[:2] == bytes([present, code]), rest
        if self.version == V311:
            assert len(rest) == 2
            return []
        data, behind = split_block(rest[2:])
        assert behind == b""
        return properties_of(data)

    def delivery(self) -> Delivery:
        """The PUBLISH that must come now."""
        return self.parsed(*self.packet())

    def parsed(self, first: int, rest: bytes) -> Delivery:
        """The packet, which must be a PUBLISH."""
        assert first >> 4 == 3, (hex(first), rest)
        topic, rest = cut_text(rest)
        made = Delivery(topic.decode(), b"", first >> 1 & 3, 0, first & 9)
        if made.qos:
            made.id, rest = int.from_bytes(rest[:2], "big"), rest[2:]
            assert made.id
        if self.version == V5:
            data, rest = split_block(rest)
            made.properties = properties_of(data)
        made.body = rest
        return made

    def acked(self, id: int = 1, code: int = 0, kind: int = PUBACK) -> None:
        """The acknowledgement that must come now."""
        rest = self.expect(kind)
        assert (rest[:2], rest[2] if len(rest) > 2 else 0) == (number(id), code)
        assert len(rest) == 2 or self.version == V5

    def granted(self, id: int = 1, kind: int = SUBACK) -> list[int]:
        """The codes of a SUBACK or UNSUBACK that must come now."""
        rest = self.expect(kind)
        assert rest[:2] == number(id)
        return list(split_block(rest[2:])[1] if self.version == V5 else rest[2:])

    def subscribe(self, *filters: str, qos: int = 1, properties: bytes = b"") -> None:
        """Subscribe to each, which must be granted."""
        self.send(subscribe(1, *[(name, qos) for name in filters], version=self.version, properties=properties))
        assert self.granted() == [qos] * len(filters)

    def publish(self, topic: str, body: bytes = b"", qos: int = 1, properties: bytes = b"", id: int = 1) -> int:
        """Publish, and wait until the broker has it; the code of its PUBACK. Deliveries that come before it wait."""
        self.send(publish(topic, body, qos, id, self.version, properties))
        if not qos:
            self.quiet()
            return 0
        early = b""
        first, rest = self.packet()
        while first >> 4 == 3:
            early += packet(first, rest)
            first, rest = self.packet()
        self.rest = early + self.rest
        assert (first, rest[:2]) == (PUBACK, number(id)), rest
        return rest[2] if len(rest) > 2 else 0

    def quiet(self) -> None:
        """Nothing may be on the way to us."""
        self.send(PINGREQ)
        self.expect(PINGRESP[0])

    def ended(self) -> bool:
        """Wait for the broker to close the connection; whether it did so without another word."""
        try:
            return not self.rest and self.socket.recv(65536) == b""
        except ConnectionResetError:
            return True

    def refused(self, code: int) -> None:
        """The connection must end; a client of version 5 is told this code."""
        if self.version == V5:
            rest = self.expect(DISCONNECTED)
            assert rest[0] == code, rest
            data, behind = split_block(rest[1:] or b"\0")
            assert behind == b""
            properties_of(data)
        assert self.ended()

    def leave(self) -> None:
        """End the connection with DISCONNECT, and wait until the broker has seen it."""
        self.send(DISCONNECT)
        assert self.ended()

    def vanish(self) -> None:
        """End the connection without DISCONNECT, and wait until the broker has seen it."""
        self.socket.shutdown(socket.SHUT_WR)
        while self.socket.recv(65536):
            continue
        self.close()

    def close(self) -> None:
        self.socket.close()


def connected(
    broker: Dialled,
    client: str = "c",
    version: int = V5,
    properties: bytes = b"",
    clean: bool = True,
    present: bool = False,
) -> Raw:
    """A connection that has its CONNACK; `present`: which must tell of a session."""
    raw = Raw(broker, version)
    raw.send(connect(client, version, properties, clean=clean))
    raw.connack(present=present)
    return raw
