"""GivenGrants as a follower keeps them."""

from __future__ import annotations

import pytest

from forebay.core.errors import PeerError
from forebay.server.cluster.reads.grants import (
    GRANT,
    GRANTS_MAX,
    TAKEN_WITHIN_US,
    GivenGrants,
    Grant,
    decode_grant,
    encode_grant,
)

NAME = b"\xff not UTF-8"


def grant(token: str = "t") -> Grant:
    return Grant(token, 7, NAME, 10, 20, 99)


def test_a_grant_is_taken_once() -> None:
    grants = GivenGrants()
    grants.add(grant(), 0)
    assert grants.take("other", 0) is None
    assert grants.take("t", 0) == grant()
    assert grants.take("t", 0) is None and not grants.given


def test_one_that_nobody_takes_ends() -> None:
    grants = GivenGrants()
    grants.add(grant("old"), 0)
    grants.add(grant("new"), 1)
    grants.end_old(TAKEN_WITHIN_US - 1)
    assert list(grants.given) == ["old", "new"]
    assert grants.take("old", TAKEN_WITHIN_US) is None
    assert list(grants.given) == ["new"]


def test_one_that_is_given_again_lasts_from_then_on() -> None:
    grants = GivenGrants()
    grants.add(grant("a"), 0)
    grants.add(grant("b"), 1)
    grants.add(grant("a"), 2)
    grants.end_old(TAKEN_WITHIN_US + 1)
    assert list(grants.given) == ["a"]


def test_where_there_are_too_many_the_oldest_ends() -> None:
    grants = GivenGrants()
    for number in range(GRANTS_MAX + 5):
        grants.add(grant(str(number)), 0)
    assert len(grants.given) == GRANTS_MAX
    assert grants.take("4", 0) is None and grants.take("5", 0) is not None


def test_a_message_is_a_grant_or_an_error() -> None:
    assert decode_grant(encode_grant(grant())) == grant()
    for octets in (b"", b"{", b"[]", b'{"token": 1}', encode_grant(grant())[1:-1]):
        with pytest.raises(PeerError, match="a grant that is none"):
            decode_grant(bytes((GRANT,)) + octets)
