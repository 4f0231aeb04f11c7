"""Values of AMQP 1.0: every type and encoding, what is no value, and the same octets in Proton's codec."""

from __future__ import annotations

import proton
import pytest

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.decoder import EMPTY_ITEMS_MAX, decode_value, value_end
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.values import (
    INT,
    LIST_32,
    NULL,
    STRING_32,
    SYMBOL_32,
    UBYTE,
    UINT,
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    Uuid,
    float_of,
)

# Octets in hexadecimal digits, and the value.
VALUES: list[tuple[str, object]] = [
    ("40", None),
    ("41", True),
    ("42", False),
    ("5601", True),
    ("5600", False),
    ("50ff", Ubyte(255)),
    ("60fffe", Ushort(65534)),
    ("43", Uint(0)),
    ("52ff", Uint(255)),
    ("7000000100", Uint(256)),
    ("70ffffffff", Uint(0xFFFFFFFF)),
    ("7000000000", Uint(0)),
    ("44", Ulong(0)),
    ("53ff", Ulong(255)),
    ("80ffffffffffffffff", Ulong((1 << 64) - 1)),
    ("8000000000000000ff", Ulong(255)),
    ("51ff", Byte(-1)),
    ("517f", Byte(127)),
    ("61fffe", Short(-2)),
    ("617fff", Short(32767)),
    ("5480", Int(-128)),
    ("7180000000", Int(-(1 << 31))),
    ("7100000001", Int(1)),
    ("55ff", -1),
    ("818000000000000000", -(1 << 63)),
    ("8100000000000000ff", 255),
    ("810000000000000001", 1),
    ("723fc00000", float_of(1.5)),
    ("727f800001", Float(b"\x7f\x80\x00\x01")),
    ("823ff8000000000000", 1.5),
    ("7422500007", Decimal(b"\x22\x50\x00\x07")),
    ("842238000000000007", Decimal(b"\x22\x38\0\0\0\0\0\x07")),
    ("94" + "22" * 16, Decimal(b"\x22" * 16)),
    ("730001f600", Char(0x1F600)),
    ("83fffffffffffffc18", Timestamp(-1000)),
    ("837fffffffffffffff", Timestamp((1 << 63) - 1)),
    ("98" + "00112233445566778899aabbccddeeff", Uuid(bytes.fromhex("00112233445566778899aabbccddeeff"))),
    ("a002ff00", b"\xff\x00"),
    ("a000", b""),
    ("b000000002ff00", b"\xff\x00"),
    ("a103c3a978", "éx"),
    ("b100000003c3a978", "éx"),
    ("a3026f6b", Symbol("ok")),
    ("b3000000026f6b", Symbol("ok")),
    ("45", []),
    ("c00100", []),
    ("d00000000400000000", []),
    ("c003024041", [None, True]),
    ("d0000000060000000240" + "41", [None, True]),
    ("c10100", Map([])),
    ("c10702a1016ba10176", Map([("k", "v")])),
    ("d10000000a00000002a1016ba10176", Map([("k", "v")])),
    ("c10904" + "40a1016ea30173" + "43", Map([(None, "n"), (Symbol("s"), Uint(0))])),
    ("e0040250" + "0102", Array(UBYTE, [Ubyte(1), Ubyte(2)])),
    ("f0000000070000000250" + "0102", Array(UBYTE, [Ubyte(1), Ubyte(2)])),
    ("e00a0270" + "0000000100000100", Array(UINT, [Uint(1), Uint(256)])),
    ("e004025201ff", Array(UINT, [Uint(1), Uint(255)])),
    ("e0020543", Array(UINT, [Uint(0)] * 5)),
    ("e00602a3016101" + "62", Array(SYMBOL_32, [Symbol("a"), Symbol("b")])),
    ("e0020071", Array(INT, [])),
    ("e0020340", Array(NULL, [None] * 3)),
    ("e0020245", Array(LIST_32, [[], []])),
    ("e00801" + "00a301" + "64" + "a10176", Array(STRING_32, ["v"], [Symbol("d")])),
    ("005312a10176", Described(Ulong(0x12), "v")),
    ("00a30164a10176", Described(Symbol("d"), "v")),
    ("00005301a10164" + "41", Described(Described(Ulong(1), "d"), True)),
    ("00530100530241", Described(Ulong(1), Described(Ulong(2), True))),
]
# The encodings of these that are written.
WRITTEN = [
    "40 41 42 50ff 60fffe 43 52ff 7000000100 70ffffffff 44 53ff 80ffffffffffffffff 51ff 517f 61fffe 617fff 5480",
    "7180000000 55ff 818000000000000000 8100000000000000ff 723fc00000 727f800001 823ff8000000000000 7422500007",
    "842238000000000007 730001f600 83fffffffffffffc18 837fffffffffffffff a002ff00 a000 a103c3a978 a3026f6b 45",
    "c003024041 c10100 c10702a1016ba10176 e00402500102 e00a02700000000100000100 e00602a301610162 e0020071 e0020340",
    "e0080100a30164a10176 005312a10176 00a30164a10176 00005301a1016441 00530100530241",
]

