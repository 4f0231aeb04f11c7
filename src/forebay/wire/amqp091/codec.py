"""AMQP 0.9.1 on the wire: frames, primitive values and field tables.

A frame (AMQP 0.9.1 section 2.3.5), all numbers big-endian:

    0  1  kind: 1 method, 2 content header, 3 content body, 8 heartbeat
    1  2  channel
    3  4  octets n of the payload
    7  n  payload
       1  0xCE

Field tables are read as RabbitMQ reads them, which differs from the specification ('s' is a 16-bit number).
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.core.pieces import Part, pieces

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_OVERHEAD: Final = 8
FRAME_OCTETS_MIN: Final = 4096  # smallest frame_max that a peer may negotiate

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

FRAME: Final = "frame"  # reason of a PeerError: not a frame, so the start of the next frame is unknown

LONG_OCTETS: Final = 1 << 20  # a body of at least this length is sent without a copy
TABLE_DEPTH_MAX: Final = 128  # upper bound of the configured depth, because the decoder recurses
SHORT_STRING_MAX: Final = 255


def check_kind(kind: i64) -> None:
    """Raise PeerError(FRAME) unless `kind` is a known frame type."""
    if kind not in (METHOD, HEADER, BODY, HEARTBEAT):
        raise PeerError(FRAME, f"type {kind} is no type of a frame")


def frame_end(data: bytes, start: i64, frame_octets_max: i64) -> i64:
    """Return the position after the frame that begins at `start`, or 0 if the frame is incomplete.

    Raises PeerError(FRAME) if the octets are not a valid frame.
    """
    size = i64(len(data))
    if start + 7 > size:
        return 0
    check_kind(i64(data[start]))
    octets = i64(read_i32_be(data, start + 3))
    if octets < 0 or octets > frame_octets_max - FRAME_OVERHEAD:
        raise PeerError(
            FRAME, f"frame of {octets & 0xFFFFFFFF} octets is longer than frame_max {frame_octets_max} allows"
        )
    end = start + octets + FRAME_OVERHEAD
    if end > size:
        return 0
    if data[end - 1] != FRAME_END:
        raise PeerError(FRAME, f"frame ends with octet {data[end - 1]}, not with 206")
    return end


def frame_wanted(rest: bytes) -> i64:
    """Return the length in octets of the frame at the start of `rest`, or 0 if its head is incomplete."""
    if len(rest) < 7:
        return 0
    octets = i64(read_i32_be(rest, 3))
    return octets + FRAME_OVERHEAD if octets >= 0 else 0


# ---- reading


def overrun(what: str, position: i64) -> PeerError:
    """Return the PeerError for a field `what` whose length runs past the end of its frame."""
    return PeerError(MALFORMED, f"{what} at octet {position} runs over the end")


@final
class Reader:
    """A cursor that decodes values from the octets [pos, end) of `data`.

    Its methods raise PeerError(MALFORMED) if too few octets are left.
    """

    def __init__(self, data: bytes, pos: i64, end: i64, depth_max: i64) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = end
        self.depth: i64 = depth_max

    def take(self, octets: i64, what: str) -> i64:
        """Advance by `octets`, and return the position of the first of them."""
        at = self.pos
        if octets < 0 or octets > self.end - at:
            raise overrun(what, at)
        self.pos = at + octets
        return at

    def octet(self) -> i64:
        return i64(self.data[self.take(1, "octet")])

    def short(self) -> i64:
        at = self.take(2, "short")
        return i64(self.data[at]) << 8 | i64(self.data[at + 1])

    def long(self) -> i64:
        return i64(read_i32_be(self.data, self.take(4, "long"))) & 0xFFFFFFFF

    def longlong(self) -> i64:
        """Return a 64-bit number as signed, although the protocol's numbers are unsigned.

        A negative result stands for a number of 2^63 or more, which is too large for every use here.
        """
        return read_i64_be(self.data, self.take(8, "long long"))

    def short_string(self) -> bytes:
        octets = self.octet()
        at = self.take(octets, "short string")
        return self.data[at : at + octets]

    def long_string(self) -> bytes:
        octets = self.long()
        at = self.take(octets, "long string")
        return self.data[at : at + octets]

    def table(self) -> dict[str, object]:
        """Return a field table as a dict. If a name occurs twice, the later field wins."""
        fields: dict[str, object] = {}
        for name, value in self.fields():
            fields[name] = value
        return fields

    def fields(self) -> list[tuple[str, object]]:
        """Return the fields of a field table in wire order, duplicates included."""
        octets = self.long()
        stop = self.take(octets, "table") + octets
        self.pos = stop - octets
        self.descend()
        found: list[tuple[str, object]] = []
        outer = self.end
        self.end = stop
        while self.pos < stop:
            name = self.short_string().decode("utf-8", "replace")
            found.append((name, self.value()))
        self.end = outer
        self.depth += 1
        return found

    def array(self) -> list[object]:
        octets = self.long()
        stop = self.take(octets, "array") + octets
        self.pos = stop - octets
        self.descend()
        found: list[object] = []
        outer = self.end
        self.end = stop
        while self.pos < stop:
            found.append(self.value())
        self.end = outer
        self.depth += 1
        return found

    def descend(self) -> None:
        self.depth -= 1
        if self.depth < 0:
            raise PeerError(MALFORMED, f"table at octet {self.pos} nests too deep")

    def value(self) -> object:
        """Return one field value, read from its type octet on.

        Decimals become floats, and timestamps become integers in seconds.
        """
        kind = self.octet()
        if kind == 83:  # S
            octets = self.long_string()
            try:
                return octets.decode("utf-8")
            except UnicodeDecodeError:
                return octets
        if kind == 73:  # I
            return int(read_i32_be(self.data, self.take(4, "field")))
        if kind == 108:  # l
            return int(read_i64_be(self.data, self.take(8, "field")))
        if kind == 116:  # t
            return self.octet() != 0
        if kind == 70:  # F
            return self.table()
        if kind == 65:  # A
            return self.array()
        if kind == 86:  # V
            return None
        if kind == 120:  # x
            return self.long_string()
        return self.rare_value(kind)

    def rare_value(self, kind: i64) -> object:
        if kind == 98:  # b
            small = self.octet()
            return int(small - 256 if small > 127 else small)
        if kind == 66:  # B
            return int(self.octet())
        if kind == 115:  # s
            short = self.short()
            return int(short - 65536 if short > 32767 else short)
        if kind == 117:  # u
            return int(self.short())
        if kind == 105:  # i
            return int(self.long())
        if kind in (84, 76):  # T, L
            number: int = int(read_i64_be(self.data, self.take(8, "field")))
            return number + (1 << 64) if number < 0 else number
        if kind == 102:  # f
            return read_f32_be(self.data, self.take(4, "field"))
        if kind == 100:  # d
            return read_f64_be(self.data, self.take(8, "field"))
        if kind == 68:  # D
            scale = self.octet()
            digits: int = int(read_i32_be(self.data, self.take(4, "field")))
            return float(f"{digits}e-{scale}")
        raise PeerError(MALFORMED, f"field type {kind} at octet {self.pos - 1} is unknown")


def skip_table(data: bytes, pos: i64, end: i64, depth: i64) -> i64:
    """Return the position after the table at `pos`, without creating objects.

    Raises PeerError(MALFORMED) unless the whole table is well-formed.
    """
    if depth <= 0:
        raise PeerError(MALFORMED, f"table at octet {pos} nests too deep")
    if pos + 4 > end:
        raise overrun("table", pos)
    octets = i64(read_i32_be(data, pos)) & 0xFFFFFFFF
    pos += 4
    if octets > end - pos:
        raise overrun("table", pos)
    end = pos + octets
    while pos < end:
        pos += 1 + i64(data[pos])
        if pos >= end:
            raise overrun("field", pos)
        pos = skip_value(data, pos, end, depth)
    return pos


def skip_value(data: bytes, pos: i64, end: i64, depth: i64) -> i64:
    """Return the position after the field value whose type octet is at `pos`. Raises as `skip_table` does."""
    kind = i64(data[pos])
    if kind == 70:
        return skip_table(data, pos + 1, end, depth - 1)
    if kind == 65:
        return skip_array(data, pos + 1, end, depth - 1)
    pos += 1
    octets: i64
    if kind in (83, 120):
        if pos + 4 > end:
            raise overrun("field", pos)
        octets = 4 + (i64(read_i32_be(data, pos)) & 0xFFFFFFFF)
    elif kind in (73, 105, 102):
        octets = 4
    elif kind in (76, 84, 100, 108):
        octets = 8
    elif kind in (66, 98, 116):
        octets = 1
    elif kind == 86:
        octets = 0
    elif kind in (115, 117):
        octets = 2
    elif kind == 68:
        octets = 5
    else:
        raise PeerError(MALFORMED, f"field type {kind} at octet {pos - 1} is unknown")
    if octets > end - pos:
        raise overrun("field", pos)
    return pos + octets


def skip_array(data: bytes, pos: i64, end: i64, depth: i64) -> i64:
    if depth <= 0:
        raise PeerError(MALFORMED, f"array at octet {pos} nests too deep")
    if pos + 4 > end:
        raise overrun("array", pos)
    octets = i64(read_i32_be(data, pos)) & 0xFFFFFFFF
    pos += 4
    if octets > end - pos:
        raise overrun("array", pos)
    end = pos + octets
    while pos < end:
        pos = skip_value(data, pos, end, depth)
    return pos


# ---- writing


def put_short(out: BytesWriter, number: i64) -> None:
    """Append an unsigned 16-bit number."""
    assert 0 <= number <= 0xFFFF
    out.append(int(number >> 8))
    out.append(int(number & 255))


def put_long(out: BytesWriter, number: i64) -> None:
    """Append an unsigned 32-bit number."""
    assert 0 <= number <= 0xFFFFFFFF
    write_i32_be(out, i32(number - ((number >> 31) << 32)))


def put_short_string(out: BytesWriter, text: bytes) -> None:
    """Append a string of at most 255 octets with its length."""
    assert len(text) <= SHORT_STRING_MAX
    out.append(len(text))
    out.write(text)


def put_long_string(out: BytesWriter, text: bytes) -> None:
    """Append a string with its 32-bit length."""
    put_long(out, len(text))
    out.write(text)


def put_table(out: BytesWriter, fields: list[tuple[str, object]]) -> None:
    """Append a field table. Names longer than 255 octets are truncated."""
    inner = BytesWriter()
    for name, value in fields:
        put_short_string(inner, cut_text(name, SHORT_STRING_MAX))
        put_value(inner, value)
    put_long_string(out, inner.getvalue())


def put_value(out: BytesWriter, value: object) -> None:
    """Append a field value with its type octet. An integer beyond 64 bits is written as a string of digits."""
    if isinstance(value, str):
        out.append(83)
        put_long_string(out, value.encode("utf-8", "replace"))
    elif isinstance(value, bool):
        out.append(116)
        out.append(1 if value else 0)
    elif isinstance(value, int):
        put_number(out, value)
    elif isinstance(value, float):
        out.append(100)
        write_f64_be(out, value)
    elif value is None:
        out.append(86)
    elif isinstance(value, bytes):
        out.append(120)
        put_long_string(out, value)
    elif isinstance(value, list):
        inner = BytesWriter()
        for item in value:
            put_value(inner, item)
        out.append(65)
        put_long_string(out, inner.getvalue())
    else:
        assert isinstance(value, dict), type(value).__name__
        fields: list[tuple[str, object]] = []
        for name, inner_value in value.items():
            fields.append((str(name), inner_value))
        out.append(70)
        put_table(out, fields)


def put_number(out: BytesWriter, number: int) -> None:
    if -(1 << 31) <= number < 1 << 31:
        out.append(73)
        write_i32_be(out, i32(number))
    elif -(1 << 63) <= number < 1 << 63:
        out.append(108)
        write_i64_be(out, i64(number))
    else:
        out.append(83)
        put_long_string(out, str(number).encode())


def cut_text(text: str, octets_max: i64) -> bytes:
    """Return a text in UTF-8, truncated to at most `octets_max` octets at a character boundary."""
    octets = text.encode("utf-8", "replace")
    if len(octets) <= octets_max:
        return octets
    return octets[:octets_max].decode("utf-8", "ignore").encode()


def put_method(out: BytesWriter, channel: i64, method: i64, arguments: bytes) -> None:
    """Append a complete method frame."""
    out.append(METHOD)
    put_short(out, channel)
    put_long(out, 4 + len(arguments))
    put_long(out, method)
    out.write(arguments)
    out.append(FRAME_END)


def put_content(
    out: BytesWriter,
    channel: i64,
    properties: bytes,
    body: bytes,
    frame_octets_max: i64,
    parts: list[Part] | None = None,
) -> None:
    """Append the header frame and the body frames of a basic message.

    parts  if given, the output and a body of LONG_OCTETS or more go there as separate parts, so the body is not copied
    """
    out.append(HEADER)
    put_short(out, channel)
    put_long(out, 12 + len(properties))
    out.write(b"\x00\x3c\x00\x00")
    write_i64_be(out, len(body))
    out.write(properties)
    out.append(FRAME_END)
    room = frame_octets_max - FRAME_OVERHEAD
    if parts is not None and len(body) >= LONG_OCTETS:
        put_long_body(out, parts, bytes([BODY, int(channel >> 8), int(channel & 255)]), body, room)
        return
    for start in range(0, i64(len(body)), room):
        part = body[start : start + room]
        out.append(BODY)
        put_short(out, channel)
        put_long(out, len(part))
        out.write(part)
        out.append(FRAME_END)


def put_long_body(out: BytesWriter, parts: list[Part], head: bytes, body: bytes, octets_max: i64) -> None:
    """Append the body frames of a long message to `parts`, without copying the body.

    head  frame type and channel, the first three octets of each frame
    """
    for piece in pieces(body, int(octets_max)):
        out.write(head)
        put_long(out, len(piece))
        parts.append(out.getvalue())
        out.truncate(0)
        parts.append(piece)
        out.append(FRAME_END)
