"""Addresses of clients."""

from __future__ import annotations

import pytest

from forebay.node.peer import Peer, peer_at


@pytest.mark.parametrize(
    ("host", "name", "loopback"),
    [
        ("127.0.0.1", "127.0.0.1:5", True),
        ("127.255.0.9", "127.255.0.9:5", True),
        ("10.0.0.1", "10.0.0.1:5", False),
        ("::1", "[::1]:5", True),
        ("::12", "[::12]:5", False),
        ("::ffff:127.0.0.1", "[::ffff:127.0.0.1]:5", True),
        ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:5", False),
        ("fe80::1%eth0", "[fe80::1%eth0]:5", False),
    ],
)
def test_an_address_is_on_this_machine_or_not(host: str, name: str, loopback: bool) -> None:
    assert peer_at(host, 5) == Peer(name, loopback)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="does not appear"):
        peer_at("localhost", 5)
