"""What the standard leaves to whoever writes: encodings, extended headers, pipelining; and what it forbids."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10 import narrow
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DATA,
    DETACH,
    DISPOSITION,
    EMPTY_FRAME,
    END,
    FLOW,
    INIT,
    MECHANISMS,
    OPEN,
    OUTCOME,
    RECEIVER,
    SASL_HEADER,
    SENDER,
    TRANSFER,
    Described,
    Raw,
    Symbol,
    Ubyte,
    Uint,
    Ushort,
    attach,
    begin,
    begun,
    encode,
    flow,
    frame,
    message,
    opened,
    performative,
    publisher,
    sasl_plain,
    source,
    target,
    transfer,
)

QUEUE = "$queue/q"
FRAMING = "amqp:connection:framing-error"
DECODE = "amqp:decode-error"


@pytest.mark.parametrize("by_name", [False, True])
def test_the_narrowest_encodings_and_symbolic_descriptors(broker: AnyBroker, by_name: bool) -> None:
    """1.6 and 2.3: each type's encodings are alike, and a descriptor may be a symbol."""

    def put(code: int, *fields: Any, payload: bytes = b"", kind: int = 0) -> None:
        raw.send(narrow.performative(0, code, *fields, payload=payload, kind=kind, by_name=by_name))

    raw = Raw(broker)
    raw.send(SASL_HEADER)
    assert raw.read(8) == SASL_HEADER
    raw.expect(MECHANISMS, kind=1)
    put(INIT, Symbol("PLAIN"), b"\0guest\0guest", kind=1)
    assert raw.expect(OUTCOME, kind=1)[0] == 0
    raw.send(AMQP_HEADER)
    raw.read(8)
    put(OPEN, "c", None, Uint(4096), Ushort(10))
    raw.expect(OPEN)
    put(BEGIN, None, Uint(0), Uint(100), Uint(100))
    raw.expect(BEGIN)
    put(ATTACH, "s", Uint(0), SENDER, None, None, source(None), target(QUEUE), None, None, Uint(0))
    raw.expect(ATTACH)
    raw.flow(0)
    body = narrow.encode(Described(DATA, b"x"), by_name)
    put(TRANSFER, Uint(0), Uint(0), b"t", Uint(0), False, payload=body)
    assert raw.outcome() == (0, 0, ACCEPTED)
    put(ATTACH, "r", Uint(1), RECEIVER, Ubyte(0), None, source(QUEUE), target(None))
    raw.expect(ATTACH)
    put(FLOW, Uint(0), Uint(100), Uint(1), Uint(100), Uint(1), Uint(0), Uint(1))
    assert raw.delivery()[1][-1].value == b"x"
    put(DISPOSITION, True, Uint(0), None, True, Described(ACCEPTED, []))
    put(DETACH, Uint(1), True)
    assert raw.expect(DETACH)[1] is True
    put(END)
    assert raw.expect(END)[0] is None
    put(CLOSE)
    assert raw.expect(CLOSE)[0] is None
    assert raw.ended()


def test_an_extended_header_is_passed_over(broker: AnyBroker) -> None:
    """2.3.1: octets between the eighth and doff * 4 have no meaning here."""
    raw = begun(broker)
    body = encode(Described(FLOW, [Uint(0), Uint(10), Uint(0), Uint(10), *[None] * 5, True]))
    raw.send(struct.pack(">IBBH", 8 + 12 + len(body), 5, 0, 0) + b"extension..." + body)
    raw.flow(None)
    raw.send(struct.pack(">IBBH", 12, 3, 0, 0) + b"ext.")  # an empty frame with one
    raw.quiet_session()


def test_empty_frames_may_come_on_any_channel(broker: AnyBroker) -> None:
    """2.4.5: an empty frame says that the peer is there, and nothing of its channel."""
    raw = begun(broker)
    raw.send(EMPTY_FRAME, b"\x00\x00\x00\x08\x02\x00\x00\x07", EMPTY_FRAME)
    raw.quiet_session()


