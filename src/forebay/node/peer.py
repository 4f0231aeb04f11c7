"""The other end of a connection."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final


@dataclass(frozen=True, slots=True)
class Peer:
    """The client's address.

    name      address and port, for people
    loopback  whether the client is on this very machine
    """

    name: str
    loopback: bool


UNKNOWN: Final = Peer("unknown", False)


def peer_at(host: str, port: int) -> Peer:
    """Return the peer of an address, as `getpeername` or a PROXY header writes it.

    raises  ValueError: `host` is no address
    """
    address = ip_address(host)
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped
        return Peer(f"[{host}]:{port}", address.is_loopback or (inner is not None and inner.is_loopback))
    return Peer(f"{host}:{port}", address.is_loopback)


def split_name(name: str) -> tuple[str, int]:
    """Split a peer's name into address and port. An unknown peer has neither."""
    host, _, port = name.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
