"""MQTT property blocks: the specification's table, limits of values, and the neutral form."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.core.errors import MALFORMED, UNEXPECTED, PeerError
from forebay.core.message import Properties
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props

# MQTT 5.0, table 2-4: identifier, kind, packets.
TABLE = """
01 byte PUBLISH WILL
02 four PUBLISH WILL
03 text PUBLISH WILL
08 text PUBLISH WILL
09 binary PUBLISH WILL
0B variable PUBLISH SUBSCRIBE
11 four CONNECT CONNACK DISCONNECT
12 text CONNACK
13 two CONNACK
15 text CONNECT CONNACK AUTH
16 binary CONNECT CONNACK AUTH
17 byte CONNECT
18 four WILL
19 byte CONNECT
1A text CONNACK
1C text CONNACK DISCONNECT
1F text CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH
21 two CONNECT CONNACK
22 two CONNECT CONNACK
23 two PUBLISH
24 byte CONNACK
25 byte CONNACK
26 pair CONNECT CONNACK PUBLISH WILL PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK DISCONNECT AUTH
27 four CONNECT CONNACK
28 byte CONNACK
29 byte CONNACK
2A byte CONNACK
"""
EXAMPLES = {
    "byte": b"\x01",
    "two": b"\x00\x01",
    "four": b"\x00\x00\x00\x01",
    "variable": b"\x01",
    "text": b"\x00\x01a",
    "binary": b"\x00\x02\xff\x00",
    "pair": b"\x00\x01a\x00\x01b",
}
PACKETS = [
    "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK", "UNSUBSCRIBE",
    "UNSUBACK", "DISCONNECT", "AUTH", "WILL",
]  # fmt: skip
ROWS = [line.split() for line in TABLE.split("\n") if line]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_which_packet_may_carry_what(row: list[str]) -> None:
    id, kind, *carriers = row
    octets = bytes.fromhex(id) + EXAMPLES[kind]
    for name in PACKETS:
        packet = getattr(codes, name)
        if name in carriers:
            assert props.check_properties(octets, 0, len(octets), packet) == 1 << int(id, 16)
        else:
            with pytest.raises(PeerError) as caught:
                props.check_properties(octets, 0, len(octets), packet)
            assert caught.value.reason == UNEXPECTED
        if name in carriers and kind == "pair":
            props.check_properties(octets * 2, 0, 2 * len(octets), packet)
        elif name in carriers and not (id == "0B" and name == "PUBLISH"):
            with pytest.raises(PeerError, match="twice"):
                props.check_properties(octets * 2, 0, 2 * len(octets), packet)


def test_no_other_identifiers() -> None:
    known = {int(row[0], 16) for row in ROWS}
    for id in set(range(256)) - known:
        with pytest.raises(PeerError) as caught:
            props.check_properties(bytes([id, 0, 0, 0, 0]), 0, 5, codes.PUBLISH)
        assert caught.value.reason == MALFORMED


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_cut_is_malformed(row: list[str]) -> None:
    octets = bytes.fromhex(row[0]) + EXAMPLES[row[1]]
    for cut in range(1, len(octets)):
        with pytest.raises(PeerError) as caught:
            props.check_properties(octets, 0, cut, getattr(codes, row[2]))
        assert caught.value.reason == MALFORMED


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455])
def test_variable_byte_integers(value: int) -> None:
    out = BytesWriter()
    props.write_varint(out, value)
    octets = out.getvalue()
    assert len(octets) == props.varint_octets(value)
    assert props.read_varint(octets, 0, len(octets)) == value << 3 | len(octets)
    for cut in range(len(octets)):
        with pytest.raises(PeerError):
            props.read_varint(octets, 0, cut)


@pytest.mark.parametrize("octets", [b"\x80\x00", b"\xff\x80\x00", b"\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff"])
def test_variable_byte_integers_that_are_none(octets: bytes) -> None:
    with pytest.raises(PeerError):
        props.read_varint(octets, 0, len(octets))


def test_the_last_user_property_of_a_name_counts() -> None:
    out = BytesWriter()
    for value in (b"1", b"2"):
        props.append_user_property(out, b"a", value)
    props.append_user_property(out, b"b", b"3")
    block = out.getvalue()
    assert [props.user_property(block, name) for name in (b"a", b"b", b"c")] == [b"2", b"3", None]


def test_numbers_have_no_sign() -> None:
    block = b"\x27\xff\xff\xff\xff\x21\xff\xff"
    assert props.number_of(block, props.MAXIMUM_PACKET_SIZE, 0) == 0xFFFFFFFF
    assert props.number_of(block, props.RECEIVE_MAXIMUM, 0) == 0xFFFF
    assert props.encode_properties(props.decode_properties(block)) == block


def test_what_mqtt_has_no_property_for() -> None:
    neutral = Properties()
    neutral.message_id, neutral.type, neutral.app_id, neutral.user_id = "m", "t", "a", "u"
    neutral.priority, neutral.timestamp_s, neutral.content_encoding = 7, 1_700_000_000, "gzip"
    neutral.reply_to = "replies.#"
    neutral.headers = [
        ("n", 1),
        ("f", 1.5),
        ("t", True),
        ("none", None),
        ("b", b"\xff"),
        ("l", ["x", b"y"]),
        ("s", "\0"),
    ]
    found = {each.text: each.value for each in props.decode_properties(props.encode_neutral(neutral))}
    assert found == {
        b"amqp-reply-to": b"replies.#",
        b"amqp-message-id": b"m",
        b"amqp-content-encoding": b"gzip",
        b"amqp-type": b"t",
        b"amqp-user-id": b"u",
        b"amqp-app-id": b"a",
        b"amqp-priority": b"7",
        b"amqp-timestamp": b"1700000000",
        b"n": b"1",
        b"f": b"1.5",
        b"t": b"true",
        b"none": b"",
        b"b": b"ff",
        b"l": b'["x", "y"]',
        b"s": "\N{REPLACEMENT CHARACTER}".encode(),
    }


def test_what_cannot_be_said_is_left_out() -> None:
    neutral = Properties()
    neutral.content_type = "x" * 65_536
    neutral.correlation_id = bytes(65_536)
    neutral.headers = [("k" * 65_536, "v"), ("k", "v" * 65_536), ("k", "v")]
    assert props.encode_neutral(neutral) == b"\x26\x00\x01k\x00\x01v"


@pytest.mark.parametrize("text", ["-1", "256", "", "x", "\N{FULLWIDTH DIGIT ONE}"])
def test_a_priority_that_is_none_stays_a_header(text: str) -> None:
    neutral = props.decode_neutral(props.encode_properties([props.Property(0x26, 0, b"amqp-priority", text.encode())]))
    assert (neutral.priority, neutral.headers) == (None, [("amqp-priority", text)])


def test_an_expiry_is_never_shorter_than_said() -> None:
    for milliseconds, seconds in ((0, 0), (1, 1), (1000, 1), (1001, 2), (10**17, 0xFFFFFFFF), (-5, 0)):
        neutral = Properties()
        neutral.expiration_ms = milliseconds
        assert props.encode_neutral(neutral) == b"\x02" + seconds.to_bytes(4, "big")


def test_identifiers_above_31_are_bits_of_their_own() -> None:
    # A shift of 32 bits in the compiled build once took 0x26 for 0x06, and 0x2A for 0x0A.
    user = b"\x26\0\x01n\0\x01v"
    block = b"\x01\x01" + user + b"\x0b\x05" + user + b"\x23\0\x07"
    ids = (0x01, 0x0B, 0x23, 0x26)
    assert props.check_properties(block, 0, len(block), 3) == sum(1 << id for id in ids)
    assert props.without(block, 1 << 0x23) == b"\x01\x01" + user + b"\x0b\x05" + user
    assert props.without(block, 1 << 0x26) == b"\x01\x01\x0b\x05\x23\0\x07"
    assert props.without(block, 1 << 0x0B | 1 << 0x23) == b"\x01\x01" + user + user
    assert props.without(block, 1 << 0x03 | 1 << 0x06) == block  # the bits of 0x23 and 0x26, were they lost
