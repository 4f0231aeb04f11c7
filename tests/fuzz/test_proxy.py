"""The PROXY header, spoilt: it is read as far as it goes and no further, and what is wrong with it is said."""

from __future__ import annotations

from random import Random
from typing import Final

from forebay.core.errors import PeerError
from forebay.node.peer import Peer
from forebay.server.transport.proxy import V2, announced_peer, missing_octets
from tests.fuzz.mutator import SPOILERS

SEEDS: Final = 20_000
HEADER_MAX: Final = 16 + 65_535
BEHIND: Final = b"AMQP\x00\x00\x09\x01"
HEADERS: Final = (
    b"PROXY TCP4 10.1.2.3 10.1.2.4 5672 80\r\n",
    b"PROXY TCP6 2001:db8::1 ::1 65535 0\r\n",
    b"PROXY UNKNOWN\r\n",
    b"PROXY UNKNOWN ffff::1 and more\r\n",
    V2 + b"\x21\x11\x00\x0c" + bytes(12),
    V2 + b"\x21\x21\x00\x28" + bytes(40),
    V2 + b"\x20\x00\x00\x00",
    V2 + b"\x21\x31\x00\xd8" + bytes(216),
)


def read(octets: bytes) -> tuple[Peer | None, int]:
    """The client that the header announces, and how many octets were read; EOFError where they do not suffice."""
    at = 0
    while missing := missing_octets(octets[:at]):
        assert missing > 0
        at += missing
        assert at <= HEADER_MAX
        if at > len(octets):
            raise EOFError
    return announced_peer(octets[:at]), at


def test_a_whole_header_is_read_and_nothing_behind_it() -> None:
    for header in HEADERS:
        assert read(header + BEHIND)[1] == len(header)


def test_a_spoilt_header_is_refused_or_is_another() -> None:
    chance = Random(1)
    ends = {"read": 0, "refused": 0, "not whole": 0}
    for _ in range(SEEDS):
        header = chance.choice(HEADERS)
        for _ in range(chance.choice((1, 1, 2, 4))):
            header = chance.choice(SPOILERS)(chance, header)
        try:
            peer, _ = read(header + BEHIND)
            assert peer is None or isinstance(peer.name, str)
            ends["read"] += 1
        except PeerError:
            ends["refused"] += 1
        except EOFError:
            ends["not whole"] += 1
    assert min(ends.values()) > SEEDS // 100, ends
