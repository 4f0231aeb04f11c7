"""The sections of messages of AMQP 1.0: found and read without a decode, checked, written; and Proton's messages."""

from __future__ import annotations

from typing import Any

import proton
import pytest
from librt.strings import BytesWriter

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.checker import check_value
from forebay.wire.amqp10.decoder import decode_value
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.sections import (
    ABSOLUTE_EXPIRY_TIME,
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    CONTENT_TYPE,
    CORRELATION_ID,
    CREATION_TIME,
    DATA,
    DELIVERY_ANNOTATIONS,
    DELIVERY_COUNT,
    DURABLE,
    FIRST_ACQUIRER,
    FOOTER,
    GROUP_ID,
    GROUP_SEQUENCE,
    HEADER,
    MESSAGE_ANNOTATIONS,
    MESSAGE_ID,
    PRIORITY,
    PROPERTIES,
    REPLY_TO_GROUP_ID,
    SECTIONS_MAX,
    SUBJECT,
    TTL,
    USER_ID,
    Sections,
    body_payload,
    check_sections,
    edited_map,
    flag_at,
    list_field,
    map_value,
    number_at,
    octets_at,
    put_data,
    put_header,
    put_section,
    split_sections,
    value_at,
)
from forebay.wire.amqp10.values import (
    INT,
    Array,
    Described,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Uuid,
)
from tests.unit.wire.amqp10.test_values import NO_VALUES, VALUES

FIELDS: list[object] = [
    "id",
    b"user",
    "to",
    "subject",
    "reply",
    Ulong(7),
    Symbol("text/plain"),
    Symbol("gzip"),
    Timestamp(5),
    Timestamp(-6),
    "group",
    Uint(9),
    "reply group",
]


def section(code: int, value: object) -> bytes:
    return encode_value(Described(Ulong(code), value))


HEAD = section(HEADER, [True, Ubyte(9), Uint(60_000), True, Uint(3)])
FOR_NEXT = section(DELIVERY_ANNOTATIONS, Map([(Symbol("x-opt-hop"), 1)]))
ANNOTATIONS = section(MESSAGE_ANNOTATIONS, Map([(Symbol("x-opt-a"), [1, 2]), (Symbol("x-b"), "b"), (Ulong(4), None)]))
FIELD_LIST = section(PROPERTIES, FIELDS)
NAMED = section(APPLICATION_PROPERTIES, Map([("a", 1), ("b", "two"), ("c", None), ("d" * 300, True)]))
BODY = section(DATA, b"one") + section(DATA, b"") + section(DATA, b"two" * 100)
FOOT = section(FOOTER, Map([(Symbol("x-sum"), b"1")]))
MESSAGE = HEAD + FOR_NEXT + ANNOTATIONS + FIELD_LIST + NAMED + BODY + FOOT


def test_every_section_is_found() -> None:
    octets = b"zz" + MESSAGE
    found = split_sections(octets, 2, len(octets))
    assert value_at(octets, found.header, found.end) == [True, Ubyte(9), Uint(60_000), True, Uint(3)]
    assert value_at(octets, found.delivery_annotations, found.end) == Map([(Symbol("x-opt-hop"), 1)])
    assert isinstance(value_at(octets, found.message_annotations, found.end), Map)
    assert value_at(octets, found.properties, found.end) == FIELDS
    assert isinstance(value_at(octets, found.application_properties, found.end), Map)
    assert octets[found.bare_at : found.footer_at] == FIELD_LIST + NAMED + BODY
    assert octets[found.body_at : found.footer_at] == BODY
    assert octets[found.footer_at : found.end] == FOOT
    assert value_at(octets, found.footer, found.end) == Map([(Symbol("x-sum"), b"1")])
    assert (found.body_kind, found.body_count) == (DATA, 3)
    assert body_payload(octets, found) == b"one" + b"two" * 100


def test_sections_that_are_absent_are_nowhere() -> None:
    octets = section(AMQP_VALUE, None)
    found = split_sections(octets, 0, len(octets))
    positions = [found.header, found.delivery_annotations, found.message_annotations, found.properties]
    assert positions == [-1] * 4
    assert (found.application_properties, found.footer) == (-1, -1)
    assert (found.bare_at, found.body_at, found.footer_at, found.body_kind) == (0, 0, len(octets), AMQP_VALUE)
    for place in (HEAD, HEAD + ANNOTATIONS, FIELD_LIST, b""):
        found = split_sections(place, 0, len(place))
        assert (found.body_kind, found.body_at, found.footer_at) == (0, len(place), len(place))
    place = FIELD_LIST + FOOT
    found = split_sections(place, 0, len(place))
    assert (found.body_kind, found.body_at, found.footer_at) == (0, len(FIELD_LIST), len(FIELD_LIST))
    assert value_at(place, -1, 5) is None
    assert list_field(place, -1, 5, 0) == map_value(place, -1, 5, b"k") == number_at(place, -1) == -1
    assert octets_at(place, -1, 5) == b""
    assert not flag_at(place, -1)


