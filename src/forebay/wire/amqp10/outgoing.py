"""Encoders for the frames of every message, deliveries, dispositions and flows, without an object for each value."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.pieces import Part, pieces
from forebay.wire.amqp10.encoder import put_u32, put_value
from forebay.wire.amqp10.frames import AMQP_FRAME, FRAME_HEAD_OCTETS, put_frame_head
from forebay.wire.amqp10.performatives import DISPOSITION, FLOW, TRANSFER, Flow
from forebay.wire.amqp10.values import (
    BINARY_8,
    DESCRIBED,
    FALSE,
    LIST_8,
    LIST_32,
    NULL,
    TRUE,
    UINT,
    UINT_0,
    UINT_SMALL,
    ULONG_SMALL,
    symbol_map,
)

LONG_OCTETS: Final = 1 << 20  # a body of at least this length is sent without a copy
LIST_OCTETS_MAX: Final = 254  # limit for the fields of a list with 8-bit sizes
LIST_8_HEAD: Final = 6  # octets of a described list before its fields
LIST_32_HEAD: Final = 12
TAG_OCTETS_MAX: Final = 32

# Encoded delivery states. `encode_value` encodes others.
NO_STATE: Final = b""
ACCEPTED_STATE: Final = b"\x00\x53\x24\x45"
RELEASED_STATE: Final = b"\x00\x53\x26\x45"


def uint_octets(number: i64) -> i64:
    """Return the encoded length of a uint, or of null for a negative number."""
    if number > 255:
        return 5
    return 2 if number > 0 else 1


def put_uint(out: BytesWriter, number: i64) -> None:
    """Append a uint, or null for a negative number."""
    if number > 255:
        out.append(UINT)
        put_u32(out, number)
    elif number > 0:
        out.append(UINT_SMALL)
        out.append(int(number))
    else:
        out.append(UINT_0 if number == 0 else NULL)


def put_flag(out: BytesWriter, flag: bool) -> None:
    """Append a boolean."""
    out.append(TRUE if flag else FALSE)


def put_list_head(out: BytesWriter, code: i64, octets: i64, count: i64) -> None:
    """Append the beginning of performative `code` up to its `count` fields, which take `octets` octets."""
    out.append(DESCRIBED)
    out.append(ULONG_SMALL)
    out.append(int(code))
    if octets <= LIST_OCTETS_MAX:
        out.append(LIST_8)
        out.append(int(octets + 1))
        out.append(int(count))
    else:
        out.append(LIST_32)
        put_u32(out, octets + 4)
        put_u32(out, count)


def list_head_octets(octets: i64) -> i64:
    """Return the number of octets that `put_list_head` writes."""
    return LIST_8_HEAD if octets <= LIST_OCTETS_MAX else LIST_32_HEAD


# ---- deliveries


def first_head_octets(handle: i64, delivery_id: i64, tag: bytes, state: bytes) -> i64:
    """Return the length of a delivery's first frame without its payload."""
    fields = uint_octets(handle) + uint_octets(delivery_id) + 5 + i64(len(tag))
    if state:
        fields += 1 + i64(len(state))
    return FRAME_HEAD_OCTETS + LIST_8_HEAD + fields


def next_head_octets(handle: i64) -> i64:
    """Return the length of a later frame of a delivery without its payload."""
    return FRAME_HEAD_OCTETS + LIST_8_HEAD + uint_octets(handle) + 5


def delivery_frames(octets: i64, first_head: i64, next_head: i64, frame_octets_max: i64) -> i64:
    """Return the number of frames of a delivery of `octets` octets. `put_delivery` may add one for a long body."""
    rest = octets - (frame_octets_max - first_head)
    if rest <= 0:
        return 1
    room = frame_octets_max - next_head
    return 1 + (rest + room - 1) // room


def put_first_head(
    out: BytesWriter,
    channel: i64,
    handle: i64,
    delivery_id: i64,
    tag: bytes,
    settled: bool,
    more: bool,
    state: bytes,
    payload_octets: i64,
) -> None:
    """Append the first frame of a delivery up to its payload. The payload must follow."""
    assert len(tag) <= TAG_OCTETS_MAX
    head = first_head_octets(handle, delivery_id, tag, state)
    put_frame_head(out, head + payload_octets, channel, AMQP_FRAME)
    put_list_head(out, TRANSFER, head - FRAME_HEAD_OCTETS - LIST_8_HEAD, 8 if state else 6)
    put_uint(out, handle)
    put_uint(out, delivery_id)
    out.append(BINARY_8)
    out.append(len(tag))
    out.write(tag)
    out.append(UINT_0)  # message format
    put_flag(out, settled)
    put_flag(out, more)
    if state:
        out.append(NULL)
        out.write(state)


