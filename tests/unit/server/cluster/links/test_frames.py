"""Frames between nodes: any split gives the same, and nothing longer than it may be is taken in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import PeerError
from forebay.server.cluster.links.frames import HELLO, KINDS, MESSAGE, FrameReader, frame

FRAMES = st.lists(st.tuples(st.sampled_from(KINDS), st.binary(max_size=300)), max_size=8)


def taken(reader: FrameReader) -> list[tuple[int, bytes]]:
    return list(iter(reader.next, None))


@given(FRAMES, st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_any_split_gives_the_same_frames(frames: list[tuple[int, bytes]], pieces: list[int]) -> None:
    octets = b"".join(frame(kind, each) for kind, each in frames)
    reader = FrameReader(300)
    found = []
    at = turn = 0
    while at < len(octets):
        count = pieces[turn % len(pieces)]
        reader.add(octets[at : at + count])
        found += taken(reader)
        at += count
        turn += 1
    assert found == frames


def test_a_long_frame_is_joined_once() -> None:
    reader = FrameReader(1 << 20)
    body = bytes(range(256)) * 4096
    octets = frame(MESSAGE, body) + frame(HELLO, b"next")
    for at in range(0, len(octets), 1000):
        reader.add(octets[at : at + 1000])
        if at + 1000 < len(body):
            assert reader.next() is None
    assert taken(reader) == [(MESSAGE, body), (HELLO, b"next")]


def test_a_frame_that_is_too_long_is_refused_by_its_head() -> None:
    reader = FrameReader(10)
    reader.add(frame(MESSAGE, b"ten octets")[:5])
    assert reader.next() is None
    reader = FrameReader(9)
    reader.add(frame(MESSAGE, b"ten octets")[:5])
    with pytest.raises(PeerError, match="a frame of 10 octets, at most 9"):
        reader.next()


@pytest.mark.parametrize("kind", [0, 5, 255])
def test_a_frame_of_no_kind_is_refused(kind: int) -> None:
    reader = FrameReader(10)
    reader.add(b"\0\0\0\0" + bytes((kind,)))
    with pytest.raises(PeerError, match=f"a frame of kind {kind}"):
        reader.next()


def test_what_follows_frames_is_had_as_it_came() -> None:
    reader = FrameReader(10)
    reader.add(frame(HELLO, b"one") + b"GET / HT")
    assert reader.next() == (HELLO, b"one")
    assert reader.rest() == b"GET / HT"
    assert reader.rest() == b""
    reader.add(frame(HELLO, b"two"))
    assert reader.next() == (HELLO, b"two")
    assert reader.next() is None
    assert reader.rest() == b""