@pytest.mark.parametrize("descriptor", ["number", "wide number", "name", "long name"])
def test_a_descriptor_may_have_any_encoding(descriptor: str) -> None:
    names = {HEADER: "amqp:header:list", PROPERTIES: "amqp:properties:list", DATA: "amqp:data:binary"}
    octets = b""
    for code, value in ((HEADER, [True]), (PROPERTIES, FIELDS), (DATA, b"x"), (DATA, b"y")):
        octets += {
            "number": b"\x00\x53" + bytes([code]),
            "wide number": b"\x00\x80" + code.to_bytes(8, "big"),
            "name": b"\x00" + encode_value(Symbol(names[code])),
            "long name": b"\x00\xb3" + len(names[code]).to_bytes(4, "big") + names[code].encode(),
        }[descriptor] + encode_value(value)
    found = check_sections(octets, 0, len(octets), 8)
    assert flag_at(octets, list_field(octets, found.header, found.end, DURABLE))
    assert value_at(octets, found.properties, found.end) == FIELDS
    assert body_payload(octets, found) == b"xy"


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (FIELD_LIST + HEAD, "section 0x70 after section 0x73"),
        (HEAD + HEAD, "section 0x70 after section 0x70"),
        (NAMED + NAMED, "section 0x74 after section 0x74"),
        (BODY + HEAD, "section 0x70 after section 0x75"),
        (FOOT + FOOT, "section 0x78 after section 0x78"),
        (FOOT + BODY, "section 0x75 after section 0x78"),
        (BODY + section(AMQP_VALUE, 1), "a body of sections 0x75 and 0x77"),
        (section(AMQP_SEQUENCE, [1]) + section(AMQP_VALUE, 1), "a body of sections 0x76 and 0x77"),
        (section(DATA, b"") + section(AMQP_SEQUENCE, []), "a body of sections 0x75 and 0x76"),
        (section(AMQP_VALUE, 1) + section(AMQP_VALUE, 1), "section 0x77 after section 0x77"),
        (section(0x79, []), "section 0x79|0x79 describes no section"),
        (section(0x6F, []), "0x6f describes no section"),
        (section(0x24, []), "0x24 describes no section"),
        (section(1 << 60, []), "a section of a message is expected"),
        (encode_value(Described(Symbol("amqp:heder:list"), [])), "a section of a message is expected"),
        (encode_value(Described(Described(Ulong(1), Ulong(0x70)), [])), "a section of a message is expected"),
        (b"plain text", "a section of a message is expected"),
        (b"\x00", "runs over the end"),
        (b"\x00\x53", "runs over the end"),
        (b"\x00\x53\x75", "runs over the end"),
        (b"\x00\x53\x75\xa0\x05abcd", "runs over the end"),
        (section(HEADER, Map([])), "section 0x70 is no list"),
        (section(PROPERTIES, b""), "section 0x73 is no list"),
        (section(APPLICATION_PROPERTIES, []), "section 0x74 is no map"),
        (section(DATA, "text"), "section 0x75 is no binary"),
        (section(AMQP_SEQUENCE, b""), "section 0x76 is no list"),
        (section(FOOTER, []), "section 0x78 is no map"),
        (section(DATA, b"") * (SECTIONS_MAX + 1), "more than 10000 sections"),
    ],
)
def test_what_is_no_message_is_refused(octets: bytes, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        split_sections(octets, 0, len(octets))
    assert caught.value.reason == MALFORMED


def test_a_message_cut_short_is_refused_or_shorter() -> None:
    starts = set()
    place = 0
    for each in (HEAD, FOR_NEXT, ANNOTATIONS, FIELD_LIST, NAMED, section(DATA, b"one"), section(DATA, b"")):
        starts.add(place)
        place += len(each)
    starts |= {place, place + len(section(DATA, b"two" * 100)), len(MESSAGE)}
    for length in range(len(MESSAGE)):
        try:
            check_sections(MESSAGE, 0, length, 8)
        except PeerError:
            assert length not in starts
        else:
            assert length in starts


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (section(HEADER, [1]), "header: durable may not be of type 0x55"),
        (section(HEADER, [None, Uint(1)]), "header: priority may not be of type 0x52"),
        (section(HEADER, [None, None, Ulong(1)]), "header: ttl may not be of type 0x53"),
        (section(HEADER, [None] * 6), "header: 6 fields, at most 5"),
        (section(PROPERTIES, [Symbol("id")]), "properties: message-id may not be of type 0xa3"),
        (section(PROPERTIES, [None, "user"]), "properties: user-id may not be of type 0xa1"),
        (section(PROPERTIES, [None, None, Symbol("to")]), "properties: to may not be"),
        (section(PROPERTIES, [None] * 6 + ["text"]), "properties: content-type may not be"),
        (section(PROPERTIES, [None] * 9 + [5]), "properties: creation-time may not be"),
        (section(PROPERTIES, [None] * 14), "properties: 14 fields, at most 13"),
        (section(MESSAGE_ANNOTATIONS, Map([("s", 1)])), "message-annotations: a key is of type 0xa1, no symbol"),
        (section(DELIVERY_ANNOTATIONS, Map([(None, 1)])), "delivery-annotations: a key is of type 0x40"),
        (section(APPLICATION_PROPERTIES, Map([(Symbol("s"), 1)])), "application-properties: a key is of type 0xa3"),
        (b"\x00\x53\x74\xc1\x05\x02\xa1\x01\xff\x40", "not UTF-8"),
        (b"\x00\x53\x74\xc1\x06\x02\xa1\x01k\x56\x02", "a boolean is 0 or 1"),
        (b"\x00\x53\x73\xc0\x04\x01\xa1\x01\xff", "not UTF-8"),
        (b"\x00\x53\x73\xc0\x01\x05", "items do not fit"),
    ],
)
def test_sections_of_another_form_are_refused(octets: bytes, text: str) -> None:
    split_sections(octets, 0, len(octets))
    with pytest.raises(PeerError, match=text) as caught:
        check_sections(octets, 0, len(octets), 8)
    assert caught.value.reason == MALFORMED


