"""Another way to write the same: the narrowest encoding of each type, and descriptors that are symbols (1.6)."""

from __future__ import annotations

from typing import Any

from tests.conformance.amqp10.raw import Described, Symbol, Ubyte, Uint, Ulong, Ushort, frame

NAMES = {
    0x10: "amqp:open:list",
    0x11: "amqp:begin:list",
    0x12: "amqp:attach:list",
    0x13: "amqp:flow:list",
    0x14: "amqp:transfer:list",
    0x15: "amqp:disposition:list",
    0x16: "amqp:detach:list",
    0x17: "amqp:end:list",
    0x18: "amqp:close:list",
    0x1D: "amqp:error:list",
    0x24: "amqp:accepted:list",
    0x25: "amqp:rejected:list",
    0x26: "amqp:released:list",
    0x27: "amqp:modified:list",
    0x28: "amqp:source:list",
    0x29: "amqp:target:list",
    0x41: "amqp:sasl-init:list",
    0x70: "amqp:header:list",
    0x73: "amqp:properties:list",
    0x74: "amqp:application-properties:map",
    0x75: "amqp:data:binary",
    0x77: "amqp:amqp-value:*",
}


def sized(code: int, octets: bytes) -> bytes:
    """A value of variable width, by one octet of length if that is enough."""
    if len(octets) < 256:
        return bytes([code, len(octets)]) + octets
    return bytes([code | 0x10]) + len(octets).to_bytes(4, "big") + octets


def compound(code: int, count: int, inner: bytes) -> bytes:
    if len(inner) + 1 < 256 and count < 256:
        return bytes([code, len(inner) + 1, count]) + inner
    return bytes([code | 0x10]) + (len(inner) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + inner


def unsigned(value: int, zero: int, small: int, wide: int, width: int) -> bytes:
    if not value:
        return bytes([zero])
    return bytes([small, value]) if value < 256 else bytes([wide]) + value.to_bytes(width, "big")


def encode(value: Any, by_name: bool = False) -> bytes:
    """A value in the narrowest encoding of its type; lists without the absent fields at their end."""
    if value is None:
        return b"\x40"
    if isinstance(value, bool):
        return b"\x56" + bytes([value])
    if isinstance(value, Described):
        descriptor: Any = Symbol(NAMES[value.code]) if by_name and value.code in NAMES else Ulong(value.code)
        return b"\x00" + encode(descriptor) + encode(value.value, by_name)
    if isinstance(value, Ubyte):
        return b"\x50" + bytes([value])
    if isinstance(value, Ushort):
        return b"\x60" + value.to_bytes(2, "big")
    if isinstance(value, Uint):
        return unsigned(value, 0x43, 0x52, 0x70, 4)
    if isinstance(value, Ulong):
        return unsigned(value, 0x44, 0x53, 0x80, 8)
    if isinstance(value, int):
        if -128 <= value < 128:
            return b"\x55" + value.to_bytes(1, "big", signed=True)
        return b"\x81" + value.to_bytes(8, "big", signed=True)
    if isinstance(value, Symbol):
        return sized(0xA3, value.encode())
    if isinstance(value, str):
        return sized(0xA1, value.encode())
    if isinstance(value, bytes):
        return sized(0xA0, value)
    if isinstance(value, list):
        while value and value[-1] is None:
            value = value[:-1]
        return compound(0xC0, len(value), b"".join(encode(each, by_name) for each in value)) if value else b"\x45"
    assert isinstance(value, dict), value
    return compound(0xC1, 2 * len(value), b"".join(encode(each, by_name) for pair in value.items() for each in pair))


def performative(
    channel: int, code: int, *fields: Any, payload: bytes = b"", kind: int = 0, by_name: bool = False
) -> bytes:
    return frame(channel, encode(Described(code, list(fields)), by_name) + payload, kind)
