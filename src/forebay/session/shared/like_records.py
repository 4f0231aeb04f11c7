"""Records of a block that differ in nothing but their bodies: what is written before the body is made once for all."""

from __future__ import annotations

from librt.strings import read_i32_le
from mypy_extensions import i64

from forebay.log.block import Block


def has_like_records(block: Block, index: i64, count: i64) -> bool:
    """Return whether `count` records from `index` on have the same address, format and properties."""
    data = block.data
    formats = block.formats_at + index
    return (
        not block.annotated
        and uniform(data, block.key_at, block.key_octets_at, index, count)
        and uniform(data, block.exchange_at, block.exchange_octets_at, index, count)
        and uniform(data, block.properties_at, block.properties_octets_at, index, count)
        and data[formats : formats + count - 1] == data[formats + 1 : formats + count]
    )


def uniform(data: bytes, offsets_at: i64, octets_at: i64, index: i64, count: i64) -> bool:
    """True if `count` values of a column are the same."""
    at = offsets_at + 4 * index
    start = i64(read_i32_le(data, at))
    octets = i64(read_i32_le(data, at + 4)) - start
    stop = start
    for place in range(1, count + 1):
        stop += octets
        if i64(read_i32_le(data, at + 4 * place)) != stop:
            return False
    if octets == 0:
        return True
    first = octets_at + start
    # All but the first equal all but the last: the values, of one length, are one value.
    return data[first : octets_at + stop - octets] == data[first + octets : octets_at + stop]