def test_maps_nest_to_the_limit() -> None:
    value: object = 1
    for _ in range(7):
        value = [value]
    octets = section(MESSAGE_ANNOTATIONS, Map([(Symbol("x"), value)]))
    check_sections(octets, 0, len(octets), 8)
    with pytest.raises(PeerError, match="nests too deep"):
        check_sections(octets, 0, len(octets), 7)


@pytest.mark.parametrize(("digits", "value"), VALUES)
def test_every_value_passes_the_check(digits: str, value: object) -> None:
    octets = bytes.fromhex(digits)
    assert check_value(octets, 0, len(octets), 8) == len(octets)
    written = encode_value([value, {}, value] if isinstance(value, dict) else [value, 1, value])
    assert check_value(written, 0, len(written), 9) == len(written)
    for length in range(len(octets)):
        with pytest.raises(PeerError):
            check_value(octets, 0, length, 8)


@pytest.mark.parametrize(("digits", "text"), [each for each in NO_VALUES if "twice" not in each[1]])
def test_what_the_decoder_refuses_the_check_refuses(digits: str, text: str) -> None:
    octets = bytes.fromhex(digits)
    if "octets after it" in text or "without octets" in text:
        assert check_value(octets, 0, len(octets), 8) <= len(octets)
        return
    with pytest.raises(PeerError):
        check_value(octets, 0, len(octets), 8)


def test_fields_are_read_where_they_stand() -> None:
    octets = MESSAGE
    found = split_sections(octets, 0, len(octets))
    end = found.end
    assert flag_at(octets, list_field(octets, found.header, end, DURABLE))
    assert number_at(octets, list_field(octets, found.header, end, PRIORITY)) == 9
    assert number_at(octets, list_field(octets, found.header, end, TTL)) == 60_000
    assert flag_at(octets, list_field(octets, found.header, end, FIRST_ACQUIRER))
    assert number_at(octets, list_field(octets, found.header, end, DELIVERY_COUNT)) == 3
    for index, value in enumerate(FIELDS):
        assert value_at(octets, list_field(octets, found.properties, end, index), end) == value
    assert octets_at(octets, list_field(octets, found.properties, end, SUBJECT), end) == b"subject"
    assert octets_at(octets, list_field(octets, found.properties, end, USER_ID), end) == b"user"
    assert octets_at(octets, list_field(octets, found.properties, end, CONTENT_TYPE), end) == b"text/plain"
    assert octets_at(octets, list_field(octets, found.properties, end, CORRELATION_ID), end) == b""
    assert number_at(octets, list_field(octets, found.properties, end, CREATION_TIME)) == -6
    assert number_at(octets, list_field(octets, found.properties, end, ABSOLUTE_EXPIRY_TIME)) == 5
    assert number_at(octets, list_field(octets, found.properties, end, GROUP_SEQUENCE)) == 9
    assert octets_at(octets, list_field(octets, found.properties, end, REPLY_TO_GROUP_ID), end) == b"reply group"
    assert list_field(octets, found.properties, end, 13) == -1


