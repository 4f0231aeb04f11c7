"""The block protocol's framing: what is written is read, at any split; any octets give frames or a PeerError."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import PeerError, RequestError
from forebay.wire.blocks.frames import (
    BLOCKS_HEAD_OCTETS,
    FETCH,
    FRAME_HEAD_OCTETS,
    PREFACE,
    REPLY,
    REQUEST,
    REQUEST_OCTETS_MAX,
    BlocksFrame,
    Request,
    decode_blocks_head,
    decode_frame,
    decode_json,
    decode_preface,
    decode_request,
    encode_blocks_head,
    encode_error,
    encode_head,
    encode_json,
    frame_octets,
)

I64 = st.integers(-(2**70), 2**70)
JSON = st.recursive(
    st.none() | st.booleans() | I64 | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(
    st.sampled_from(["op", "queue", "first", "end", "octets_max", "timestamp_us", "user", "password", "other"]),
    st.sampled_from(["auth", "describe", "offset_at", "fetch"]) | JSON,
)
FRAMES = st.tuples(st.sampled_from([1, 2, 3, 4]), st.binary(max_size=64))


def feed(pieces: list[bytes]) -> list[tuple[int, bytes]]:
    """The frames of a stream that comes in these pieces, as a session reads it."""
    found: list[tuple[int, bytes]] = []
    rest = b""
    for piece in pieces:
        rest += piece
        at = 0
        while (frame := decode_frame(rest, at, REQUEST_OCTETS_MAX)) is not None:
            found.append((frame.kind, frame.payload))
            at += frame.octets
        rest = rest[at:]
    assert rest == b""
    return found


@given(st.lists(FRAMES, max_size=5), st.lists(st.integers(0, 400), max_size=6))
def test_any_split_gives_the_same_frames(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(encode_head(kind, len(payload)) + payload for kind, payload in frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[first:end] for first, end in itertools.pairwise(edges)]
    assert feed(pieces) == frames


@given(st.binary(max_size=40))
def test_any_octets_are_a_frame_or_a_peer_error(data: bytes) -> None:
    try:
        frame = decode_frame(data, 0, REQUEST_OCTETS_MAX)
        wanted = frame_octets(data, 0, REQUEST_OCTETS_MAX)
    except PeerError:
        return
    if frame is None:
        assert wanted == 0 or wanted > len(data)
    else:
        assert (frame.octets, len(frame.payload)) == (wanted, wanted - FRAME_HEAD_OCTETS)


@given(st.binary(max_size=12))
def test_any_octets_are_a_preface_or_a_peer_error(data: bytes) -> None:
    try:
        used = decode_preface(data)
    except PeerError:
        assert data[: len(PREFACE)] != PREFACE[: len(data)]
        return
    assert used == (len(PREFACE) if len(data) >= len(PREFACE) else 0)
    assert data[: len(PREFACE)] == PREFACE[: len(data)]


@given(OBJECTS)
def test_any_object_is_a_request_or_an_error_that_names_a_field(values: dict[str, object]) -> None:
    frame = decode_frame(encode_json(REQUEST, values), 0, 1 << 20)
    assert frame is not None
    refusal = ""
    request = Request("")
    try:
        request = decode_request(frame.payload)
    except RequestError as error:
        refusal = error.text
    if refusal:
        fields = ["op", "queue", "first", "end", "timestamp_us", "user", "password"]
        assert any(name in refusal for name in [*values, *fields])
        return
    assert request.op == values["op"]
    if request.op == FETCH:
        assert (request.queue, request.first, request.end) == (values["queue"], values["first"], values["end"])
        assert 0 <= request.first < 2**63


@given(st.binary(max_size=40))
def test_any_payload_is_a_request_or_an_error(payload: bytes) -> None:
    with suppress(PeerError, RequestError):
        assert isinstance(decode_request(payload), Request)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**28))
def test_head_of_blocks(next: int, start: int, octets: int) -> None:
    head = encode_blocks_head(next, start, octets)
    assert len(head) == FRAME_HEAD_OCTETS + BLOCKS_HEAD_OCTETS
    assert frame_octets(head, 0, 2**29) == len(head) + octets
    assert decode_blocks_head(head[FRAME_HEAD_OCTETS:]) == (next, start)


def test_an_error_is_json() -> None:
    frame = decode_frame(encode_error("request", "not-found", "no queue 'é'"), 0, 1 << 20)
    assert isinstance(frame, BlocksFrame)
    assert decode_json(frame.payload) == {"error": "request", "reason": "not-found", "text": "no queue 'é'"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x00\x00\x00\x00\x00\x00\x00\x00", "kind 0"),
        (b"\x00\x00\x00\x00\x09\x00\x00\x00", "kind 9"),
        (b"\x00\x00\x00\x00\x01\x00\x01\x00", "octets 5 to 7"),
        (b"\x01\x00\x01\x00\x01\x00\x00\x00", "65537 octets, at most 65536"),
        (b"\xff\xff\xff\xff\x01\x00\x00\x00", "4294967295 octets"),
    ],
)
def test_what_no_frame_can_be(data: bytes, text: str) -> None:
    with pytest.raises(PeerError, match=text):
        decode_frame(data, 0, REQUEST_OCTETS_MAX)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ('{"op": "fetch", "queue": "q", "first": -1, "end": 2}', "fetch: first is -1, not a whole number from 0 to"),
        ('{"op": "fetch", "queue": "q", "first": 0}', "fetch: end is absent"),
        ('{"op": "fetch", "queue": "q", "first": true, "end": 2}', "fetch: first is True"),
        ('{"op": "fetch", "queue": "q", "first": 0, "end": 9223372036854775808}', "end is 9223372036854775808"),
        ('{"op": "fetch", "queue": "q", "first": 0, "end": 1, "octets_max": 0}', "octets_max is 0"),
        ('{"op": "commit", "query": "q", "batch": 0}', "commit: parts is absent, not an object"),
        ('{"op": "commit", "query": "q", "batch": 0, "parts": {"p": 0}}', "commit: parts: 'p' has 0 rows"),
        ('{"op": "commit", "query": "q", "batch": 0, "parts": {"\\ud800": 1}}', "commit: parts: "),
        ('{"op": "abort", "query": "", "batch": 0}', "abort: query is '', not text of 1 to 255 octets"),
        ('{"op": "abort", "query": "q", "batch": -1}', "abort: batch is -1"),
        ('{"op": "transaction"}', "transaction: query is absent"),
        ('{"op": "fetch", "queue": "q", "first": 0, "end": 1, "filter": 5}', "fetch: filter is 5, not text of at most"),
        ('{"op": "queues", "pattern": []}', "queues: pattern is a list, not text"),
        ('{"op": "queues", "from": null}', "queues: from is absent"),
        ('{"op": "ends"}', "ends: queues is absent, not an object of at most 10000 queues"),
        ('{"op": "ends", "queues": {"q": -1}}', "ends: q is -1, not a whole number from 0"),
        ('{"op": "ends", "queues": {"\\ud800": 1}}', "ends: .* is no name of a queue"),
        ('{"op": "ends", "queues": {}, "wait_ms": "1"}', "ends: wait_ms is '1'"),
        (
            '{"op": "hold", "queue": "q", "group": "", "offset": 0, "ttl_ms": 1}',
            "hold: group is '', not text of 1 to 255",
        ),
        ('{"op": "hold", "queue": "q", "group": "g", "offset": -1, "ttl_ms": 1}', "hold: offset is -1"),
        ('{"op": "release", "queue": "q"}', "release: group is absent"),
        ('{"op": "describe", "queue": 5}', "describe: queue is 5, not text"),
        ('{"op": "describe", "queue": "\\ud800"}', r"describe: queue is '\\ud800'"),
        ('{"op": "describe", "queue": "q", "x": 1}', "describe: 'x' is no field; known are op, queue"),
        ('{"op": "drop"}', "op: 'drop' is no request; known are auth, describe, offset_at, fetch"),
        ("{}", "op: absent"),
    ],
)
def test_a_bad_field_is_named_with_its_value(payload: str, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        decode_request(payload.encode())


@pytest.mark.parametrize("payload", [b"[1]", b"", b"\xff", b"{", b"[" * 60_000, b"1" * 10_000])
def test_what_is_no_json_object_is_a_peer_error(payload: bytes) -> None:
    with pytest.raises(PeerError, match="JSON"):
        decode_request(payload)


def test_another_version_is_refused() -> None:
    with pytest.raises(PeerError, match="version 1"):
        decode_preface(b"FBLK\x01\0\0\0")


def test_a_reply_holds_what_was_put_in() -> None:
    frame = decode_frame(encode_json(REPLY, {"offset": 2**62}), 0, 1 << 20)
    assert frame is not None
    assert decode_json(frame.payload) == {"offset": 2**62}
