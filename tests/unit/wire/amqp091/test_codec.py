"""Frames, primitive values and field tables of AMQP 0.9.1."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp091 import codec
from forebay.wire.amqp091.codec import Reader, frame_end, frame_wanted, skip_table

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

# One field of every type that RabbitMQ knows: its octets, and what it is here.
FIELDS: list[tuple[bytes, object]] = [
    (b"t\x01", True),
    (b"t\x00", False),
    (b"b\xff", -1),
    (b"b\x7f", 127),
    (b"B\xff", 255),
    (b"s\xff\xfe", -2),
    (b"s\x7f\xff", 32767),
    (b"u\xff\xfe", 65534),
    (b"I\xff\xff\xff\xff", -1),
    (b"i\xff\xff\xff\xff", 0xFFFFFFFF),
    (b"l\x80\x00\x00\x00\x00\x00\x00\x00", -(1 << 63)),
    (b"L\xff\xff\xff\xff\xff\xff\xff\xff", (1 << 64) - 1),
    (b"T\x00\x00\x00\x00\x65\x00\x00\x00", 0x65000000),
    (b"f\x3f\xc0\x00\x00", 1.5),
    (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
    (b"D\x02\xff\xff\xff\x9c", -1.0),
    (b"S\x00\x00\x00\x03\xc3\xa9x", "éx"),
    (b"S\x00\x00\x00\x01\xff", b"\xff"),
    (b"x\x00\x00\x00\x02ab", b"ab"),
    (b"V", None),
    (b"A\x00\x00\x00\x05V" + b"b\x05t\x01", [None, 5, True]),
]


def table(*fields: tuple[bytes, bytes]) -> bytes:
    inner = b"".join(bytes([len(name)]) + name + value for name, value in fields)
    return len(inner).to_bytes(4, "big") + inner


def read_table(octets: bytes, depth_max: int = 8) -> dict[str, object]:
    return Reader(octets, 0, len(octets), depth_max).table()


def nested(levels: int) -> bytes:
    value = table()
    for _ in range(levels - 1):
        value = table((b"a", b"F" + value))
    return value


@pytest.mark.parametrize(("octets", "value"), FIELDS)
def test_every_field_type_is_read(octets: bytes, value: object) -> None:
    whole = table((b"name", octets))
    assert read_table(whole) == {"name": value}
    assert skip_table(whole, 0, len(whole), 8) == len(whole)


@pytest.mark.parametrize("octets", [octets for octets, _ in FIELDS])
def test_a_field_cut_short_is_malformed(octets: bytes) -> None:
    for length in range(len(octets)):
        whole = table((b"n", octets[:length]))
        with pytest.raises(PeerError) as read:
            read_table(whole)
        with pytest.raises(PeerError) as skipped:
            skip_table(whole, 0, len(whole), 8)
        assert read.value.reason == skipped.value.reason == MALFORMED


def test_an_unknown_field_type_is_named() -> None:
    whole = table((b"n", b"?\x00"))
    with pytest.raises(PeerError, match="field type 63 at octet 6 is unknown"):
        read_table(whole)
    with pytest.raises(PeerError, match="field type 63 at octet 6 is unknown"):
        skip_table(whole, 0, len(whole), 8)


def test_a_table_may_nest_to_the_limit_and_no_deeper() -> None:
    assert skip_table(nested(8), 0, len(nested(8)), 8) == len(nested(8))
    read_table(nested(8))
    with pytest.raises(PeerError, match="nests too deep"):
        read_table(nested(9))
    with pytest.raises(PeerError, match="nests too deep"):
        skip_table(nested(9), 0, len(nested(9)), 8)
    array = b"V"
    for _ in range(9):
        array = b"A" + len(array).to_bytes(4, "big") + array
    with pytest.raises(PeerError, match="nests too deep"):
        read_table(table((b"n", array)))
    with pytest.raises(PeerError, match="nests too deep"):
        skip_table(table((b"n", array)), 0, 100, 8)


def test_depth_counts_levels_not_tables() -> None:
    many = table(*[(b"a", b"F" + table()), (b"b", b"A\x00\x00\x00\x00")] * 20)
    assert read_table(many, 2) == {"a": {}, "b": []}


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x05"])
def test_lengths_beyond_the_end_are_malformed(length: bytes) -> None:
    for octets in (length, length + b"\x01aV", table((b"n", b"S" + length)), table((b"n", b"A" + length))):
        with pytest.raises(PeerError):
            read_table(octets)
        with pytest.raises(PeerError):
            skip_table(octets, 0, len(octets), 8)


def test_of_two_fields_with_one_name_the_later_stands() -> None:
    whole = table((b"n", b"b\x01"), (b"n", b"b\x02"))
    assert read_table(whole) == {"n": 2}
    assert Reader(whole, 0, len(whole), 1).fields() == [("n", 1), ("n", 2)]


def test_a_reader_takes_what_is_there_and_no_more() -> None:
    args = Reader(b"x\x05\x01\x02\x80\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\x02hi\x00\x00\x00\x01!y", 1, 25, 1)
    assert (args.octet(), args.short(), args.long()) == (5, 0x0102, 0x80000001)
    assert args.longlong() == -1
    assert (args.short_string(), args.long_string()) == (b"hi", b"!")
    assert args.pos == 24
    assert args.octet() == ord("y")
    with pytest.raises(PeerError, match="octet at octet 25 runs over the end"):
        args.octet()


def test_what_is_written_is_read_back() -> None:
    values: dict[str, object] = {
        "text": "é",
        "yes": True,
        "no": False,
        "small": -5,
        "long": 1 << 40,
        "float": 2.5,
        "none": None,
        "octets": b"\x00\xff",
        "list": [1, "a", [None]],
        "table": {"deep": {"deeper": b""}},
    }
    out = BytesWriter()
    codec.put_table(out, list(values.items()))
    assert read_table(out.getvalue()) == values


def test_what_no_field_type_holds_is_said_otherwise() -> None:
    out = BytesWriter()
    codec.put_table(out, [("huge", 1 << 70), ("é" * 200, "\ud800")])
    assert read_table(out.getvalue()) == {"huge": str(1 << 70), "é" * 127: "?"}


def test_a_frame_ends_where_it_says() -> None:
    assert frame_end(b"junk" + HEARTBEAT, 4, 4096) == 12
    body = b"\x03\x00\x01\x00\x00\x00\x02hi\xce"
    assert frame_end(body, 0, 4096) == len(body)
    for length in range(len(body)):
        assert frame_end(body[:length], 0, 4096) == 0
    assert [frame_wanted(body[:length]) for length in (0, 6, 7, 9)] == [0, 0, 10, 10]
    assert frame_wanted(b"\x03\x00\x01\xff\xff\xff\xff") == 0


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\x04\x00\x01\x00\x00\x00\x00\xce", "type 4 is no type of a frame"),
        (b"\x03\x00\x01\x00\x00\x0f\xf9", "frame of 4089 octets is longer than frame_max 4096 allows"),
        (b"\x03\x00\x01\xff\xff\xff\xff", "frame of 4294967295 octets is longer than frame_max 4096 allows"),
        (b"\x03\x00\x01\x00\x00\x00\x01ab", "frame ends with octet 98, not with 206"),
    ],
)
def test_what_is_no_frame_is_told_as_soon_as_it_is_seen(octets: bytes, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        frame_end(octets, 0, 4096)
    assert caught.value.reason == codec.FRAME


@pytest.mark.parametrize(("length", "frames"), [(0, 0), (1, 1), (4088, 1), (4089, 2), (10_000, 3)])
def test_a_body_is_cut_into_frames_that_the_peer_can_take(length: int, frames: int) -> None:
    out = BytesWriter()
    body = bytes(index & 255 for index in range(length))
    codec.put_content(out, 7, b"\x00\x00", body, 4096)
    octets = out.getvalue()
    end = frame_end(octets, 0, 4096)
    assert octets[:end] == b"\x02\x00\x07\x00\x00\x00\x0e\x00\x3c\x00\x00" + length.to_bytes(8, "big") + b"\x00\x00\xce"
    parts = []
    while end < len(octets):
        start, end = end, frame_end(octets, end, 4096)
        assert octets[start : start + 3] == b"\x03\x00\x07"
        parts.append(octets[start + 7 : end - 1])
    assert len(parts) == frames
    assert b"".join(parts) == body


def test_text_is_cut_between_characters() -> None:
    assert codec.cut_text("aéé", 4) == b"a\xc3\xa9"
    assert codec.cut_text("aé", 3) == b"a\xc3\xa9"
