"""Frames of a connection between two nodes.

4  length n of the octets, big-endian
1  kind
n  octets
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import MALFORMED, PeerError

HEAD_OCTETS: Final = 5
HELLO: Final = 1
PROOF: Final = 2
REFUSED: Final = 3
MESSAGE: Final = 4
KINDS: Final = (HELLO, PROOF, REFUSED, MESSAGE)


def head(kind: int, octets: int) -> bytes:
    """Encode the head of a frame with `octets` octets."""
    return octets.to_bytes(4, "big") + bytes((kind,))


def frame(kind: int, octets: bytes) -> bytes:
    """Encode a whole frame."""
    return head(kind, len(octets)) + octets


class FrameReader:
    """Frames out of octets as they come.

    octets_max  of one frame; longer ones are refused before they are taken in
    """

    def __init__(self, octets_max: int) -> None:
        self.octets_max = octets_max
        self._data = b""
        self._at = 0
        self._parts: list[bytes] = []
        self._have = 0  # octets in the parts
        self._wanted = 0  # without which there is nothing to do

    def add(self, data: bytes) -> None:
        """Add received octets. All frames before them must have been taken."""
        self._parts.append(data)
        self._have += len(data)
        if self._have >= self._wanted:
            self._data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._at = 0
            self._parts = []
            self._have = 0

    def next(self) -> tuple[int, bytes] | None:
        """Return kind and octets of the next whole frame; None if there is none yet.

        raises  PeerError: the frame is too long, or of no kind
        """
        data, at = self._data, self._at
        there = len(data) - at
        wanted = HEAD_OCTETS
        if there >= HEAD_OCTETS:
            length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4]
            if kind not in KINDS:
                raise PeerError(MALFORMED, f"a frame of kind {kind}")
            if length > self.octets_max:
                raise PeerError(MALFORMED, f"a frame of {length} octets, at most {self.octets_max}")
            wanted += length
            if there >= wanted:
                self._at = at + wanted
                return kind, data[at + HEAD_OCTETS : at + wanted]
        if there:
            self._parts = [data[at:]]
            self._have = there
        self._data, self._at, self._wanted = b"", 0, wanted
        return None

    def rest(self) -> bytes:
        """Return all octets after the frames that were taken. What follows is no frame any more."""
        left = self._data[self._at :] + b"".join(self._parts)
        self._data, self._at, self._parts, self._have = b"", 0, [], 0
        return left
