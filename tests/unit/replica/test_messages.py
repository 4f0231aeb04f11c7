"""Messages between members: round trips, and every cut, length and number that cannot be is refused."""

from __future__ import annotations

import pytest

from forebay.core.errors import PeerError
from forebay.log.shipment import Shipment
from forebay.replica.messages import (
    Acknowledgement,
    Append,
    CopyAsk,
    CopyGrant,
    CopyOffer,
    Heartbeat,
    HeartbeatAnswer,
    PeerMessage,
    RefusedEpoch,
    RewriteOrder,
    RunsDiffer,
    decode_message,
    encode_message,
)

STORE = "00112233445566778899aabbccddeeff"
HEAD = bytes(range(32))


def shipment(first: int, last: int, octets: bytes = b"frames", first_epoch: int = 3, last_epoch: int = 4) -> Shipment:
    return Shipment(HEAD, 4096, first, last, first_epoch, last_epoch, octets)


MESSAGES: list[PeerMessage] = [
    Heartbeat(4, 12_345_678, 99),
    HeartbeatAnswer(4, 12_345_678, STORE),
    Append(4, 7, 3, 5, [shipment(8, 9), shipment(10, 12, b"", 4, 4)]),
    Append(4, 0, 0, 0, []),
    Acknowledgement(4, 12, STORE),
    RunsDiffer(4, STORE, [(3, 5, 9), (1, 1, 4)]),
    RunsDiffer(4, STORE, []),
    RefusedEpoch(5),
    RewriteOrder(4, 17, {3: [(0, 10), (12, 13)], 9: []}),
    CopyOffer(4),
    CopyAsk(4, STORE),
    CopyGrant(4, STORE),
]


def fields(message: object) -> object:
    """Of a message and all in it, for comparison."""
    if isinstance(message, PeerMessage | Shipment):
        names = [name for name in dir(message) if not name.startswith("_")]
        return (type(message).__name__, [(name, fields(getattr(message, name))) for name in names])
    return [fields(each) for each in message] if isinstance(message, list) else message


@pytest.mark.parametrize("message", MESSAGES)
def test_what_is_said_is_heard(message: PeerMessage) -> None:
    assert fields(decode_message(encode_message(message))) == fields(message)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_cut_anywhere_is_refused(message: PeerMessage) -> None:
    octets = encode_message(message)
    for end in range(len(octets)):
        with pytest.raises(PeerError):
            decode_message(octets[:end])


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_is_too_long_is_refused(message: PeerMessage) -> None:
    with pytest.raises(PeerError, match="too many"):
        decode_message(encode_message(message) + b"\0")


@pytest.mark.parametrize("message", MESSAGES)
def test_any_octet_may_be_any_other(message: PeerMessage) -> None:
    octets = encode_message(message)
    for at in range(len(octets)):
        for value in (0, 0x7F, 0xFF):
            try:
                found = decode_message(octets[:at] + bytes([value]) + octets[at + 1 :])
            except PeerError:
                continue
            assert isinstance(found, PeerMessage)


def test_another_version_is_refused_by_name() -> None:
    with pytest.raises(PeerError, match="version 2 of a message"):
        decode_message(b"\x02" + encode_message(CopyOffer(1))[1:])


def test_a_kind_that_nobody_knows_is_refused() -> None:
    with pytest.raises(PeerError, match="kind 77"):
        decode_message(b"\x01\x4d" + encode_message(CopyOffer(1))[2:])


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Heartbeat(-1, 0, 0), "epoch is -1"),
        (Heartbeat(1, -5, 0), "sent is -5"),
        (Acknowledgement(1, -2, STORE), "lsn is -2"),
        (Append(4, 7, 5, 0, []), "prev_epoch is 5"),
        (Append(4, 0, 3, 0, []), "prev_epoch is 3"),
        (Append(4, 7, 3, 0, [shipment(9, 9)]), "frames 9 to 9 do not follow LSN 7"),
        (Append(4, 7, 3, 0, [shipment(8, 7)]), "frames 8 to 7"),
        (Append(4, 7, 3, 0, [shipment(8, 8), shipment(10, 10)]), "frames 10 to 10 do not follow LSN 8"),
        (Append(4, 7, 4, 0, [shipment(8, 8)]), "epochs 3 to 4 follow 4"),
        (Append(4, 7, 3, 0, [shipment(8, 8, b"", 4, 3)]), "epochs 4 to 3"),
        (Append(4, 7, 3, 0, [shipment(8, 8, b"", 3, 5)]), "epochs 3 to 5"),
        (RunsDiffer(4, STORE, [(1, 0, 4)]), "from 0 to 4"),
        (RunsDiffer(4, STORE, [(1, 5, 4)]), "from 5 to 4"),
        (RewriteOrder(4, 1, {2: [(5, 5)]}), "from 5 to 5 is empty"),
        (RewriteOrder(4, 1, {2: [(5, 8), (7, 9)]}), "begins at 7, before 8"),
    ],
)
def test_what_cannot_be_is_refused(message: PeerMessage, told: str) -> None:
    with pytest.raises(PeerError) as refused:
        decode_message(encode_message(message))
    assert told in str(refused.value)


def test_a_length_that_is_not_there_is_refused() -> None:
    octets = encode_message(Append(4, 7, 3, 5, [shipment(8, 9)]))
    at = 48 + 72
    for length in (1 << 62, -1, 7):
        spoilt = octets[:at] + length.to_bytes(8, "little", signed=True) + octets[at + 8 :]
        with pytest.raises(PeerError):
            decode_message(spoilt)


def test_a_log_of_many_epochs_says_the_newest() -> None:
    runs = [(2000 - number, 4001 - 2 * number, 4002 - 2 * number) for number in range(2000)]
    heard = decode_message(encode_message(RunsDiffer(4, STORE, runs)))
    assert isinstance(heard, RunsDiffer)
    assert heard.runs == runs[:1024]
