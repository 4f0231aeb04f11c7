"""SASL responses."""

import pytest

from forebay.core.errors import PeerError, RequestError
from forebay.session.amqp091.sasl import parse_response


def test_plain() -> None:
    assert parse_response(b"PLAIN", b"\0user\0pass") == ("user", "pass")
    assert parse_response(b"PLAIN", b"user\0user\0") == ("user", "")
    assert parse_response(b"PLAIN", "\0é\0ü".encode()) == ("é", "ü")
    assert parse_response(b"PLAIN", b"\0\xff\0\xfe") == ("\udcff", "\udcfe")


@pytest.mark.parametrize("response", [b"", b"user", b"\0user", b"\0user\0pass\0more"])
def test_plain_that_is_none(response: bytes) -> None:
    with pytest.raises(PeerError, match="PLAIN response has"):
        parse_response(b"PLAIN", response)


def test_nobody_acts_for_somebody_else() -> None:
    with pytest.raises(RequestError, match="user 'user' may not act for somebody else"):
        parse_response(b"PLAIN", b"root\0user\0pass")


def test_amqplain() -> None:
    response = b"\x05LOGINS\0\0\0\x04user\x08PASSWORDS\0\0\0\x04pass"
    assert parse_response(b"AMQPLAIN", response) == ("user", "pass")
    for octets in (b"", response[:15], response.replace(b"PASSWORDS", b"PASSWORDx"), response[:-1]):
        with pytest.raises(PeerError):
            parse_response(b"AMQPLAIN", octets)
