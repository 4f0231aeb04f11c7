"""Octets written one after the other, and numbers in them: as mypyc's library has them, slowly."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import final


@final
class BytesWriter:
    """Octets that become more."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def __len__(self) -> int:
        return len(self._octets)

    def append(self, octet: int) -> None:
        """Add one octet."""
        self._octets.append(octet)

    def write(self, octets: bytes | bytearray) -> None:
        """Add several."""
        self._octets += octets

    def getvalue(self) -> bytes:
        """All that were written."""
        return bytes(self._octets)

    def truncate(self, size: int) -> None:
        """Keep the first so many."""
        del self._octets[size:]


def reader(format: str) -> Callable[[bytes, int], int]:
    """A function that reads a number of this format; IndexError where it is not whole."""
    struct = Struct(format)

    def read(octets: bytes, index: int) -> int:
        if index < 0 or index + struct.size > len(octets):
            raise IndexError("index out of range")
        number: int = struct.unpack_from(octets, index)[0]
        return number

    return read


def writer(format: str) -> Callable[[BytesWriter, int], None]:
    """A function that writes a number of this format."""
    struct = Struct(format)

    def write(out: BytesWriter, number: int) -> None:
        out.write(struct.pack(number))

    return write


read_i16_be = reader(">h")
read_i32_be = reader(">i")
read_i64_be = reader(">q")
read_i16_le = reader("<h")
read_i32_le = reader("<i")
read_i64_le = reader("<q")
read_f32_be = reader(">f")
read_f64_be = reader(">d")
write_i16_be = writer(">h")
write_i32_be = writer(">i")
write_i64_be = writer(">q")
write_i16_le = writer("<h")
write_i32_le = writer("<i")
write_i64_le = writer("<q")
write_f32_be = writer(">f")
write_f64_be = writer(">d")