# What is no value, and what is said of it.
NO_VALUES = [
    ("", "runs over the end"),
    ("46", "constructor 0x46 is unknown"),
    ("5700", "constructor 0x57 is unknown"),
    ("5f00", "constructor 0x5f is unknown"),
    ("62ffff", "constructor 0x62 is unknown"),
    ("7500000000", "constructor 0x75 is unknown"),
    ("85" + "00" * 8, "constructor 0x85 is unknown"),
    ("95" + "00" * 16, "constructor 0x95 is unknown"),
    ("a200", "constructor 0xa2 is unknown"),
    ("c20100", "constructor 0xc2 is unknown"),
    ("e1020040", "constructor 0xe1 is unknown"),
    ("2040", "constructor 0x20 is unknown"),
    ("ff00", "constructor 0xff is unknown"),
    ("5602", "a boolean is 0 or 1, not 2"),
    ("a10161ff", "1 octets after it"),
    ("4040", "1 octets after it"),
    ("a102c328", "not UTF-8"),
    ("a30180", "not ASCII"),
    ("7300110000", "is not between 0 and 1114111"),
    ("730000d800", "half of a surrogate pair"),
    ("73ffffffff", "is not between"),
    ("c0020241", "items do not fit"),
    ("c0030141" + "41", "1 octets more than its items take"),
    ("c0020140" + "40", "octets after it"),
    ("c00502a1024142", "runs over the end"),
    ("c000", "runs over the end"),
    ("c00300" + "4141", "2 octets more than its items take"),
    ("d0000000020000", "runs over the end"),
    ("c1020140", "a map of 1 keys"),
    ("c10702a1016ba101", "runs over the end"),
    ("c10904a1016b40a1016b40", "key 'k' comes twice"),
    ("d10000000f00000004a1016b40b1000000016b40", "comes twice"),
    ("c10504404040" + "41", "key None comes twice"),
    ("e0020545"[:6], "runs over the end"),
    ("e0030350" + "00", "items do not fit"),
    ("e00401500000", "1 octets more than its items take"),
    ("e0020099", "constructor 0x99 is unknown"),
    ("e0020100", "runs over the end"),
    ("f0000000050001000140", "more than 65536 items without octets"),
    ("0053", "runs over the end"),
    ("005312", "runs over the end"),
    ("00", "runs over the end"),
]


def decoded(digits: str, depth_max: int = 32) -> object:
    octets = bytes.fromhex(digits)
    return decode_value(octets, 0, len(octets), depth_max)


@pytest.mark.parametrize(("digits", "value"), VALUES)
def test_every_encoding_is_read(digits: str, value: object) -> None:
    octets = bytes.fromhex(digits)
    found = decode_value(octets, 0, len(octets))
    assert found == value
    assert type(found) is type(value)
    assert value_end(octets, 0, len(octets)) == len(octets)
    assert value_end(b"xx" + octets + b"yy", 2, len(octets) + 4) == len(octets) + 2


