"""Frames of AMQP 1.0, and the performatives that every message passes, in every encoding that clients use."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.fields import ABSENT
from forebay.wire.amqp10.frames import (
    AMQP_HEADER,
    FRAME,
    HEARTBEAT_FRAME,
    SASL_FRAME,
    SASL_HEADER,
    TLS_HEADER,
    PerformativeReader,
    body_at,
    channel_of,
    encode_frame,
    frame_end,
    frame_octets,
    performative_code,
)
from forebay.wire.amqp10.outgoing import (
    ACCEPTED_STATE,
    LONG_OCTETS,
    NO_STATE,
    RELEASED_STATE,
    delivery_frames,
    first_head_octets,
    next_head_octets,
    put_delivery,
    put_disposition,
    put_flow,
)
from forebay.wire.amqp10.performatives import (
    ATTACH,
    DISPOSITION,
    FLOW,
    ROLE_RECEIVER,
    ROLE_SENDER,
    TRANSFER,
    Attach,
    Close,
    Disposition,
    Flow,
    Open,
    Transfer,
    decode_performative,
)
from forebay.wire.amqp10.sasl import SaslOutcome
from forebay.wire.amqp10.states import IS_ACCEPTED, IS_RELEASED, Accepted, Error, Modified, Rejected, TransactionalState
from forebay.wire.amqp10.values import Array, Composite, Described, Map, Symbol, Uint, Ulong
from tests.unit.wire.amqp10.test_performatives import (
    attributes,
    full_disposition,
    full_flow,
    full_transfer,
)

MAX = 131_072


def test_the_headers_are_those_of_the_standard() -> None:
    assert b"AMQP" + bytes([0, 1, 0, 0]) == AMQP_HEADER
    assert b"AMQP" + bytes([2, 1, 0, 0]) == TLS_HEADER
    assert b"AMQP" + bytes([3, 1, 0, 0]) == SASL_HEADER


def test_a_frame_is_found_once_it_is_complete() -> None:
    frame = encode_frame(513, Open("c"))
    octets = b"xx" + frame + frame
    for length in range(2, len(frame) + 2):
        assert frame_end(octets[:length], 2, MAX) == 0
    assert frame_end(octets, 2, MAX) == 2 + len(frame)
    assert frame_end(octets, 2 + len(frame), MAX) == len(octets)
    assert channel_of(octets, 2) == 513
    at = body_at(octets, 2)
    assert decode_performative(octets, at, 2 + len(frame)) == Open("c")
    assert [frame_octets(frame[:length]) for length in (0, 3, 4, 8)] == [0, 0, len(frame), len(frame)]


def test_an_extended_header_is_passed_over() -> None:
    body = encode_value(Open("c"))
    frame = (16 + len(body)).to_bytes(4, "big") + b"\x04\x00\x00\x01" + b"ignored!" + body
    assert frame_end(frame, 0, MAX) == len(frame)
    assert decode_performative(frame, body_at(frame, 0), len(frame)) == Open("c")


def test_a_heartbeat_has_no_body() -> None:
    assert frame_end(HEARTBEAT_FRAME, 0, 512) == 8
    assert body_at(HEARTBEAT_FRAME, 0) == 8


def test_a_frame_of_a_login_has_its_own_type() -> None:
    frame = encode_frame(0, SaslOutcome(0), SASL_FRAME)
    assert frame_end(frame, 0, 512, SASL_FRAME) == len(frame)
    with pytest.raises(PeerError, match="frame of type 1, not 0"):
        frame_end(frame, 0, 512)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("00000007", "frame of 7 octets"),
        ("00000000", "frame of 0 octets"),
        ("ffffffff", "frame of 4294967295 octets"),
        ("80000000", "frame of 2147483648 octets"),
        ("00020001", "frame of 131073 octets: at least 8, at most 131072"),
        ("0000000801000000", "cannot begin at octet 4"),
        ("0000000800000000", "cannot begin at octet 0"),
        ("0000000803000000", "cannot begin at octet 12"),
        ("0000010041000000", "cannot begin at octet 260"),
        ("0000000802020000", "frame of type 2"),
        ("414d5150", "frame of 1095586128 octets"),
    ],
)
def test_what_is_no_frame_is_refused_by_its_head(head: str, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        frame_end(bytes.fromhex(head), 0, MAX)
    assert caught.value.reason == FRAME


def test_the_code_of_a_performative_is_found_in_every_encoding() -> None:
    for octets, code in [
        (b"\x00\x53\x14\x45", TRANSFER),
        (b"\x00\x80\0\0\0\0\0\0\0\x13\x45", FLOW),
        (b"\x00\xa3\x10amqp:attach:list\x45", ATTACH),
        (b"\x00\xb3\0\0\0\x10amqp:attach:list\x45", ATTACH),
        (b"\x00\x80\x01\0\0\0\0\0\0\x13\x45", -1),
        (b"\x00\xa3\x01x\x45", -1),
        (b"\x00\x40\x45", -1),
    ]:
        assert performative_code(b"x" + octets, 1, 1 + len(octets)) == code
    for octets in (b"", b"\x45", b"\x00", b"\x00\x53", b"\x00\xa3\x05amqp"):
        with pytest.raises(PeerError):
            performative_code(octets, 0, len(octets))


# ---- reading what every message passes


def wide_list(code: int, fields: list[object]) -> bytes:
    """A performative with sizes of 32 bits."""
    items = b"".join(encode_value(each) for each in fields)
    return (
        b"\x00\x53"
        + bytes([code])
        + b"\xd0"
        + (4 + len(items)).to_bytes(4, "big")
        + len(fields).to_bytes(4, "big")
        + items
    )


def wide_uint(number: int) -> bytes:
    return b"\x70" + number.to_bytes(4, "big")


def encodings(each: Composite) -> list[bytes]:
    """The octets of a performative, as clients may write them."""
    fields = each.fields()
    long = Described(Ulong(int(each.code)), fields)
    name = f"amqp:{type(each).__name__.lower()}:list"
    return [
        encode_value(each),
        encode_value(long),
        wide_list(int(each.code), fields),
        encode_value(Described(Symbol(name), fields)),
        b"\x00\x80" + int(each.code).to_bytes(8, "big") + encode_value(fields),
    ]


def read(octets: bytes, code: int) -> tuple[Composite, int]:
    reader = PerformativeReader()
    for junk in (full_transfer(), full_flow(), full_disposition()):  # nothing of what was read before may stay
        one = encode_value(junk)
        if isinstance(junk, Transfer):
            reader.read_transfer(one, 0, len(one))
        elif isinstance(junk, Flow):
            reader.read_flow(one, 0, len(one))
        else:
            reader.read_disposition(one, 0, len(one))
    if code == TRANSFER:
        end = reader.read_transfer(b"zz" + octets, 2, 2 + len(octets)) - 2
        return reader.transfer, end
    if code == FLOW:
        reader.read_flow(b"zz" + octets, 2, 2 + len(octets))
        return reader.flow, len(octets)
    reader.read_disposition(b"zz" + octets, 2, 2 + len(octets))
    return reader.disposition, len(octets)


def transfers() -> list[Transfer]:
    first = Transfer()
    first.delivery_id, first.delivery_tag, first.message_format = 255, b"", 0
    settled = Transfer()
    settled.handle, settled.delivery_id, settled.delivery_tag = 256, 0xFFFFFFFF, b"t" * 32
    settled.message_format, settled.settled, settled.batchable = 0, True, True
    more = Transfer()
    more.more = True
    aborted = Transfer()
    aborted.aborted = True
    within = Transfer()
    within.state = TransactionalState(b"t", Accepted())
    return [Transfer(), first, settled, more, aborted, within, full_transfer()]


def flows() -> list[Flow]:
    session = Flow()
    session.next_incoming_id, session.incoming_window, session.outgoing_window = 0, 400, 0xFFFFFFFF
    link = Flow()
    link.next_incoming_id, link.handle, link.delivery_count, link.link_credit = 5, 0, 0, 100
    drained = Flow()
    drained.handle, drained.delivery_count, drained.link_credit, drained.drain, drained.echo = 1, 7, 0, True, True
    return [Flow(), session, link, drained, full_flow()]


def dispositions() -> list[Disposition]:
    made = []
    for state in (None, Accepted(), IS_RELEASED, Rejected(Error("amqp:not-found")), Modified(True), Symbol("odd")):
        for first, last in ((0, 0), (0, 255), (256, 0xFFFFFFFF)):
            each = Disposition()
            each.first, each.last, each.settled, each.state = first, last, last > 0, state
            each.role = ROLE_SENDER if first else ROLE_RECEIVER
            made.append(each)
    return [*made, full_disposition()]


@pytest.mark.parametrize("each", [*transfers(), *flows(), *dispositions()], ids=repr)
def test_every_encoding_of_what_every_message_passes_is_read(each: Composite) -> None:
    for octets in encodings(each):
        found, end = read(octets, int(each.code))
        assert attributes(found) == attributes(each)
        assert end == len(octets)


@pytest.mark.parametrize("each", transfers(), ids=repr)
def test_a_payload_follows_a_transfer(each: Transfer) -> None:
    for octets in encodings(each):
        payload = b"\x00\x53\x75\xa0\x01x" * 60
        found, end = read(octets + payload, TRANSFER)
        assert attributes(found) == attributes(each)
        assert end == len(octets)


@pytest.mark.parametrize(
    "each", [full_flow(), full_disposition(), full_transfer(), flows()[1], dispositions()[1]], ids=repr
)
def test_what_every_message_passes_is_refused_if_it_is_cut(each: Composite) -> None:
    for octets in encodings(each):
        for length in range(len(octets)):
            with pytest.raises(PeerError) as caught:
                read(octets[:length], int(each.code))
            assert caught.value.reason == MALFORMED


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ([], TRANSFER),
        ([None], TRANSFER),
        (["h"], TRANSFER),
        ([Uint(0), None, "tag"], TRANSFER),
        ([Uint(0), None, None, None, Uint(1)], TRANSFER),
        ([Uint(0)] + [None] * 11, TRANSFER),
        ([None, Uint(0), Uint(0)], FLOW),
        ([None, Uint(0), None, Uint(0)], FLOW),
        ([None, Uint(0), Uint(0), Uint(0), None, None, None, None, Uint(1)], FLOW),
        ([None, Uint(0), Uint(0), Uint(0)] + [None] * 8, FLOW),
        ([True], DISPOSITION),
        ([Uint(0), Uint(0)], DISPOSITION),
        ([True, None], DISPOSITION),
        ([True, Uint(0), True], DISPOSITION),
        ([True, Uint(0), None, None, Described(Ulong(0x24), [1])], DISPOSITION),
        ([True, Uint(0)] + [None] * 5, DISPOSITION),
    ],
)
def test_fields_of_another_type_or_none_are_refused(fields: list[object], code: int) -> None:
    for octets in (encode_value(Described(Ulong(code), fields)), wide_list(code, fields)):
        with pytest.raises(PeerError) as caught:
            read(octets, code)
        assert caught.value.reason == MALFORMED


def test_something_after_a_flow_or_disposition_is_refused() -> None:
    for each in (full_flow(), flows()[1], full_disposition(), dispositions()[1]):
        with pytest.raises(PeerError):
            read(encode_value(each) + b"\x40", int(each.code))


def test_another_performative_is_refused() -> None:
    octets = encode_value(Close())
    for code in (TRANSFER, FLOW, DISPOSITION):
        with pytest.raises(PeerError, match="is expected"):
            read(octets, code)


def test_sizes_that_lie_are_refused() -> None:
    for octets in (
        b"\x00\x53\x14\xc0\x04\x02\x43\x43",  # runs over
        b"\x00\x53\x14\xc0\x03\x01\x43\x43",  # a field that is not counted
        b"\x00\x53\x14\xc0\x02\x02\x43\x43",  # a field beyond the size
        b"\x00\x53\x14\xc0\x00\x00",
        b"\x00\x53\x14\xd0\xff\xff\xff\xff\x00\x00\x00\x01\x43",
        b"\x00\x53\x14\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x43",
        b"\x00\x53\x14\xc0\x04\x03\x43\x43\xa0",
        b"\x00\x53\x14\xc0\x05\x03\x43\x43\xa0\x05",
        b"\x00\x53\x14\xc0\x02\x01\x52\x05",
        b"\x00\x53\x14\xc0\x05\x01\x70\x00\x00\x00\x05",
    ):
        with pytest.raises(PeerError):
            read(octets, TRANSFER)


# ---- writing what every message passes


def frames_in(octets: bytes, frame_octets_max: int) -> list[tuple[int, bytes]]:
    """Channel and body of each frame."""
    found = []
    at = 0
    while at < len(octets):
        end = frame_end(octets, at, frame_octets_max)
        assert end > at
        found.append((channel_of(octets, at), octets[body_at(octets, at) : end]))
        at = end
    return found


@pytest.mark.parametrize("frame_octets_max", [512, 513, 4096, 131_072, 0xFFFFFFFF])
@pytest.mark.parametrize("octets", [0, 1, 200, 480, 490, 500, 4096, 5000, 200_000])
@pytest.mark.parametrize("state", [NO_STATE, encode_value(TransactionalState(b"t" * 32, Accepted()))])
def test_a_delivery_is_cut_into_frames(frame_octets_max: int, octets: int, state: bytes) -> None:
    payload = bytes(index % 251 for index in range(octets))
    for handle, delivery_id, tag, cut in (
        (0, 0, b"", 0),
        (255, 256, b"t" * 32, octets // 3),
        (256, 0xFFFFFFFF, b"1", octets),
    ):
        out = BytesWriter()
        count = put_delivery(
            out, 7, handle, delivery_id, tag, True, payload[:cut], payload[cut:], frame_octets_max, state
        )
        frames = frames_in(out.getvalue(), frame_octets_max)
        assert len(frames) == count
        first = first_head_octets(handle, delivery_id, tag, state)
        assert count == delivery_frames(octets, first, next_head_octets(handle), frame_octets_max)
        found = b""
        for index, (channel, body) in enumerate(frames):
            reader = PerformativeReader()
            at = reader.read_transfer(body, 0, len(body))
            read = reader.transfer
            assert channel == 7
            assert read.handle == handle
            assert read.more == (index + 1 < count)
            assert read.delivery_id == (delivery_id if index == 0 else ABSENT)
            assert read.delivery_tag == (tag if index == 0 else None)
            assert read.settled == (index == 0)
            assert decode_performative(body, 0, at) == read
            if index == 0:
                assert read.message_format == 0
                assert read.state == (TransactionalState(b"t" * 32, Accepted()) if state else None)
            found += body[at:]
        assert found == payload


@pytest.mark.parametrize("sections", [b"", b"s" * 100, b"s" * 131_072])
def test_a_long_body_is_not_copied(sections: bytes) -> None:
    body = bytes(LONG_OCTETS + 5)
    out = BytesWriter()
    out.write(b"before")
    parts: list[bytes | memoryview] = []
    count = put_delivery(out, 1, 2, 3, b"t", False, sections, body, MAX, NO_STATE, parts)
    written = b"".join([*parts, out.getvalue()])
    assert written.startswith(b"before")
    frames = frames_in(written[6:], MAX)
    assert len(frames) == count
    found = b""
    for index, (_, frame) in enumerate(frames):
        reader = PerformativeReader()
        at = reader.read_transfer(frame, 0, len(frame))
        assert reader.transfer.more == (index + 1 < count)
        found += frame[at:]
    assert found == sections + body
    assert any(isinstance(part, memoryview) for part in parts) == (len(sections) < MAX)


@pytest.mark.parametrize(
    "state", [NO_STATE, ACCEPTED_STATE, RELEASED_STATE, encode_value(Rejected(Error("c", "d" * 500)))]
)
def test_dispositions_are_written(state: bytes) -> None:
    for first, last in ((0, 0), (0, 1), (255, 256), (0xFFFFFFFE, 0xFFFFFFFF)):
        out = BytesWriter()
        put_disposition(out, 300, ROLE_RECEIVER, first, last, True, state)
        put_disposition(out, 300, ROLE_SENDER, first, last, False, state)
        for (channel, body), role in zip(frames_in(out.getvalue(), MAX), (ROLE_RECEIVER, ROLE_SENDER), strict=True):
            found = decode_performative(body, 0, len(body))
            assert isinstance(found, Disposition)
            assert channel == 300
            assert (found.role, found.first, found.last, found.settled) == (role, first, last, role)
            assert (b"" if found.state is None else encode_value(found.state)) == state
    assert encode_value(IS_ACCEPTED) == ACCEPTED_STATE
    assert encode_value(IS_RELEASED) == RELEASED_STATE


@pytest.mark.parametrize("each", flows(), ids=repr)
def test_flows_are_written(each: Flow) -> None:
    each.properties = each.properties and {**each.properties, "more": Map([("k", "x" * 300)])}
    out = BytesWriter()
    put_flow(out, 2, each)
    ((channel, body),) = frames_in(out.getvalue(), MAX)
    assert channel == 2
    assert attributes(decode_performative(body, 0, len(body))) == attributes(each)


def test_a_frame_holds_any_performative() -> None:
    made = Attach("l", 1, ROLE_SENDER)
    made.properties = {"a": Array(0x70, [Uint(1)])}
    ((channel, body),) = frames_in(encode_frame(65535, made), MAX)
    assert channel == 65535
    assert decode_performative(body, 0, len(body)) == made
