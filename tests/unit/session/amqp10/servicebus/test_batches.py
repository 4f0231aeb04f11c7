"""Batches: data sections with a message each."""

from __future__ import annotations

import pytest

from forebay.core.errors import PeerError
from forebay.session.amqp10.servicebus.batches import MESSAGES_MAX, split_batch


def data(octets: bytes) -> bytes:
    return b"\x00\x53\x75\xa0" + bytes([len(octets)]) + octets


def test_the_messages_of_a_batch() -> None:
    assert split_batch(data(b"one") + data(b"") + data(b"three")) == [b"one", b"", b"three"]


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00\x53\x77\xa1\x01x", b"\x00\x53\x75\xa0\xff", b"\x00\x53\x73\x45", data(b"") * (MESSAGES_MAX + 1)],
)
def test_what_is_no_batch(payload: bytes) -> None:
    with pytest.raises(PeerError):
        split_batch(payload)
