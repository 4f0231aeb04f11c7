"""CRC-64 as in xz files (ECMA-182, reflected), which no library of Python's has.

A compiled integer has 64 bits with a sign, so the checksum is kept in two halves of 32 bits.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

POLYNOMIAL_HIGH: Final = 0xC96C5795
POLYNOMIAL_LOW: Final = 0xD7870F42
HALF: Final = 0xFFFFFFFF


def table_entries() -> list[tuple[int, int]]:
    """Return for each value of a byte the high and low half of its checksum."""
    found: list[tuple[int, int]] = []
    for byte in range(256):
        high = 0
        low = byte
        for _ in range(8):
            is_odd = low & 1
            low = (low >> 1) | ((high & 1) << 31)
            high >>= 1
            if is_odd:
                low ^= POLYNOMIAL_LOW
                high ^= POLYNOMIAL_HIGH
        found.append((high, low))
    return found


HIGHS: Final[list[int]] = [high for high, _ in table_entries()]
LOWS: Final[list[int]] = [low for _, low in table_entries()]


def crc64(octets: bytes) -> int:
    """Return the checksum of these bytes, from 0 to 2^64 - 1."""
    highs = HIGHS
    lows = LOWS
    high: i64 = HALF
    low: i64 = HALF
    for octet in octets:
        byte: i64 = octet
        index = (low ^ byte) & 0xFF
        low = ((low >> 8) | ((high & 0xFF) << 24)) ^ i64(lows[index])
        high = (high >> 8) ^ i64(highs[index])
    return (int(high ^ HALF) << 32) | int(low ^ HALF)
