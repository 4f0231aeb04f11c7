"""PROXY headers, octet by octet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import PeerError
from forebay.node.peer import UNKNOWN, Peer
from forebay.server.transport.proxy import announced_identity, announced_peer, header_for, missing_octets

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
IPV4 = bytes([192, 0, 2, 1, 198, 51, 100, 1]) + (4000).to_bytes(2, "big") + (1883).to_bytes(2, "big")
IPV6 = bytes.fromhex("20010db8000000000000000000000001" * 2) + (4000).to_bytes(2, "big") + (1883).to_bytes(2, "big")
ALL_ONES = b"ffff:" * 7 + b"ffff"
TLV = b"\x01\x00\x03abc"


def version_2(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + len(body).to_bytes(2, "big") + body


GOOD = [
    (version_2(0x21, 0x11, IPV4), Peer("192.0.2.1:4000", False)),
    (version_2(0x21, 0x11, IPV4 + TLV), Peer("192.0.2.1:4000", False)),
    (version_2(0x21, 0x11, bytes([127, 0, 0, 1]) + IPV4[4:]), Peer("127.0.0.1:4000", True)),
    (version_2(0x21, 0x21, IPV6), Peer("[2001:db8::1]:4000", False)),
    (version_2(0x21, 0x21, bytes(15) + b"\1" + IPV6[16:] + TLV * 5000), Peer("[::1]:4000", True)),
    (version_2(0x21, 0x31, bytes(216)), UNKNOWN),
    (version_2(0x21, 0x00, b""), UNKNOWN),
    (version_2(0x21, 0x00, TLV), UNKNOWN),
    (version_2(0x20, 0x00, b""), None),
    (version_2(0x20, 0x11, IPV4 + TLV), None),
    (b"PROXY TCP4 192.0.2.1 198.51.100.1 4000 1883\r\n", Peer("192.0.2.1:4000", False)),
    (b"PROXY TCP4 127.0.0.1 127.0.0.1 0 65535\r\n", Peer("127.0.0.1:0", True)),
    (b"PROXY TCP6 2001:db8::1 ::1 4000 1883\r\n", Peer("[2001:db8::1]:4000", False)),
    (b"PROXY TCP6 " + b" ".join([ALL_ONES] * 2) + b" 65535 65535\r\n", Peer(f"[{ALL_ONES.decode()}]:65535", False)),
    (b"PROXY UNKNOWN\r\n", UNKNOWN),
    (b"PROXY UNKNOWN " + b" ".join([ALL_ONES] * 2) + b" 65535 65535\r\n", UNKNOWN),  # 107 octets
]
BAD = [
    version_2(0x22, 0x11, IPV4),
    version_2(0x11, 0x11, IPV4),
    version_2(0x21, 0x12, IPV4),
    version_2(0x21, 0x41, IPV4),
    version_2(0x21, 0x11, IPV4[:-1]),
    version_2(0x21, 0x21, IPV4),
    b"PROXY TCP4 192.0.2.1 198.51.100.1 4000\r\n",
    b"PROXY TCP4 192.0.2.1  198.51.100.1 4000 1883\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.1 4000 65536\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.1 04000 1883\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.1 -1 1883\r\n",
    b"PROXY TCP4 192.0.2.256 198.51.100.1 4000 1883\r\n",
    b"PROXY TCP4 ::1 ::1 4000 1883\r\n",
    b"PROXY TCP6 192.0.2.1 198.51.100.1 4000 1883\r\n",
    b"PROXY TCP5 192.0.2.1 198.51.100.1 4000 1883\r\n",
    b"PROXY UNKNOWNS\r\n",
    b"PROXY unknown\r\n",
    b"PROXY TCP4 localhost localhost 1 1\r\n",
]


def taken(octets: bytes) -> bytes:
    """What of the octets is the header, read as a connection reads it."""
    header = b""
    while count := missing_octets(header):
        more = octets[len(header) : len(header) + count]
        if not more:
            break
        header += more
    return header


@pytest.mark.parametrize(("header", "peer"), GOOD)
def test_a_header_announces_the_client_and_nothing_behind_it_is_taken(header: bytes, peer: Peer | None) -> None:
    for behind in (b"", b"\r\n", b"\x16\x03\x01", b"PROXY "):
        assert taken(header + behind) == header
    assert announced_peer(header) == peer


@pytest.mark.parametrize(("header", "_peer"), GOOD)
def test_no_more_is_asked_for_than_is_missing_wherever_a_header_is_cut(header: bytes, _peer: object) -> None:
    for at in range(min(len(header), 300)):
        assert 1 <= missing_octets(header[:at]) <= len(header) - at


@pytest.mark.parametrize("header", BAD)
def test_a_malformed_header_is_refused(header: bytes) -> None:
    assert taken(header) == header
    with pytest.raises(PeerError, match="PROXY header"):
        announced_peer(header)


@pytest.mark.parametrize(
    "octets",
    [b"\x10", b"GET / HTTP/1.1", b"proxy TCP4", b"PROXY\r\n", SIGNATURE[:11] + b"x", b"PROXY TCP4 " + b"1" * 97],
)
def test_what_begins_otherwise_is_refused_before_more_is_read(octets: bytes) -> None:
    with pytest.raises(PeerError, match="PROXY header"):
        missing_octets(octets)


@given(st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"]), st.binary(max_size=300))
def test_any_octets_give_a_peer_or_a_peer_error(start: bytes, rest: bytes) -> None:
    try:
        header = taken(start + rest)
        whole = missing_octets(header) == 0
        peer = announced_peer(header) if whole else UNKNOWN
    except PeerError:
        return
    assert peer is None or peer.name


# ---- what nodes tell each other


@given(
    st.one_of(
        st.tuples(st.ip_addresses(v=4), st.integers(1, 65_535)).map(lambda each: f"{each[0]}:{each[1]}"),
        st.tuples(st.ip_addresses(v=6), st.integers(1, 65_535)).map(lambda each: f"[{each[0]}]:{each[1]}"),
        st.just("unknown"),
    ),
    st.text(max_size=300),
)
def test_a_node_announces_a_client_as_it_is(name: str, identity: str) -> None:
    header = header_for(Peer(name, False), identity)
    assert missing_octets(header) == 0
    peer = announced_peer(header)
    assert peer is not None
    assert peer.name == name
    assert announced_identity(header) == identity


def test_an_identity_is_found_among_others() -> None:
    header = version_2(0x21, 0x11, IPV4 + TLV + b"\xe0\x00\x02me" + TLV)
    assert announced_identity(header) == "me"
    assert announced_identity(version_2(0x21, 0x11, IPV4 + TLV)) == ""


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        version_2(0x21, 0x99, b""),
        version_2(0x21, 0x11, IPV4 + b"\xe0"),
        version_2(0x21, 0x11, IPV4 + b"\xe0\x00"),
        version_2(0x21, 0x11, IPV4 + b"\xe0\x00\x03me"),
        version_2(0x21, 0x11, IPV4 + b"\xe0\x00\x01\xff"),
    ],
)
def test_an_identity_that_cannot_be_read_is_an_error(header: bytes) -> None:
    with pytest.raises(PeerError, match="PROXY header"):
        announced_identity(header)
