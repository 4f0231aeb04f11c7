"""The properties of stored records, decoded once for all records that say the same."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.errors import PeerError
from forebay.core.message import FORMAT_MASK, Properties
from forebay.message.formats.table import format_of

KNOWN_MAX: Final = 1024
MEMO_OCTETS_MAX: Final = 1024  # longer ones are seldom the same twice, and would fill the memory


class DecodedProperties:
    """The decoded properties: octets with their format behind them -> what they say."""

    def __init__(self) -> None:
        self.known: dict[bytes, Properties] = {}
        self.last_octets = b""
        self.last_format: i64 = 0
        self.last = Properties()


MEMO: Final = DecodedProperties()


def properties_of(format: i64, octets: bytes) -> Properties:
    """The properties in a format; none, where they cannot be read by the rules of today.

    format   the whole octet of a record
    returns  shared by all who ask for the same octets: never to be changed
    """
    memo = MEMO
    format &= FORMAT_MASK
    # One publisher's records lie side by side, and mostly say the same.
    if format == memo.last_format and octets == memo.last_octets:
        return memo.last
    key = octets + bytes([int(format)])
    found = memo.known.get(key)
    if found is None:
        found = decoded(format, octets)
        if len(octets) <= MEMO_OCTETS_MAX:
            if len(memo.known) >= KNOWN_MAX:
                memo.known.clear()
            memo.known[key] = found
    memo.last = found
    memo.last_octets = octets
    memo.last_format = format
    return found


def decoded(format: i64, octets: bytes) -> Properties:
    try:
        return format_of(format).decode(octets)
    except PeerError:  # they were checked when they came; by rules that have changed since
        return Properties()
