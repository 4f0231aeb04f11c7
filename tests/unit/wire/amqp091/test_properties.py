"""The property list of AMQP 0.9.1."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.core.errors import PeerError
from forebay.core.message import Properties
from forebay.wire.amqp091 import properties as wire
from forebay.wire.amqp091.codec import put_table
from forebay.wire.amqp091.properties import HeaderSplice

HEADERS = b"\0\0\0\x07\x01nb\x07\x01mV"  # {"n": 7, "m": None}
FULL = (
    b"\xff\xfc\x04text\x04gzip" + HEADERS + b"\x02\x05\x03cor\x02to\x041500\x02id"
    b"\0\0\0\0\x65\0\0\0\x01t\x05guest\x03app\x02cl"
)


def table(*fields: tuple[str, object]) -> bytes:
    out = BytesWriter()
    put_table(out, list(fields))
    return out.getvalue()


def test_every_field_is_found() -> None:
    assert wire.check_properties(FULL, 4) == 0xFFFC
    found = wire.decode_properties(FULL, 4)
    assert (found.content_type, found.content_encoding, found.headers) == ("text", "gzip", [("n", 7), ("m", None)])
    assert (found.durable, found.priority, found.correlation_id, found.reply_to) == (True, 5, b"cor", "to")
    assert (found.expiration_ms, found.message_id, found.timestamp_s) == (1500, "id", 0x65000000)
    assert (found.type, found.user_id, found.app_id) == ("t", "guest", "app")
    assert wire.short_field(FULL, wire.EXPIRATION, 4) == b"1500"
    assert wire.short_field(FULL, wire.USER_ID, 4) == b"guest"
    assert wire.headers_of(FULL, 4) == [("n", 7), ("m", None)]


def test_properties_cut_short_or_too_long_are_malformed() -> None:
    for length in range(len(FULL)):
        with pytest.raises(PeerError):
            wire.check_properties(FULL[:length], 4)
    with pytest.raises(PeerError, match="1 octets after the properties"):
        wire.check_properties(FULL + b"\0", 4)


@pytest.mark.parametrize("flags", [b"\x00\x01", b"\x00\x02"])
def test_flags_that_mean_nothing_are_malformed(flags: bytes) -> None:
    with pytest.raises(PeerError, match="have bits that no property has"):
        wire.check_properties(flags, 4)


def test_no_properties() -> None:
    assert wire.check_properties(b"\0\0", 4) == 0
    assert wire.headers_of(b"\0\0", 4) == []
    found = wire.decode_properties(b"\0\0", 4)
    assert (found.durable, found.priority, found.headers, found.body_is_text) == (False, None, [], False)


def test_encoding_is_the_inverse() -> None:
    without_cluster_id = b"\xff\xf8" + FULL[2:-3]
    decoded = wire.decode_properties(without_cluster_id, 4)
    decoded.headers = [("n", "x")]
    again = wire.decode_properties(wire.encode_properties(decoded), 4)
    assert vars_of(again) == vars_of(decoded)


def vars_of(properties: Properties) -> dict[str, object]:
    names = [name for name in dir(properties) if not name.startswith("_") and name not in ("header", "named_values")]
    return {name: getattr(properties, name) for name in names}


def test_texts_too_long_for_a_field_become_headers() -> None:
    properties = Properties()
    properties.content_type = "c" * 256
    properties.correlation_id = b"r" * 256
    properties.message_id = "é" * 128
    properties.reply_to = "é" * 127
    found = wire.decode_properties(wire.encode_properties(properties), 4)
    assert (found.content_type, found.correlation_id, found.message_id) == (None, None, None)
    assert found.reply_to == "é" * 127
    assert dict(found.headers) == {
        "x-content-type": "c" * 256,
        "x-correlation-id": b"r" * 256,
        "x-message-id": "é" * 128,
    }


def test_of_headers_with_one_name_the_last_stands() -> None:
    properties = Properties()
    properties.headers = [("a", "1"), ("b", "2"), ("a", "3")]
    assert wire.decode_properties(wire.encode_properties(properties), 4).headers == [("a", "3"), ("b", "2")]


def test_payload_format_is_a_header_only_if_it_says_something() -> None:
    properties = Properties()
    assert wire.headers_of(wire.encode_properties(properties), 4) == []
    properties.body_is_text = True
    encoded = wire.encode_properties(properties)
    assert wire.headers_of(encoded, 4) == [("mqtt-payload-format", 1)]
    found = wire.decode_properties(encoded, 4)
    assert (found.body_is_text, found.headers) == (True, [])


@pytest.mark.parametrize("value", [b"", b"-1", b"1.5", b"1 ", b"x", b"1" * 19])
def test_an_expiration_that_is_no_number_is_none(value: bytes) -> None:
    octets = b"\x01\x00" + bytes([len(value)]) + value
    assert wire.check_properties(octets, 4) == wire.EXPIRATION
    assert wire.decode_properties(octets, 4).expiration_ms is None


@pytest.mark.parametrize("timestamp", [0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_timestamps_have_no_sign(timestamp: int) -> None:
    properties = Properties()
    properties.timestamp_s = timestamp
    assert wire.decode_properties(wire.encode_properties(properties), 1).timestamp_s == timestamp


@pytest.mark.parametrize(
    "octets",
    [
        b"\0\0",
        b"\x90\x00\x04text\x02",
        b"\x20\x00" + table(),
        FULL,
        b"\xb0\x00\x04text" + table(("a", "b"), ("t", {"u": [1]})) + b"\x02",
    ],
)
def test_two_headers_are_added_and_nothing_else_changes(octets: bytes) -> None:
    splice = HeaderSplice(b"x-stream-offset", b"x-stream-timestamp")
    for offset in (0, 1, 1 << 62):
        made = splice.apply(octets, offset, 7, 4)
        splice.prepare(octets, 4)
        assert len(made) == splice.octets()
        wire.check_properties(made, 4)
        added = [("x-stream-offset", offset), ("x-stream-timestamp", 7)]
        assert wire.headers_of(made, 4) == [*added, *wire.headers_of(octets, 4)]
        before, after = wire.decode_properties(octets, 4), wire.decode_properties(made, 4)
        before.headers = after.headers = []
        assert vars_of(before) == vars_of(after)
    assert splice.apply(b"\x08\x00\x01", 2, 7, 4) != made  # other properties than the last


def test_an_added_header_takes_the_place_of_those_with_its_name() -> None:
    octets = b"\x20\0" + table(("n", 1), ("m", 2), ("n", "three"))
    for splice, rest in ((HeaderSplice(b"n", b"x"), [("m", 2)]), (HeaderSplice(b"n", b"m"), [])):
        for number in (7, 8):
            made = splice.apply(octets, number, 9, 4)
            wire.check_properties(made, 4)
            assert wire.headers_of(made, 4) == [("n", number), (splice.names[1].decode(), 9), *rest]
            assert len(made) == splice.octets()


def test_headers_can_be_left_out() -> None:
    found = wire.decode_properties(wire.without_headers(FULL, 4), 4)
    assert (found.headers, found.content_encoding, found.priority, found.app_id) == ([], "gzip", 5, "app")
    assert wire.without_headers(b"\x08\x00\x01", 4) == b"\x08\x00\x01"


def test_a_topic_longer_than_a_key_is_cut_between_characters() -> None:
    assert wire.cut_key(b"a" * 255) == b"a" * 255
    assert wire.cut_key(("é" * 200).encode()) == ("é" * 127).encode()


def test_headers_are_taken_out_and_put_in() -> None:
    entry = b"\x01xI\0\0\0\x09"
    edited = wire.edit_headers(FULL, [b"n", b"none"], entry, 4)
    assert wire.check_properties(edited, 4) == 0xFFFC
    assert wire.headers_of(edited, 4) == [("m", None), ("x", 9)]
    assert edited == FULL.replace(HEADERS, b"\0\0\0\x0a\x01mV" + entry)
    assert wire.edit_headers(FULL, [], b"", 4) == FULL
    assert wire.edit_headers(FULL, [b"m", b"n"], b"", 4) == FULL.replace(HEADERS, bytes(4))


def test_headers_are_put_in_where_there_were_none() -> None:
    entry = b"\x01xI\0\0\0\x09"
    edited = wire.edit_headers(b"\x80\x80\x04text\x02id", [b"x"], entry, 4)
    assert edited == b"\xa0\x80\x04text\0\0\0\x07" + entry + b"\x02id"
    assert wire.check_properties(edited, 4) == 0xA080


def test_all_headers_of_a_name_are_taken_out() -> None:
    twice = b"\x20\0" + table(("a", 1)).replace(b"\0\0\0\x07", b"\0\0\0\x0e") + b"\x01aI\0\0\0\x02"
    assert wire.check_properties(twice, 4) == wire.HEADERS
    assert wire.edit_headers(twice, [b"a"], b"", 4) == b"\x20\0" + bytes(4)


@pytest.mark.parametrize("value", [b"", b"other", b"x" * 255])
def test_a_short_string_is_replaced(value: bytes) -> None:
    for field in (wire.REPLY_TO, wire.CONTENT_TYPE, wire.APP_ID):
        edited = wire.with_short_field(FULL, field, value, 4)
        assert wire.check_properties(edited, 4) == 0xFFFC
        assert wire.short_field(edited, field, 4) == value
        assert wire.with_short_field(edited, field, wire.short_field(FULL, field, 4), 4) == FULL