def test_a_conversation_that_waits_for_nothing(broker: AnyBroker) -> None:
    """2.4.2 and 2.4.4: all from open to close may be sent before an answer is read."""
    raw = Raw(broker)
    raw.send(
        sasl_plain(),
        AMQP_HEADER,
        opened(),
        begin(),
        publisher(QUEUE),
        performative(0, DETACH, Uint(0), True),
        performative(0, END),
        performative(0, CLOSE),
    )
    raw.read(8)
    raw.expect(MECHANISMS, kind=1)
    raw.expect(OUTCOME, kind=1)
    raw.read(8)
    for code in (OPEN, BEGIN, ATTACH):
        raw.expect(code)
    raw.flow(0)
    for code in (DETACH, END, CLOSE):
        raw.expect(code)
    assert raw.ended()


def test_a_close_with_an_error_is_answered_without_one(broker: AnyBroker) -> None:
    """2.4.3: whoever gets a close sends one."""
    raw = begun(broker)
    raw.send(performative(0, CLOSE, Described(0x1D, [Symbol("amqp:internal-error"), "mine"])))
    assert raw.expect(CLOSE)[0] is None
    assert raw.ended()


def test_after_an_error_all_but_close_is_passed_over(broker: AnyBroker) -> None:
    """2.4.6: DISCARDING until the peer's close."""
    raw = begun(broker)
    raw.send(frame(0, b"\x00\x53\x11\xff"), begin(3), publisher(QUEUE), frame(0, b"junk"), performative(0, CLOSE))
    assert raw.error(CLOSE)[0] == DECODE
    assert raw.ended()


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(frame(0, b"\x00\x53\x13", 0), id="ends in its constructor"),
        pytest.param(frame(0, b"\x00\x53\x13\xc0\x05\x00"), id="list is longer than the frame"),
        pytest.param(frame(0, b"\x00\x53\x13\xd0\xff\xff\xff\xff\xff\xff\xff\xff"), id="list of 4 GiB"),
        pytest.param(frame(0, b"\x00\x53\x13\xc0\x03\x02\x40\x40\x40"), id="size is greater than the elements"),
        pytest.param(frame(0, b"\x00\x53\x13\xc0\x01\x05"), id="count is greater than the elements"),
        pytest.param(frame(0, b"\x00\x53\x13\xc1\x03\x02\x40\x40"), id="a map instead of a list"),
        pytest.param(frame(0, b"\x00\x40\x45"), id="descriptor is null"),
        pytest.param(frame(0, b"\x00" * 200 + b"\x45"), id="descriptors of descriptors"),
        pytest.param(frame(0, b"\x00\x53\x13" + b"\xc0\x7f\x01" * 30), id="nested beyond the frame"),
        pytest.param(
            frame(0, b"\x00\x53\x12\xc0\x0a\x03" + b"\xa1\x02\xff\xfe" + b"\x43" + b"\x42" + b"\x40\x40"),
            id="a name that is no UTF-8, and a size that is not right",
        ),
        pytest.param(frame(0, b"\x00\x53\x13\xc0\x05\x04\x40\x56\x02\x40\x40"), id="a boolean of 2"),
        pytest.param(
            performative(0, ATTACH, "n", Uint(0), SENDER, *[None] * 10, {Symbol("a"): 1}, None), id="a field too many"
        ),
        pytest.param(performative(0, ATTACH, None, Uint(0), SENDER), id="a mandatory field is null"),
        pytest.param(performative(0, ATTACH, "n", Uint(0)), id="a mandatory field is left out"),
        pytest.param(performative(0, ATTACH, "n", "0", SENDER), id="a field of another type"),
        pytest.param(
            frame(0, b"\x00\x53\x13\xc0\x0b\x02\x43\xe0\x07\x04\x80\x00\x00\x00\x00\x00"), id="an array that ends early"
        ),
        pytest.param(
            frame(0, b"\x00\x53\x13\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40"), id="an array of 4294967295 nulls"
        ),
    ],
)
def test_octets_that_are_no_performative_close_the_connection(broker: AnyBroker, octets: bytes) -> None:
    """1.6 and 2.8.15: decode-error; a field that must be there may be named by invalid-field instead."""
    raw = begun(broker)
    raw.send(octets)
    assert raw.error(CLOSE)[0] in {DECODE, "amqp:invalid-field"}
    raw.send(performative(0, CLOSE))
    assert raw.ended()
    begun(broker).quiet_session()