def test_fields_that_are_null_or_missing_are_absent() -> None:
    octets = section(PROPERTIES, [None, None, "to"])
    found = split_sections(octets, 0, len(octets))
    assert list_field(octets, found.properties, found.end, MESSAGE_ID) == -1
    assert list_field(octets, found.properties, found.end, GROUP_ID) == -1
    assert octets_at(octets, list_field(octets, found.properties, found.end, 2), found.end) == b"to"
    for empty in (b"\x00\x53\x73\x45", b"\x00\x53\x73\xc0\x01\x00", b"\x00\x53\x73\xd0\0\0\0\x04\0\0\0\0"):
        found = check_sections(empty, 0, len(empty), 8)
        assert list_field(empty, found.properties, found.end, 0) == -1


def test_values_of_maps_are_found_by_name() -> None:
    octets = MESSAGE
    found = split_sections(octets, 0, len(octets))
    at = map_value(octets, found.application_properties, found.end, b"b")
    assert value_at(octets, at, found.end) == "two"
    assert value_at(octets, map_value(octets, found.application_properties, found.end, b"d" * 300), found.end) is True
    assert map_value(octets, found.application_properties, found.end, b"two") == -1
    assert map_value(octets, found.application_properties, found.end, b"") == -1
    at = map_value(octets, found.message_annotations, found.end, b"x-opt-a")
    assert value_at(octets, at, found.end) == [1, 2]


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (section(DATA, b"octets"), b"octets"),
        (section(DATA, b"x" * 300), b"x" * 300),
        (section(DATA, b""), b""),
        (section(DATA, b"a") * 3, b"aaa"),
        (section(AMQP_VALUE, "text é"), "text é".encode()),
        (section(AMQP_VALUE, b"octets"), b"octets"),
        (section(AMQP_VALUE, 5), section(AMQP_VALUE, 5)),
        (section(AMQP_VALUE, Map([("k", 1)])), section(AMQP_VALUE, Map([("k", 1)]))),
        (section(AMQP_SEQUENCE, [1]) * 2, section(AMQP_SEQUENCE, [1]) * 2),
        (b"", b""),
    ],
)
def test_the_body_for_other_protocols(body: bytes, payload: bytes) -> None:
    for octets in (body, HEAD + FIELD_LIST + body + FOOT):
        assert body_payload(octets, split_sections(octets, 0, len(octets))) == payload


def test_headers_are_written_as_short_as_they_can_be() -> None:
    cases: list[tuple[tuple[bool, int, int, bool, int], list[object] | None]] = [
        ((False, -1, -1, False, 0), None),
        ((True, -1, -1, False, 0), [True]),
        ((False, 0, -1, False, 0), [False, Ubyte(0)]),
        ((False, -1, 0, False, 0), [False, None, Uint(0)]),
        ((True, 255, 0xFFFFFFFF, True, 0), [True, Ubyte(255), Uint(0xFFFFFFFF), True]),
        ((False, -1, -1, False, 7), [False, None, None, False, Uint(7)]),
        ((True, 4, 300, True, 300), [True, Ubyte(4), Uint(300), True, Uint(300)]),
    ]
    for arguments, fields in cases:
        out = BytesWriter()
        put_header(out, *arguments)
        octets = out.getvalue()
        if fields is None:
            assert octets == b""
        else:
            assert octets == section(HEADER, fields)
            check_sections(octets, 0, len(octets), 2)


