"""AMQP 0.9.1 codecs: what is written is read back, any split gives the same frames, any octets frames or PeerError."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from forebay.core.errors import PeerError
from forebay.core.message import AMQP091, MQTT, Properties
from forebay.message.formats.conversion import convert
from forebay.wire.amqp091.codec import Reader, frame_end, put_content, put_method, put_table, skip_table
from forebay.wire.amqp091.properties import (
    HeaderSplice,
    check_properties,
    decode_properties,
    encode_properties,
    headers_of,
    without_headers,
)

FRAME_MAX = 4096
NAME = st.text(max_size=40)
SCALAR = st.one_of(
    st.text(max_size=300),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAME, inner, max_size=4)),
    max_leaves=12,
)
FIELDS = st.dictionaries(NAME, VALUE, max_size=6)
SHORT = st.one_of(st.none(), st.text(max_size=60))
DEPTH = 16


@st.composite
def properties(draw: st.DrawFn) -> Properties:
    made = Properties()
    made.durable = draw(st.booleans())
    made.priority = draw(st.one_of(st.none(), st.integers(0, 255)))
    made.expiration_ms = draw(st.one_of(st.none(), st.integers(0, 10**17)))
    made.message_id = draw(SHORT)
    made.correlation_id = draw(st.one_of(st.none(), st.binary(max_size=255)))
    made.reply_to = draw(SHORT)
    made.content_type = draw(SHORT)
    made.content_encoding = draw(SHORT)
    made.timestamp_s = draw(st.one_of(st.none(), st.integers(0, (1 << 64) - 1)))
    made.type = draw(SHORT)
    made.user_id = draw(SHORT)
    made.app_id = draw(SHORT)
    made.cluster_id = draw(SHORT)
    made.body_is_text = draw(st.booleans())
    made.headers = list(draw(FIELDS).items())
    return made


def fields_of(made: Properties) -> dict[str, object]:
    methods = ("header", "named_values")
    return {name: getattr(made, name) for name in dir(made) if not name.startswith("_") and name not in methods}


@given(FIELDS)
def test_tables_are_read_as_they_were_written(fields: dict[str, object]) -> None:
    out = BytesWriter()
    put_table(out, list(fields.items()))
    octets = out.getvalue()
    assert Reader(octets, 0, len(octets), DEPTH).table() == fields
    assert skip_table(octets, 0, len(octets), DEPTH) == len(octets)


@given(properties())
def test_properties_are_read_as_they_were_written(made: Properties) -> None:
    octets = encode_properties(made)
    check_properties(octets, DEPTH)
    assert fields_of(decode_properties(octets, DEPTH)) == fields_of(made)


@given(properties(), st.integers(0, (1 << 62)), st.integers(0, (1 << 62)))
def test_spliced_headers_change_nothing_else(made: Properties, first: int, second: int) -> None:
    octets = encode_properties(made)
    spliced = HeaderSplice(b"x-stream-offset", b"x-stream-timestamp").apply(octets, first, second, DEPTH)
    check_properties(spliced, DEPTH)
    added = [("x-stream-offset", first), ("x-stream-timestamp", second)]
    assert headers_of(spliced, DEPTH) == [*added, *headers_of(octets, DEPTH)]
    assert without_headers(spliced, DEPTH) == without_headers(octets, DEPTH)


@given(properties())
def test_a_way_through_mqtt_and_back_keeps_what_both_can_say(made: Properties) -> None:
    octets = encode_properties(made)
    there = convert(AMQP091, octets, MQTT)
    back = convert(MQTT, there, AMQP091)
    check_properties(back, DEPTH)
    again = decode_properties(back, DEPTH)
    assert again.body_is_text == made.body_is_text
    assert again.correlation_id == made.correlation_id
    assert again.priority == made.priority
    if made.expiration_ms is not None and made.expiration_ms <= 0xFFFFFFFF * 1000:
        assert again.expiration_ms is not None
        assert 0 <= again.expiration_ms - made.expiration_ms < 1000


@given(st.binary(max_size=200))
def test_any_octets_are_properties_or_malformed(octets: bytes) -> None:
    try:
        check_properties(octets, DEPTH)
    except PeerError:
        return
    decode_properties(octets, DEPTH)
    headers_of(octets, DEPTH)
    convert(AMQP091, octets, MQTT)
    check_properties(HeaderSplice(b"n", b"m").apply(octets, 1, 2, DEPTH), DEPTH)


@given(st.binary(max_size=100), st.sampled_from([b"\0\0\0", b"\0\0\0\x20\x01nF\0\0\0", b"\0\0\0\x10\x01nA\0\0\0", b""]))
def test_a_table_that_is_passed_over_is_one_that_is_read(octets: bytes, start: bytes) -> None:
    octets = start + octets
    outcomes = []
    for read in (False, True):
        reader = Reader(octets, 0, len(octets), DEPTH)
        try:
            if read:
                reader.table()
                outcomes.append(int(reader.pos))
            else:
                outcomes.append(int(skip_table(octets, 0, len(octets), DEPTH)))
        except PeerError:
            outcomes.append(-1)
    assert outcomes[0] == outcomes[1]


def frames(parts: list[bytes]) -> list[bytes]:
    """All frames of an input that comes in these parts."""
    found = []
    rest = b""
    for part in parts:
        rest += part
        while end := frame_end(rest, 0, FRAME_MAX):
            found.append(rest[:end])
            rest = rest[end:]
    return found


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    out = BytesWriter()
    for _ in range(draw(st.integers(1, 5))):
        channel = draw(st.integers(0, 65535))
        if draw(st.booleans()):
            put_method(out, channel, draw(st.integers(0, 0xFFFFFFFF)), draw(st.binary(max_size=50)))
        else:
            put_content(
                out, channel, draw(st.binary(min_size=2, max_size=30)), b"b" * draw(st.integers(0, 9000)), FRAME_MAX
            )
    octets = out.getvalue()
    return octets, sorted(draw(st.lists(st.integers(0, len(octets)), max_size=12)))


@given(streams())
def test_any_split_gives_the_same_frames(stream: tuple[bytes, list[int]]) -> None:
    octets, cuts = stream
    whole = frames([octets])
    assert b"".join(whole) == octets
    edges = [0, *cuts, len(octets)]
    assert frames([octets[start:end] for start, end in pairwise(edges)]) == whole


@given(st.binary(max_size=60))
def test_any_octets_are_frames_or_an_error(octets: bytes) -> None:
    try:
        end = frame_end(octets, 0, FRAME_MAX)
    except PeerError:
        return
    assert 0 <= end <= len(octets)