@pytest.mark.parametrize(("digits", "value"), VALUES)
def test_what_is_written_is_read_back_as_the_same_type(digits: str, value: object) -> None:
    written = encode_value(value)
    found = decode_value(written, 0, len(written))
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)
    assert hash(Described(1, found)) == hash(Described(1, value))


@pytest.mark.parametrize("digits", " ".join(WRITTEN).split())
def test_the_shortest_encoding_is_written(digits: str) -> None:
    assert encode_value(decoded(digits)).hex() == digits


@pytest.mark.parametrize(("digits", "text"), NO_VALUES)
def test_what_is_no_value_is_refused(digits: str, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        decoded(digits)
    assert caught.value.reason == MALFORMED


@pytest.mark.parametrize("digits", [digits for digits, _ in VALUES])
def test_a_value_cut_short_is_refused(digits: str) -> None:
    octets = bytes.fromhex(digits)
    for length in range(len(octets)):
        with pytest.raises(PeerError):
            decode_value(octets, 0, length)
        with pytest.raises(PeerError):
            value_end(octets, 0, length)


def test_values_nest_to_the_limit_and_no_deeper() -> None:
    value: object = None
    for _ in range(16):
        value = Described(Symbol("d"), [value])
    octets = encode_value(value)
    assert decode_value(octets, 0, len(octets), 32) == value
    with pytest.raises(PeerError, match="nests too deep"):
        decode_value(octets, 0, len(octets), 31)
    for nested in (b"\x00" * 100_000, b"\xc0\xff\x01" * 100_000, b"\xf0\0\0\xff\xff\0\0\0\x01" * 100_000):
        with pytest.raises(PeerError):
            decode_value(nested, 0, len(nested), 10_000)
    with pytest.raises(PeerError, match="nests too deep"):
        value_end(b"\x00" * 100_000, 0, 100_000)
    with pytest.raises(PeerError, match="nests too deep"):
        value_end(b"\x00\x40" * 100_000, 0, 200_000)


def test_items_without_octets_are_bounded_in_all_arrays_together() -> None:
    half = b"\xf0\x00\x00\x00\x05" + (EMPTY_ITEMS_MAX // 2).to_bytes(4, "big") + b"\x43"
    two = b"\xd0" + (4 + 2 * len(half)).to_bytes(4, "big") + b"\0\0\0\x02" + 2 * half
    found = decode_value(two, 0, len(two))
    assert isinstance(found, list)
    assert [len(each.items) for each in found] == [EMPTY_ITEMS_MAX // 2] * 2
    three = b"\xd0" + (4 + 3 * len(half)).to_bytes(4, "big") + b"\0\0\0\x03" + 3 * half
    with pytest.raises(PeerError, match="more than 65536 items without octets"):
        decode_value(three, 0, len(three))


@pytest.mark.parametrize("length", [0, 1, 254, 255, 256, 257, 70_000])
def test_sizes_change_their_width_where_they_have_to(length: int) -> None:
    for value in (b"x" * length, "x" * length, Symbol("x" * length), [None] * length, [b"x" * length]):
        octets = encode_value(value)
        assert decode_value(octets, 0, len(octets)) == value
    for array in (Array(STRING_32, ["x" * length, ""]), Array(UBYTE, [Ubyte(1)] * length), Array(UINT, [Uint(0)])):
        octets = encode_value(array)
        assert decode_value(octets, 0, len(octets)) == array
    nested = Array(0xF0, [Array(UBYTE, [Ubyte(1)] * length), Array(STRING_32, ["x" * length])])
    octets = encode_value(nested)
    assert decode_value(octets, 0, len(octets)) == nested


def test_a_value_out_of_the_range_of_its_type_is_refused() -> None:
    for make, value in ((Ubyte, 256), (Ushort, -1), (Uint, 1 << 32), (Ulong, -1), (Byte, 128), (Short, -(1 << 15) - 1)):
        with pytest.raises(ValueError, match="is not between"):
            make(value)
    for size in (3, 5):
        with pytest.raises(ValueError, match="octets"):
            Float(bytes(size))
        with pytest.raises(ValueError, match="octets"):
            Decimal(bytes(size))
        with pytest.raises(ValueError, match="octets"):
            Uuid(bytes(size))
    with pytest.raises(ValueError, match="too large for a long"):
        encode_value(1 << 63)
    with pytest.raises(ValueError, match="set is no type of AMQP"):
        encode_value({1})
    with pytest.raises(ValueError, match="an item of type str"):
        encode_value(Array(UINT, ["1"]))


def test_types_that_python_takes_for_one_are_different_keys() -> None:
    keys: list[object] = [
        True,
        1,
        1.0,
        Ubyte(1),
        Uint(1),
        Ulong(1),
        Int(1),
        Symbol("1"),
        "1",
        b"1",
        None,
        [],
        [1],
        [True],
    ]
    value = Map([(key, index) for index, key in enumerate(keys)])
    octets = encode_value(value)
    found = decode_value(octets, 0, len(octets))
    assert isinstance(found, Map)
    assert [found.get(key) for key in keys[:11]] == list(range(11))
    assert [type(key) for key, _ in found.pairs] == [type(key) for key in keys]


def test_a_uuid_is_written_as_people_do() -> None:
    assert Uuid(bytes(range(16))).text() == "00010203-0405-0607-0809-0a0b0c0d0e0f"


# ---- Proton


PROTON_VALUES: list[tuple[object, object]] = [
    (None, None),
    (True, True),
    (proton.ubyte(255), Ubyte(255)),
    (proton.ushort(65535), Ushort(65535)),
    (proton.uint(0), Uint(0)),
    (proton.uint(7), Uint(7)),
    (proton.uint(0xFFFFFFFF), Uint(0xFFFFFFFF)),
    (proton.ulong(0), Ulong(0)),
    (proton.ulong((1 << 64) - 1), Ulong((1 << 64) - 1)),
    (proton.byte(-1), Byte(-1)),
    (proton.short(-300), Short(-300)),
    (proton.int32(-1), Int(-1)),
    (proton.int32(-(1 << 31)), Int(-(1 << 31))),
    (-1, -1),
    (1 << 40, 1 << 40),
    (proton.float32(1.5), float_of(1.5)),
    (-0.0, -0.0),
    (proton.char("é"), Char(0xE9)),
    (proton.timestamp(-5), Timestamp(-5)),
    (proton.symbol("name"), Symbol("name")),
    ("text é", "text é"),
    (b"\x00\xff", b"\x00\xff"),
    ([1, "a", [None]], [1, "a", [None]]),
    (proton.Described(proton.symbol("d"), "v"), Described(Symbol("d"), "v")),
    (
        proton.Array(proton.UNDESCRIBED, proton.Data.UINT, proton.uint(1), proton.uint(500)),
        Array(UINT, [Uint(1), Uint(500)]),
    ),
    (proton.decimal32(7), Decimal(b"\0\0\0\x07")),
]


@pytest.mark.parametrize(("theirs", "ours"), PROTON_VALUES)
def test_proton_reads_what_is_written_and_writes_what_is_read(theirs: object, ours: object) -> None:
    data = proton.Data()
    data.put_object(theirs)
    octets = bytes(data.encode())
    assert decode_value(octets, 0, len(octets)) == ours
    written = encode_value(ours)
    back = proton.Data()
    assert back.decode(written) == len(written)
    back.next()
    found = back.get_object()
    assert found == theirs
    assert isinstance(found, memoryview if isinstance(theirs, bytes) else type(theirs))


def test_proton_reads_a_map() -> None:
    ours = Map([("a", Uint(1)), (Symbol("s"), [True, 1.5]), (Ulong(3), Map([]))])
    written = encode_value(ours)
    data = proton.Data()
    data.decode(written)
    data.next()
    assert data.get_object() == {"a": proton.uint(1), proton.symbol("s"): [True, 1.5], proton.ulong(3): {}}
    again = bytes(data.encode())
    assert decode_value(again, 0, len(again)) == ours
