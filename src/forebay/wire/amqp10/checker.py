"""Checks that encoded AMQP 1.0 values are well-formed, without creating an object for each."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.wire.amqp10.decoder import data_end, is_known, malformed, read_u32, value_end
from forebay.wire.amqp10.encoder import WIDE, fixed_width
from forebay.wire.amqp10.values import BOOLEAN, CHAR, CHAR_MAX, DESCRIBED

SHORT_OCTETS: Final = 64  # a text up to this length is checked in place, without a copy


def check_value(data: bytes, at: i64, end: i64, depth: i64) -> i64:
    """Return the position after the value at `at`. Raises PeerError(MALFORMED) unless the whole value can be decoded.

    Duplicate keys in maps are not detected.
    depth  levels of lists, maps, arrays and descriptors that may still follow
    """
    if at >= end:
        raise malformed(at, "runs over the end")
    code = i64(data[at])
    if code == DESCRIBED:
        if depth <= 0:
            raise malformed(at, "nests too deep")
        return check_value(data, check_value(data, at + 1, end, depth - 1), end, depth - 1)
    stop = value_end(data, at, end)
    check_data(data, at + 1, stop, code, depth)
    return stop


def check_data(data: bytes, at: i64, stop: i64, code: i64, depth: i64) -> None:
    """Check the data [at, stop) that follows the constructor `code`."""
    high = code >> 4
    if high < 0xA:
        if code == BOOLEAN and data[at] > 1:
            raise malformed(at, f"a boolean is 0 or 1, not {data[at]}")
        if code == CHAR:
            point = read_u32(data, at)
            if point > CHAR_MAX or 0xD800 <= point <= 0xDFFF:
                raise malformed(at, f"{point} is no character")
        return
    at += 4 if code & WIDE else 1
    if high <= 0xB:
        if code & 15:
            check_text(data, at, stop, code & 15 == 3)
        return
    if depth <= 0:
        raise malformed(at, "nests too deep")
    octets: i64 = 4 if code & WIDE else 1
    if at + octets > stop:
        raise malformed(at, "runs over the end")
    count = read_u32(data, at) if code & WIDE else i64(data[at])
    at += octets
    if high >= 0xE:
        check_items(data, at, stop, count, depth - 1)
        return
    if code & 15 == 1 and count & 1:
        raise malformed(at, f"a map of {count} keys and values")
    if count > stop - at:
        raise malformed(at, f"{count} items do not fit into {stop - at} octets")
    for _ in range(count):
        at = check_value(data, at, stop, depth - 1)
    if at != stop:
        raise malformed(at, f"{stop - at} octets more than its items take")


def check_text(data: bytes, at: i64, stop: i64, is_symbol: bool) -> None:
    """Raise PeerError(MALFORMED) for a string that is not UTF-8, or a symbol that is not ASCII."""
    if stop - at <= SHORT_OCTETS:
        place = at
        while place < stop and data[place] < 128:
            place += 1
        if place == stop:
            return
    octets = data[at:stop]
    if octets.isascii():
        return
    if is_symbol:
        raise malformed(at, "a symbol is not ASCII")
    try:
        octets.decode()
    except UnicodeDecodeError:
        raise malformed(at, "a string is not UTF-8") from None


def check_items(data: bytes, at: i64, stop: i64, count: i64, depth: i64) -> None:
    """Check the part [at, stop) of an array that begins with the constructor of its `count` items."""
    while at < stop and data[at] == DESCRIBED:
        if depth <= 0:
            raise malformed(at, "nests too deep")
        depth -= 1
        at = check_value(data, at + 1, stop, depth)
    if at >= stop:
        raise malformed(at, "runs over the end")
    code = i64(data[at])
    if not is_known(code):
        raise malformed(at, f"constructor 0x{code:02x} is unknown")
    width = fixed_width(code)
    at += 1
    if width >= 0 and code not in (BOOLEAN, CHAR):
        if width * count != stop - at:
            raise malformed(at, f"{count} items of {width} octets in {stop - at} octets")
        return
    if count > stop - at:
        raise malformed(at, f"{count} items do not fit into {stop - at} octets")
    for _ in range(count):
        item_end = data_end(data, at, stop, code)
        check_data(data, at, item_end, code, depth)
        at = item_end
    if at != stop:
        raise malformed(at, f"{stop - at} octets more than its items take")
