r"""The PROXY header: what a proxy says, in front of all else, about the client for whom it connects.

Version 1, one line of ASCII of at most 107 octets:

    PROXY TCP4|TCP6 <source> <destination> <source port> <destination port>\r\n
    PROXY UNKNOWN[ anything]\r\n

Version 2, binary, big-endian:

    12   signature  0d 0a 0d 0a 00 0d 0a 51 55 49 54 0a
     1   version (2) << 4 | command: 0 LOCAL, 1 PROXY
     1   family << 4 | transport: 00 unspecified, 11 TCP over IPv4, 21 TCP over IPv6, 31 UNIX stream
     2   octets that follow
     n   source, destination (4 or 16 octets each), source port, destination port (2 each); then TLVs

A TLV is a type (1 octet), a length (2) and octets. All are skipped but one, between nodes of a cluster alone:

    e0   who the client is by its certificate, UTF-8

Specification: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from forebay.core.errors import MALFORMED, PeerError
from forebay.node.peer import UNKNOWN, Peer, peer_at, split_name

FIRST_OCTETS: Final = 12  # no header is shorter, and they tell the versions apart
V1: Final = b"PROXY "
V1_OCTETS_MAX: Final = 107
V1_UNKNOWN: Final = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*)?\r\n")
V1_LINE: Final = re.compile(rb"PROXY TCP([46]) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+) (0|[1-9]\d{0,4}) (0|[1-9]\d{0,4})\r\n")
V2: Final = b"\r\n\r\n\0\r\nQUIT\n"
V2_HEAD_OCTETS: Final = 16
LOCAL: Final = 0x20
PROXY: Final = 0x21
UNSPECIFIED: Final = 0x00
TCP4: Final = 0x11
TCP6: Final = 0x21
UNIX: Final = 0x31
IDENTITY: Final = 0xE0  # of the types that everybody may use as he likes
# Octets of the addresses by family.
ADDRESS_OCTETS: Final = {UNSPECIFIED: 0, TCP4: 12, TCP6: 36, UNIX: 216}
PORT_MAX: Final = 65_535


def missing_octets(head: bytes) -> int:
    """Return the number of octets missing of a header that begins with `head`, or a lower bound if that is unknown.

    Never too many: what follows the header belongs to TLS or to the protocol.
    raises  PeerError: no header begins so
    """
    if not head.startswith(V1[: len(head)]) and not head.startswith(V2[: len(head)]):
        raise malformed(f"it begins with {head[:FIRST_OCTETS]!r}")
    if len(head) < FIRST_OCTETS:
        return FIRST_OCTETS - len(head)
    if head.startswith(V2):
        if len(head) < V2_HEAD_OCTETS:
            return V2_HEAD_OCTETS - len(head)
        return V2_HEAD_OCTETS + int.from_bytes(head[14:16], "big") - len(head)
    if head.endswith(b"\r\n"):
        return 0
    if len(head) >= V1_OCTETS_MAX:
        raise malformed(f"a line longer than {V1_OCTETS_MAX} octets")
    return 1 if head.endswith(b"\r") or len(head) == V1_OCTETS_MAX - 1 else 2


def announced_peer(header: bytes) -> Peer | None:
    """Return the client that a whole header announces; None if the proxy speaks for itself.

    A client whose address the header does not tell is on no known machine: it is never a loopback one.
    raises  PeerError: the header is malformed
    """
    return _version_2(header) if header.startswith(V2) else _version_1(header)


def header_for(peer: Peer, identity: str) -> bytes:
    """Encode the version 2 header by which a node announces a client to another, with its certificate's name."""
    host, port = split_name(peer.name)
    family, addresses = UNSPECIFIED, b""
    if port:
        address = ip_address(host.partition("%")[0])
        family = TCP4 if address.version == 4 else TCP6
        # Nobody asks for the destination: it is that of the node where the client came.
        addresses = address.packed + bytes(len(address.packed)) + port.to_bytes(2, "big") + bytes(2)
    name = identity.encode()
    if name:
        addresses += bytes((IDENTITY,)) + len(name).to_bytes(2, "big") + name
    return V2 + bytes((PROXY, family)) + len(addresses).to_bytes(2, "big") + addresses


def announced_identity(header: bytes) -> str:
    """Return the client's name by its certificate from a whole header of another node; empty if it has none.

    raises  PeerError: the header is malformed
    """
    if not header.startswith(V2) or header[13] not in ADDRESS_OCTETS:
        raise malformed("not one of a node")
    at = V2_HEAD_OCTETS + ADDRESS_OCTETS[header[13]]
    while at < len(header):
        length = int.from_bytes(header[at + 1 : at + 3], "big")
        value = header[at + 3 : at + 3 + length]
        if len(value) < length or at + 3 > len(header):
            raise malformed("it ends within a TLV")
        if header[at] == IDENTITY:
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise malformed(f"identity {value!r}") from None
        at += 3 + length
    return ""


def malformed(text: str) -> PeerError:
    """Build the error for a PROXY header that is missing or cannot be read."""
    return PeerError(MALFORMED, f"PROXY header: {text}")


def _version_1(header: bytes) -> Peer:
    if V1_UNKNOWN.fullmatch(header):
        return UNKNOWN
    line = V1_LINE.fullmatch(header)
    if line is None:
        raise malformed(f"{header!r}")
    family, source, destination, source_port, destination_port = (part.decode("ascii") for part in line.groups())
    address = IPv4Address if family == "4" else IPv6Address
    try:
        host = str(address(source))
        address(destination)
    except ValueError as error:
        raise malformed(str(error)) from None
    if max(int(source_port), int(destination_port)) > PORT_MAX:
        raise malformed(f"{header!r}")
    return peer_at(host, int(source_port))


def _version_2(header: bytes) -> Peer | None:
    command, family = header[12], header[13]
    if command == LOCAL:
        return None
    if command != PROXY:
        raise malformed(f"version and command {command:#04x}")
    octets = ADDRESS_OCTETS.get(family)
    if octets is None:
        raise malformed(f"family and transport {family:#04x}")
    body = header[V2_HEAD_OCTETS:]
    if len(body) < octets:
        raise malformed(f"{len(body)} octets of addresses, family and transport {family:#04x} have {octets}")
    if family == TCP4:
        return peer_at(str(IPv4Address(body[:4])), int.from_bytes(body[8:10], "big"))
    if family == TCP6:
        return peer_at(str(IPv6Address(body[:16])), int.from_bytes(body[32:34], "big"))
    return UNKNOWN
