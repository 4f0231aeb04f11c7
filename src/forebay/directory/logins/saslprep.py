"""SASLprep (RFC 4013): one form for texts that look alike, so that a password means the same on every keyboard."""

from __future__ import annotations

import stringprep
from unicodedata import ucd_3_2_0  # stringprep's tables are those of Unicode 3.2

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def prepared(text: str) -> str:
    """The text as SASLprep has it; itself where SASLprep forbids it or would leave nothing.

    RFC 5802 would refuse the latter. Clients differ there, and most send the octets as they are, which then work.
    """
    if text.isascii() and text.isprintable():
        return text
    mapped = [" " if stringprep.in_table_c12(each) else each for each in text if not stringprep.in_table_b1(each)]
    normal = ucd_3_2_0.normalize("NFKC", "".join(mapped))
    if any(is_in(each) for each in normal for is_in in _PROHIBITED) or not _reads_one_way(normal):
        return text
    return normal or text


def _reads_one_way(text: str) -> bool:
    """RFC 3454, section 6: with a right-to-left character, no left-to-right one, and such ones at both ends."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))