def test_a_map_names_each_key_once(broker: AnyBroker) -> None:
    """1.6.23: a map with two keys that are equal is invalid."""
    raw = begun(broker)
    twice = b"\xc1\x0b\x04" + b"\xa3\x01k\x54\x01" * 2
    raw.send(frame(0, b"\x00\x53\x12\xc0" + bytes([len(twice) + 16, 14]) + b"\xa1\x01n\x43\x42" + b"\x40" * 10 + twice))
    assert raw.error(CLOSE)[0] == DECODE


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(opened(), id="an AMQP frame"),
        pytest.param(EMPTY_FRAME, id="an empty AMQP frame"),
        pytest.param(b"\x00\x00\x00\x08\x02\x01\x00\x00", id="an empty frame"),
        pytest.param(struct.pack(">IBBH", 1 << 20, 2, 1, 0), id="a frame of 1 MiB"),
        pytest.param(performative(0, 0x43, b"response", kind=1), id="a response to nothing"),
        pytest.param(performative(0, 0x44, Ubyte(0), kind=1), id="the client's own outcome"),
        pytest.param(frame(0, b"\x00\x53\x41\xc0\xff", 1), id="half a list"),
        pytest.param(performative(0, INIT, None, b"x", kind=1), id="an init without a mechanism"),
    ],
)
def test_during_the_login_nothing_else_is_spoken(broker: AnyBroker, octets: bytes) -> None:
    """5.3.1 and 5.3.2: only frames of SASL, none empty, and their order; nobody gets in by another way."""
    raw = Raw(broker)
    raw.send(SASL_HEADER, octets, AMQP_HEADER, opened())
    assert raw.read(8) == SASL_HEADER
    found = b""
    while more := received(raw):
        found += more
    assert b"\x00\x53\x10" not in found, "the connection was opened"


def received(raw: Raw) -> bytes:
    """What comes next; nothing where the broker has closed the connection."""
    try:
        return raw.socket.recv(65536)
    except ConnectionResetError:
        return b""


def test_a_sasl_frame_has_no_channel(broker: AnyBroker) -> None:
    """5.3.1: the octets of the channel and an extended header are ignored."""
    raw = Raw(broker)
    init = encode(Described(INIT, [Symbol("PLAIN"), b"\0guest\0guest", "host"]))
    raw.send(SASL_HEADER, struct.pack(">IBBH", 12 + len(init), 3, 1, 77) + b"ext." + init)
    raw.read(8)
    raw.expect(MECHANISMS, kind=1)
    assert raw.expect(OUTCOME, kind=1)[0] == 0


def test_frames_are_as_short_as_the_client_asks(broker: AnyBroker) -> None:
    """2.7.1: a peer must not send frames that are larger than its partner can handle; 512 must always do."""
    raw = Raw(broker)
    raw.open(None, Uint(512))
    raw.send(begin(), publisher(QUEUE))
    raw.expect(BEGIN)
    raw.expect(ATTACH)
    raw.flow(0)
    body = bytes(range(256)) * 20
    payload = message(body)
    raw.send(transfer(0, payload))  # the broker's own limit is another
    assert raw.outcome() == (0, 0, ACCEPTED)
    raw.send(attach("r", 1, RECEIVER, source(QUEUE), target(None)), flow(1, 1))
    raw.expect(ATTACH)
    pieces: list[bytes] = []
    more: Any = True
    while more:
        size = int.from_bytes(raw.read(4), "big")
        assert size <= 512, "a frame is too long"
        raw.rest = size.to_bytes(4, "big") + raw.rest
        _, _, code, fields, piece = raw.frame()
        assert code == TRANSFER
        pieces.append(piece)
        more = fields[5] if len(fields) > 5 else False
    assert body in b"".join(pieces)


def test_a_frame_longer_than_the_broker_said_closes_the_connection(broker: AnyBroker) -> None:
    """2.3: the receiver says how long a frame may be; what is longer is a framing error, before it has all come."""
    raw = Raw(broker)
    longest = raw.open()[2]
    raw.send(struct.pack(">IBBH", longest + 1, 2, 0, 0))
    assert raw.error(CLOSE)[0] == FRAMING


def test_a_payload_follows_transfers_alone(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(performative(0, FLOW, Uint(0), Uint(9), Uint(0), Uint(9), payload=b"payload"))
    assert raw.error(CLOSE)[0] in {FRAMING, DECODE}
