"""AMQP 1.0 codecs: what is written is read back, any octets are values or refused, any split gives the same frames."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import PeerError
from forebay.wire.amqp10.decoder import decode_value, value_end
from forebay.wire.amqp10.encoder import encode_value, widest
from forebay.wire.amqp10.frames import (
    PerformativeReader,
    body_at,
    encode_frame,
    frame_end,
    performative_code,
)
from forebay.wire.amqp10.performatives import decode_performative
from forebay.wire.amqp10.sasl import decode_sasl
from forebay.wire.amqp10.values import (
    ARRAY_32,
    BINARY_32,
    BOOLEAN,
    DOUBLE,
    LIST_32,
    LONG,
    MAP_32,
    NULL,
    STRING_32,
    SYMBOL_32,
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Map,
    Number,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    Uuid,
)
from tests.unit.wire.amqp10.test_frames import dispositions, flows, transfers
from tests.unit.wire.amqp10.test_performatives import PERFORMATIVES, SASL

DEPTH = 64


def unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


ASCII = st.text(st.characters(max_codepoint=127), max_size=20)
# A strategy for the values of each type, by the constructor of an array of them.
TYPES: dict[int, st.SearchStrategy[object]] = {
    NULL: st.none(),
    BOOLEAN: st.booleans(),
    0x50: unsigned(8).map(Ubyte),
    0x60: unsigned(16).map(Ushort),
    0x70: unsigned(32).map(Uint),
    0x80: unsigned(64).map(Ulong),
    0x51: signed(8).map(Byte),
    0x61: signed(16).map(Short),
    0x71: signed(32).map(Int),
    LONG: signed(64),
    0x72: st.binary(min_size=4, max_size=4).map(Float),
    DOUBLE: st.floats(),
    0x73: st.characters(exclude_categories=["Cs"]).map(lambda char: Char(ord(char))),
    0x83: signed(64).map(Timestamp),
    0x98: st.binary(min_size=16, max_size=16).map(Uuid),
    0x74: st.binary(min_size=4, max_size=4).map(Decimal),
    0x84: st.binary(min_size=8, max_size=8).map(Decimal),
    0x94: st.binary(min_size=16, max_size=16).map(Decimal),
    BINARY_32: st.binary(max_size=300),
    STRING_32: st.text(max_size=100),
    SYMBOL_32: ASCII.map(Symbol),
}
PRIMITIVE = st.one_of(*TYPES.values())


def without_repeated_keys(pairs: list[tuple[object, object]]) -> Map:
    kept = {encode_value(key): (key, value) for key, value in pairs}
    return Map(list(kept.values()))


def maps(inner: st.SearchStrategy[object]) -> st.SearchStrategy[Map]:
    return st.lists(st.tuples(inner, inner), max_size=4).map(without_repeated_keys)


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[object]) -> Array:
    nested: dict[int, st.SearchStrategy[object]] = {
        LIST_32: st.lists(inner, max_size=3),
        MAP_32: maps(inner),
        ARRAY_32: st.builds(Array, st.just(0x50), st.lists(TYPES[0x50], max_size=3)),
    }
    code = draw(st.sampled_from([*TYPES, *nested]))
    items = draw(st.lists({**TYPES, **nested}[code], max_size=5))
    return Array(code, items, list(draw(st.lists(st.builds(Ulong, unsigned(64)), max_size=2))))


VALUE = st.recursive(
    PRIMITIVE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), maps(inner), arrays(inner), st.builds(Described, st.one_of(inner), inner)
    ),
    max_leaves=15,
)


def types_in(value: object) -> object:
    """The types of a value and of what it holds."""
    if isinstance(value, list):
        return [types_in(each) for each in value]
    if isinstance(value, Map):
        return [(types_in(key), types_in(each)) for key, each in value.pairs]
    if isinstance(value, Array):
        return (value.code, [types_in(each) for each in value.items], [types_in(each) for each in value.descriptors])
    if isinstance(value, Described):
        return (types_in(value.descriptor), types_in(value.value))
    return type(value)


@given(VALUE)
def test_any_value_is_read_as_it_was_written(value: object) -> None:
    octets = encode_value(value)
    found = decode_value(octets, 0, len(octets), DEPTH)
    assert types_in(found) == types_in(value)
    assert encode_value(found) == octets  # two NaN are not equal; their octets are
    assert value_end(octets, 0, len(octets)) == len(octets)
    around = b"\x43" + octets + b"\x43"
    assert encode_value(decode_value(around, 1, len(around) - 1, DEPTH)) == octets


@given(VALUE, st.data())
def test_octets_that_were_changed_are_a_value_or_refused(value: object, data: st.DataObject) -> None:
    octets = bytearray(encode_value(value))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    refused_or_read(bytes(octets))


@given(st.binary(max_size=200))
def test_any_octets_are_a_value_or_refused(octets: bytes) -> None:
    refused_or_read(octets)


def refused_or_read(octets: bytes) -> None:
    """The decoder's answer; what it reads is written and read again as the same."""
    try:
        end = value_end(octets, 0, len(octets))
    except PeerError:
        end = -1
    try:
        found = decode_value(octets, 0, len(octets), DEPTH)
    except PeerError:
        return
    assert end == len(octets)
    written = encode_value(found)
    assert types_in(decode_value(written, 0, len(written), DEPTH)) == types_in(found)


@given(st.sampled_from([*PERFORMATIVES, *SASL]), st.data())
def test_any_octets_are_a_performative_or_refused(each: object, data: st.DataObject) -> None:
    octets = bytearray(encode_value(each))
    for _ in range(data.draw(st.integers(0, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(octets) + data.draw(st.binary(max_size=3))
    reader = PerformativeReader()
    for decode in (
        decode_performative,
        decode_sasl,
        performative_code,
        reader.read_transfer,
        reader.read_flow,
        reader.read_disposition,
    ):
        try:
            decode(whole, 0, len(whole))
        except PeerError:
            continue


@given(st.lists(st.sampled_from([*PERFORMATIVES, *transfers(), *flows(), *dispositions()]), max_size=8), st.data())
def test_any_split_gives_the_same_frames(made: list[object], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(index, each) for index, each in enumerate(made))  # type: ignore[arg-type]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    found = []
    kept = b""
    for start, stop in pairwise([0, *cuts, len(stream)]):
        kept += stream[start:stop]
        at = 0
        while end := frame_end(kept, at, 1 << 20):
            found.append(decode_performative(kept, body_at(kept, at), end))
            at = end
        kept = kept[at:]
    assert kept == b""
    assert found == made


def test_the_constructor_of_a_number_is_its_widest() -> None:
    for code in range(256):
        assert widest(widest(code)) == widest(code)
    assert all(widest(each.code) == each.code for each in (Ubyte(0), Uint(0), Int(0)) if isinstance(each, Number))