def test_maps_are_edited_and_keep_what_is_not_named() -> None:
    kept = b"\x80\0\0\0\0\0\0\0\x05" + b"\x56\x01"  # encodings that nobody here writes
    octets = b"\xd1" + (4 + 8 + len(kept)).to_bytes(4, "big") + b"\0\0\0\x04" + b"\xb3\0\0\0\x01x\x56\x01" + kept
    assert decode_value(octets, 0, len(octets)) == Map([(Symbol("x"), True), (Ulong(5), True)])
    made = edited_map(octets, 0, len(octets), [b"x", b"y"], [(Symbol("z"), Short(1))])
    assert made == b"\xc1" + bytes([1 + len(kept) + 6, 4]) + kept + b"\xa3\x01z\x61\x00\x01"
    assert edited_map(octets, 0, len(octets), [b"x", b"y"], []) == b"\xc1" + bytes([1 + len(kept), 2]) + kept
    assert edited_map(octets, -1, 0, [b"x"], [(Symbol("z"), 1)]) == encode_value(Map([(Symbol("z"), 1)]))
    assert edited_map(octets, -1, 0, [b"x"], []) == b""
    whole = encode_value(Map([(Symbol("x"), 1)]))
    assert edited_map(whole, 0, len(whole), [b"x"], []) == b""
    wide = edited_map(whole, 0, len(whole), [], [(Symbol("y"), "v" * 300)])
    assert decode_value(wide, 0, len(wide)) == Map([(Symbol("x"), 1), (Symbol("y"), "v" * 300)])


# ---- Proton


def proton_message() -> Any:
    made: Any = proton.Message(
        body="text",
        durable=True,
        priority=7,
        ttl=30,
        delivery_count=2,
        id="id-1",
        user_id=b"guest",
        address="/queues/q",
        subject="news",
        reply_to="/queues/r",
        correlation_id=proton.ulong(77),
        content_type=proton.symbol("text/plain"),
        content_encoding=proton.symbol("gzip"),
        expiry_time=100,
        creation_time=50,
        group_id="g",
        group_sequence=3,
        reply_to_group_id="rg",
    )
    made.properties = {"a": proton.int32(1), "b": "two", "n": None}
    made.annotations = {proton.symbol("x-opt-a"): [1]}
    made.instructions = {proton.symbol("x-opt-hop"): "h"}
    return made


def test_a_message_of_proton_is_read() -> None:
    octets = bytes(proton_message().encode())
    found = check_sections(octets, 0, len(octets), 8)
    end = found.end
    header = [True, Ubyte(7), Uint(30_000), None, Uint(2)]
    assert [value_at(octets, list_field(octets, found.header, end, index), end) for index in range(5)] == header
    assert value_at(octets, found.properties, end) == [
        "id-1",
        b"guest",
        "/queues/q",
        "news",
        "/queues/r",
        Ulong(77),
        Symbol("text/plain"),
        Symbol("gzip"),
        Timestamp(100_000),
        Timestamp(50_000),
        "g",
        Uint(3),
        "rg",
    ]
    named = value_at(octets, found.application_properties, end)
    assert named == Map([("a", Int(1)), ("b", "two"), ("n", None)])
    assert value_at(octets, found.message_annotations, end) == Map([(Symbol("x-opt-a"), [1])])
    assert value_at(octets, found.delivery_annotations, end) == Map([(Symbol("x-opt-hop"), "h")])
    assert body_payload(octets, found) == b"text"


def test_proton_reads_a_message_that_is_written() -> None:
    uuid = Uuid(bytes(range(16)))
    out = BytesWriter()
    put_header(out, True, 9, 5000, True, 4)
    put_section(out, DELIVERY_ANNOTATIONS, Map([(Symbol("x-hop"), 1)]))
    put_section(out, MESSAGE_ANNOTATIONS, Map([(Symbol("x-opt-deaths"), Array(INT, [Int(1), Int(2)]))]))
    put_section(out, PROPERTIES, [uuid, b"u", "to", "s", None, b"c", Symbol("t/p")])
    put_section(out, APPLICATION_PROPERTIES, Map([("k", Timestamp(9))]))
    put_data(out, b"body" * 100)
    put_section(out, FOOTER, Map([(Symbol("x-f"), "f")]))
    message: Any = proton.Message()
    message.decode(out.getvalue())
    assert (message.durable, message.priority, message.ttl, message.first_acquirer) == (True, 9, 5.0, True)
    assert (message.delivery_count, message.address, message.subject) == (4, "to", "s")
    assert message.id.bytes == bytes(range(16))
    assert bytes(message.correlation_id) == b"c"
    assert message.properties == {"k": proton.timestamp(9)}
    assert list(message.annotations["x-opt-deaths"].elements) == [1, 2]
    assert bytes(message.body) == b"body" * 100


def test_sections_of_an_empty_message() -> None:
    found = Sections(0, 0)
    assert (found.header, found.body_kind, found.end) == (-1, 0, 0)
    assert split_sections(b"", 0, 0).body_kind == 0
