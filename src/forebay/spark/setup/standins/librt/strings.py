"""A slow stand-in for `librt.strings`: a byte buffer, and reading and writing of numbers."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import final


@final
class BytesWriter:
    """A buffer that bytes are appended to."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def __len__(self) -> int:
        return len(self._octets)

    def append(self, octet: int) -> None:
        """Append one byte."""
        self._octets.append(octet)

    def write(self, octets: bytes | bytearray) -> None:
        """Append several bytes."""
        self._octets += octets

    def getvalue(self) -> bytes:
        """Return all bytes written."""
        return bytes(self._octets)

    def truncate(self, size: int) -> None:
        """Drop all but the first `size` bytes."""
        del self._octets[size:]


def reader(format: str) -> Callable[[bytes, int], int]:
    """Return a function that reads a number of this struct format. It raises IndexError beyond the end of the bytes."""
    struct = Struct(format)

    def read(octets: bytes, index: int) -> int:
        if index < 0 or index + struct.size > len(octets):
            raise IndexError("index out of range")
        number: int = struct.unpack_from(octets, index)[0]
        return number

    return read


def writer(format: str) -> Callable[[BytesWriter, int], None]:
    """Return a function that appends a number of this struct format to a buffer."""
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