def put_small_delivery(
    out: BytesWriter, channel: i64, handle: i64, delivery_id: i64, settled: bool, sections: bytes, body: bytes
) -> None:
    """Append a delivery that fits into one frame. Its delivery tag is its delivery id, in four octets."""
    octets = uint_octets(handle) + 14
    payload = i64(len(sections)) + i64(len(body))
    put_frame_head(out, FRAME_HEAD_OCTETS + LIST_8_HEAD + octets + payload, channel, AMQP_FRAME)
    put_list_head(out, TRANSFER, octets, 6)
    put_uint(out, handle)
    out.append(UINT)
    put_u32(out, delivery_id)
    out.append(BINARY_8)
    out.append(4)
    put_u32(out, delivery_id)
    out.append(UINT_0)  # message format
    put_flag(out, settled)
    out.append(FALSE)  # more
    out.write(sections)
    out.write(body)


def put_next_head(out: BytesWriter, channel: i64, handle: i64, more: bool, payload_octets: i64) -> None:
    """Append a later frame of a delivery up to its payload. The payload must follow."""
    head = next_head_octets(handle)
    put_frame_head(out, head + payload_octets, channel, AMQP_FRAME)
    put_list_head(out, TRANSFER, head - FRAME_HEAD_OCTETS - LIST_8_HEAD, 6)
    put_uint(out, handle)
    for _ in range(4):
        out.append(NULL)
    put_flag(out, more)


def put_delivery(
    out: BytesWriter,
    channel: i64,
    handle: i64,
    delivery_id: i64,
    tag: bytes,
    settled: bool,
    sections: bytes,
    body: bytes,
    frame_octets_max: i64,
    state: bytes = NO_STATE,
    parts: list[Part] | None = None,
) -> i64:
    """Append the frames of a delivery, and return their number.

    sections  encoded sections before the body
    state     encoded delivery state of at most 100 octets, for a delivery within a transaction only
    parts     if given, the output and a body of LONG_OCTETS or more go there as separate parts, so it is not copied
    """
    head = first_head_octets(handle, delivery_id, tag, state)
    assert head <= 200 and frame_octets_max >= 512
    octets = i64(len(sections)) + i64(len(body))
    room = frame_octets_max - head
    if parts is not None and len(body) >= LONG_OCTETS and len(sections) <= room:
        put_first_head(out, channel, handle, delivery_id, tag, settled, True, state, len(sections))
        out.write(sections)
        return 1 + put_long_body(out, parts, channel, handle, body, frame_octets_max - next_head_octets(handle))
    if octets <= room:
        put_first_head(out, channel, handle, delivery_id, tag, settled, False, state, octets)
        out.write(sections)
        out.write(body)
        return 1
    payload = sections + body
    put_first_head(out, channel, handle, delivery_id, tag, settled, True, state, room)
    out.write(payload[:room])
    at = room
    room = frame_octets_max - next_head_octets(handle)
    frames: i64 = 1
    while at < octets:
        piece = payload[at : at + room]
        at += room
        put_next_head(out, channel, handle, at < octets, len(piece))
        out.write(piece)
        frames += 1
    return frames


def put_long_body(out: BytesWriter, parts: list[Part], channel: i64, handle: i64, body: bytes, room: i64) -> i64:
    """Append the later frames of a long message to `parts` without copying the body, and return their number."""
    cut = pieces(body, int(room))
    left = len(cut)
    for piece in cut:
        left -= 1
        put_next_head(out, channel, handle, left > 0, len(piece))
        parts.append(out.getvalue())
        out.truncate(0)
        parts.append(piece)
    return len(cut)


# ---- dispositions and flows


def put_disposition(
    out: BytesWriter, channel: i64, role: bool, first: i64, last: i64, settled: bool, state: bytes
) -> None:
    """Append a disposition of the deliveries `first` to `last`, with an encoded state or NO_STATE.

    The range must not wrap around the end of the delivery ids, because many clients compare them as plain numbers.
    """
    assert first <= last
    octets = uint_octets(first) + 3 + i64(len(state) if state else 1)
    if last != first:
        octets += uint_octets(last) - 1
    put_frame_head(out, FRAME_HEAD_OCTETS + list_head_octets(octets) + octets, channel, AMQP_FRAME)
    put_list_head(out, DISPOSITION, octets, 5)
    put_flag(out, role)
    put_uint(out, first)
    put_uint(out, last if last != first else -1)
    put_flag(out, settled)
    if state:
        out.write(state)
    else:
        out.append(NULL)


def put_flow(out: BytesWriter, channel: i64, flow: Flow) -> None:
    """Append a flow."""
    inner = BytesWriter()
    put_uint(inner, flow.next_incoming_id)
    put_uint(inner, flow.incoming_window)
    put_uint(inner, flow.next_outgoing_id)
    put_uint(inner, flow.outgoing_window)
    count: i64 = 4
    if flow.handle >= 0 or flow.echo or flow.drain or flow.properties is not None:
        put_uint(inner, flow.handle)
        put_uint(inner, flow.delivery_count)
        put_uint(inner, flow.link_credit)
        put_uint(inner, flow.available)
        put_flag(inner, flow.drain)
        put_flag(inner, flow.echo)
        count = 10
    if flow.properties is not None:
        put_value(inner, symbol_map(flow.properties))
        count = 11
    octets = i64(len(inner))
    put_frame_head(out, FRAME_HEAD_OCTETS + list_head_octets(octets) + octets, channel, AMQP_FRAME)
    put_list_head(out, FLOW, octets, count)
    out.write(inner.getvalue())
