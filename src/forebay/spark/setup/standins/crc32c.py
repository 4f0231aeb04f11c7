"""CRC32C with numpy, at about 400 MB a second, for use without the package `crc32c` and its processor instruction.

A CRC register is linear. Zeros before the data leave an empty register unchanged. The register of two halves is the
register of the first, advanced by the length of the second, XOR the register of the second. So the data is cut into
lanes of equal length with a register each, which numpy feeds four bytes at a time. Then neighbouring lanes are combined
until one register is left.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

POLYNOMIAL: Final = 0x82F63B78  # reflected
ONES: Final = 0xFFFFFFFF
WORD: Final = 4
LANE_OCTETS: Final = 64
LONG_LANE_OCTETS: Final = 1024  # for data of at least LONG_OCTETS
LONG_OCTETS: Final = 1 << 18

Registers = npt.NDArray[np.uint32]


def octet_table() -> Registers:
    """Return the table of registers after one byte, by the byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ POLYNOMIAL, table >> 1).astype(np.uint32)
    return table


OCTET: Final = octet_table()


def after_zeros(registers: Registers, octets: int) -> Registers:
    """Return each of the registers advanced by a number of zero bytes, byte by byte."""
    for _ in range(octets):
        registers = OCTET[registers & 255] ^ (registers >> 8)
    return registers


# Tables that advance a register by a word, by its lower and its upper half: two look-ups for four bytes.
HALF: Final[Registers] = np.arange(1 << 16, dtype=np.uint32)
LOWER: Final = after_zeros(HALF, WORD)
UPPER: Final = after_zeros(HALF << np.uint32(16), WORD)


@cache
def moved(octets: int) -> tuple[Registers, Registers]:
    """Return tables that advance a register by a number of zero bytes, by its lower and its upper half.

    octets  a power of two, at least a word
    """
    if octets == WORD:
        return LOWER, UPPER
    lower, upper = moved(octets // 2)
    return lower[lower & 0xFFFF] ^ upper[lower >> 16], lower[upper & 0xFFFF] ^ upper[upper >> 16]


def crc32c(data: Any, value: int = 0) -> int:
    """Return the checksum of earlier data with checksum `value`, followed by `data`."""
    octets = np.frombuffer(data, np.uint8)
    register = value ^ ONES
    if len(octets) < WORD:
        for octet in octets.tolist():
            register = int(OCTET[(register ^ octet) & 255]) ^ (register >> 8)
        return register ^ ONES
    lane = LONG_LANE_OCTETS if len(octets) >= LONG_OCTETS else LANE_OCTETS
    lanes = -(-len(octets) // lane)
    filled = np.zeros(lanes * lane, np.uint8)
    before = len(filled) - len(octets)
    filled[before:] = octets
    filled[before : before + WORD] ^= np.frombuffer(register.to_bytes(WORD, "little"), np.uint8)
    words = np.ascontiguousarray(filled.view("<u4").reshape(lanes, lane // WORD).T)
    registers = np.zeros(lanes, np.uint32)
    for each in words:
        registers ^= each
        registers = LOWER[registers & 0xFFFF] ^ UPPER[registers >> 16]
    while len(registers) > 1:
        if len(registers) & 1:
            registers = np.concatenate([np.zeros(1, np.uint32), registers])
        lower, upper = moved(lane)
        first = registers[0::2]
        registers = lower[first & 0xFFFF] ^ upper[first >> 16] ^ registers[1::2]
        lane *= 2
    return int(registers[0]) ^ ONES
