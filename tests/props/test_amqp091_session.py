"""The AMQP 0.9.1 session: whatever a client sends, and however it is cut, the session answers or closes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import method, number, publish, short, table
from tests.examples import examples
from tests.sessions import SessionRig

EXAMPLES = 60  # each makes stores on real files
LOGIN = raw.table(raw.CLIENT) + short("PLAIN") + raw.long("\0guest\0guest") + short("en_US")
OPENING = (
    raw.HEADER
    + method(0, raw.START_OK, LOGIN)
    + method(0, raw.TUNE_OK, number(10, 2) + number(4096, 4) + number(0, 2))
    + method(0, raw.OPEN, short("/") + b"\0\0")
    + method(1, raw.CHANNEL_OPEN, b"\0")
    + method(2, raw.CHANNEL_OPEN, b"\0")
)
CHANNEL = st.sampled_from([1, 1, 1, 2, 3])
REPLY_QUEUE = "amq.rabbitmq.reply-to"
NAME = st.sampled_from(["q", "s", "none", "", "$queue/q/a", REPLY_QUEUE, "$delayed/cancel/0"])
EXCHANGE = st.sampled_from(["", "", "amq.topic", "amq.headers", "none"])
PROPERTIES = st.sampled_from(
    [
        b"\0\0",
        b"\x80\0\x01t",
        b"\x20\0" + table({"a": 1}),
        b"\x01\0\x01x",
        b"\x20\0\0\0\0\x09",
        b"\x02\0" + short(REPLY_QUEUE),
        b"\x20\0" + raw.long(short("CC") + b"A" + raw.long(b"S" + raw.long("s"))),
        b"\x20\0" + table({"BCC": "no list"}),
        b"\x20\0" + table({"x-delay": 1}),
        b"\x20\0" + table({"x-delay": 60_000, "x-delay-id": "0"}),
        b"\x20\0" + table({"x-producer-id": "p", "x-sequence": 1}),
        b"\x20\0" + table({"x-deduplication-key": "k"}),
        b"\x20\0" + table({"x-sequence": 1}),
    ]
)
QUEUE_ARGUMENTS = st.sampled_from([{}, {}, {"x-queue-type": "stream"}])
CONSUME_ARGUMENTS = st.sampled_from([{}, {}, {"x-consumer-group": "g"}, {"x-stream-offset": "first"}])
TAG = st.sampled_from(["t", "u", ""])


def octet(most: int) -> st.SearchStrategy[bytes]:
    return st.integers(0, most).map(lambda value: bytes([value]))


def settlement() -> st.SearchStrategy[bytes]:
    tags = st.one_of(st.integers(0, 12), st.just((1 << 64) - 1)).map(lambda tag: number(tag, 8))
    return st.tuples(CHANNEL, st.sampled_from([raw.ACK, raw.ACK, raw.NACK, raw.REJECT]), tags, octet(3)).map(
        lambda parts: method(parts[0], parts[1], parts[2] + parts[3])
    )


REQUEST = st.one_of(
    st.tuples(CHANNEL, NAME, octet(15), QUEUE_ARGUMENTS).map(
        lambda p: method(p[0], raw.QUEUE_DECLARE, b"\0\0" + short(p[1]) + p[2] + table(p[3]))
    ),
    st.tuples(CHANNEL, NAME, st.binary(max_size=9000), EXCHANGE, PROPERTIES, st.booleans()).map(
        lambda p: publish(p[0], p[1], p[2], p[3], p[4], p[5], 4096)
    ),
    st.tuples(CHANNEL, NAME, TAG, octet(15), CONSUME_ARGUMENTS).map(
        lambda p: method(p[0], raw.CONSUME, b"\0\0" + short(p[1]) + short(p[2]) + p[3] + table(p[4]))
    ),
    settlement(),
    settlement(),
    st.tuples(CHANNEL, NAME).map(lambda p: method(p[0], raw.GET, b"\0\0" + short(p[1]) + b"\0")),
    st.tuples(CHANNEL, TAG).map(lambda p: method(p[0], raw.CANCEL, short(p[1]) + b"\0")),
    st.tuples(CHANNEL, st.integers(0, 3), octet(1)).map(
        lambda p: method(p[0], raw.QOS, b"\0\0\0\0" + number(p[1], 2) + p[2])
    ),
    st.tuples(CHANNEL, NAME).map(lambda p: method(p[0], (50, 30), b"\0\0" + short(p[1]) + b"\0")),
    st.tuples(CHANNEL, NAME).map(lambda p: method(p[0], (50, 40), b"\0\0" + short(p[1]) + b"\0")),
    st.tuples(CHANNEL, octet(1)).map(lambda p: method(p[0], raw.RECOVER, p[1])),
    CHANNEL.map(lambda channel: method(channel, raw.CONFIRM_SELECT, b"\0")),
    st.tuples(CHANNEL, st.sampled_from([10, 20, 30])).map(lambda p: method(p[0], (90, p[1]))),
    CHANNEL.map(lambda channel: method(channel, raw.CONSUME, b"\0\0" + short(REPLY_QUEUE) + b"\0\2" + table())),
    CHANNEL.map(lambda channel: method(channel, raw.CHANNEL_CLOSE_OK)),
    CHANNEL.map(lambda channel: method(channel, raw.CHANNEL_OPEN, b"\0")),
    CHANNEL.map(lambda channel: method(channel, raw.CHANNEL_CLOSE, number(200, 2) + b"\0\0\0\0\0")),
)
DECLARE = method(1, raw.QUEUE_DECLARE, b"\0\0" + short("q") + b"\0" + table())


def rig(folder: str) -> SessionRig:
    return SessionRig(folder, "amqp")


@settings(max_examples=examples(EXAMPLES))
@given(st.lists(st.lists(REQUEST, max_size=8), max_size=8))
def test_any_requests_are_answered_by_whole_frames(turns: list[list[bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = rig(folder)
        client.send(OPENING + DECLARE)
        for requests in turns:
            client.send(b"".join(requests))
            client.turn()
        client.close()
        rest = client.sent
        while rest:
            length = int.from_bytes(rest[3:7], "big")
            assert length <= 131072 - 8
            assert rest[7 + length] == 0xCE
            rest = rest[8 + length :]


@settings(max_examples=examples(EXAMPLES))
@given(st.lists(REQUEST, max_size=12), st.data())
def test_a_cut_in_the_input_changes_no_answer(requests: list[bytes], data: st.DataObject) -> None:
    octets = OPENING + DECLARE + b"".join(requests)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=20)))
    with tempfile.TemporaryDirectory() as folder:
        whole = rig(str(Path(folder) / "whole"))
        whole.send(octets)
        parts = rig(str(Path(folder) / "parts"))
        start = 0
        for cut in [*cuts, len(octets)]:
            parts.send(octets[start:cut])
            start = cut
        for client in (whole, parts):
            client.turn()
            client.close()
        assert parts.sent == whole.sent
        assert parts.session.closing == whole.session.closing


@settings(max_examples=examples(EXAMPLES))
@given(st.lists(REQUEST, min_size=1, max_size=6), st.data())
def test_damaged_octets_end_no_more_than_the_connection(requests: list[bytes], data: st.DataObject) -> None:
    octets = bytearray(b"".join(requests))
    for _ in range(data.draw(st.integers(1, 6))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        client = rig(folder)
        client.send(OPENING + DECLARE)
        client.send(bytes(octets))
        client.turn()
        client.send(data.draw(st.binary(max_size=40)))
        client.turn()
        client.close()


@settings(max_examples=examples(EXAMPLES))
@given(st.binary(max_size=80), st.integers(0, len(OPENING)))
def test_anything_in_the_handshake_is_answered(octets: bytes, start: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = rig(folder)
        client.send(OPENING[:start])
        client.send(octets)
        client.turn()
        client.session.tick(client.clock.us)
        client.close()
