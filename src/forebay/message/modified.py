"""Message annotations that consumers set with the outcome `modified`, as they are stored beside the message.

They are stored as an encoded map of AMQP 1.0, whatever the protocol of the message. Consumers over other protocols get
those with names that begin with `x-` as headers.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.message.deaths import DEATH_HEADERS
from forebay.wire.amqp10.decoder import decode_value
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.neutral import DEATHS_ANNOTATION, MARK_PREFIX, neutral_value
from forebay.wire.amqp10.values import Decimal, Map, Symbol

REDELIVERED_AT: Final = "x-redelivered-at"
RESERVED: Final = ("x-opt-delivery-time", "x-exchange", "x-routing-key", "x-cc", DEATHS_ANNOTATION)


def merge_annotations(known: bytes, given: bytes) -> bytes:
    """Return `known` annotations with those of an outcome, which replace others of the same names; b"" for none.

    Leaves out names that are not symbols, and names that only the broker sets.
    """
    pairs = modified_pairs(known)
    for key, value in modified_pairs(given):
        if isinstance(key, Symbol) and is_free(key.text):
            pairs = [each for each in pairs if each[0] != key]
            pairs.append((key, value))
    return encode_value(Map(pairs)) if pairs else b""


def is_free(name: str) -> bool:
    """Return whether consumers may set an annotation of this name."""
    return name not in RESERVED and not name.startswith(MARK_PREFIX) and name.encode() not in DEATH_HEADERS


def with_redelivery(known: bytes, ms: int) -> bytes:
    """Return annotations with the one that marks a redelivery of an already settled message.

    ms  time of the request to redeliver, in milliseconds since 1970
    """
    return merge_annotations(known, encode_value(Map([(Symbol(REDELIVERED_AT), ms)])))


def modified_pairs(modified: bytes) -> list[tuple[object, object]]:
    """Return the names and values of encoded annotations."""
    if not modified:
        return []
    found = decode_value(modified, 0, i64(len(modified)))
    assert isinstance(found, Map)
    return list(found.pairs)


def modified_headers(modified: bytes) -> list[tuple[str, object]]:
    """Return the annotations that consumers over other protocols get as headers."""
    found: list[tuple[str, object]] = []
    for key, value in modified_pairs(modified):
        if isinstance(key, Symbol) and key.text.startswith("x-") and not isinstance(value, Decimal):
            found.append((key.text, neutral_value(value)))
    return found
