"""Decodes the properties of stored records, and caches the results: many records have equal properties."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.errors import PeerError
from forebay.core.message import FORMAT_MASK, Properties
from forebay.message.formats.table import format_of

KNOWN_MAX: Final = 1024
MEMO_OCTETS_MAX: Final = 1024  # longer properties seldom repeat, and would fill the memory


class DecodedProperties:
    """A cache of decoded properties, by their encoded bytes followed by the format."""

    def __init__(self) -> None:
        self.known: dict[bytes, Properties] = {}
        self.last_octets = b""
        self.last_format: i64 = 0
        self.last = Properties()


MEMO: Final = DecodedProperties()


def properties_of(format: i64, octets: bytes) -> Properties:
    """Return the decoded properties, or empty ones if the current rules no longer accept them.

    format   the whole format octet of a record
    returns  an object shared by all callers with the same bytes: do not change it
    """
    memo = MEMO
    format &= FORMAT_MASK
    # Consecutive records are mostly of one publisher, with equal properties.
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
    except PeerError:  # they were checked when published, but the rules have changed since
        return Properties()
