"""The STAGE frame of the block protocol (see frames.py): one block of rows, and the transaction it belongs to."""

from __future__ import annotations

import json
from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64

from forebay.core.errors import MALFORMED, TOO_LARGE, PeerError
from forebay.wire.blocks.frames import (
    STAGE,
    STAGE_BLOCK_OCTETS_MAX,
    STAGE_HEAD_OCTETS,
    STAGE_OBJECT_OCTETS_MAX,
    decode_json,
    encode_head,
    integer_field,
    name_field,
    shown,
)

FIELDS: Final = ("query", "batch", "part")
STAGED: Final = "stage"  # name of the request in error messages


@final
class Stage:
    """A request to stage one block of rows.

    block_at  offset in the frame's payload where the block begins; the block extends to the payload's end
    """

    def __init__(self, query: str, batch: int, part: str, block_at: i64) -> None:
        self.query = query
        self.batch = batch
        self.part = part
        self.block_at: i64 = block_at


def encode_stage(query: str, batch: int, part: str, block_octets: int) -> bytes:
    """Return the part of a STAGE frame that precedes its block."""
    object = json.dumps({"query": query, "batch": batch, "part": part}, separators=(",", ":")).encode()
    fill = -(STAGE_HEAD_OCTETS + len(object)) & 7
    out = BytesWriter()
    out.write(encode_head(STAGE, STAGE_HEAD_OCTETS + len(object) + fill + block_octets))
    write_i32_le(out, i32(len(object)))
    out.write(object)
    out.write(bytes(fill))
    return out.getvalue()


def decode_stage(data: bytes, at: i64, end: i64) -> Stage:
    """Return the stage request in the payload data[at:end]. The block itself is not decoded.

    Raises PeerError if the payload is malformed, and RequestError that names a field with a wrong value.
    """
    octets: i64 = 0
    if end - at >= STAGE_HEAD_OCTETS:
        octets = i64(read_i32_le(data, at))
    if octets <= 0 or octets > STAGE_OBJECT_OCTETS_MAX:
        raise PeerError(MALFORMED, f"STAGE frame with an object of {octets} octets")
    object_end = at + STAGE_HEAD_OCTETS + octets
    block_at = object_end + (-(STAGE_HEAD_OCTETS + octets) & 7)
    if end <= block_at:
        raise PeerError(MALFORMED, f"STAGE frame of {end - at} octets has no block")
    if end - block_at > STAGE_BLOCK_OCTETS_MAX:
        raise PeerError(TOO_LARGE, f"staged block of {end - block_at} octets, the limit is {STAGE_BLOCK_OCTETS_MAX}")
    for position in range(object_end, block_at):
        if data[position]:
            raise PeerError(MALFORMED, "padding of a STAGE frame is not zero")
    values = decode_json(data[at + STAGE_HEAD_OCTETS : object_end])
    for name in values:
        if name not in FIELDS:
            raise PeerError(MALFORMED, f"STAGE: {shown(name)} is no field; known are {', '.join(FIELDS)}")
    query = name_field(values, STAGED, "query")
    batch = integer_field(values, STAGED, "batch", 0)
    return Stage(query, batch, name_field(values, STAGED, "part"), block_at - at)
