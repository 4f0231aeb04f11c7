"""Messages and options of CoAP: round trips, and octets that are none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MALFORMED, NOT_IMPLEMENTED, PeerError
from forebay.wire.coap.answer import CHANGED, CONTENT, CoapAnswer
from forebay.wire.coap.message import (
    OPTION_NUMBER_MAX,
    OPTIONS_MAX,
    CoapMessage,
    code_text,
    decode_message,
    decode_number,
    encode_message,
    encode_number,
)
from forebay.wire.coap.request import BLOCK1, URI_PATH, BlockOption, decode_block, read_request
from tests.conformance.coap import raw

OPTIONS = st.lists(st.tuples(st.integers(0, OPTION_NUMBER_MAX), st.binary(max_size=700)), max_size=OPTIONS_MAX).map(
    lambda options: sorted(options, key=lambda each: each[0])
)
MESSAGES = st.builds(
    CoapMessage,
    st.integers(0, 3),
    st.integers(1, 255),
    st.integers(0, 65_535),
    st.binary(max_size=8),
    OPTIONS,
    st.binary(max_size=100),
)


def fields(message: CoapMessage) -> tuple[object, ...]:
    return (message.type, message.code, message.message_id, message.token, message.options, message.payload)


def decoded(octets: bytes) -> CoapMessage | None:
    """The message; None if the octets are refused."""
    with suppress(PeerError):
        return decode_message(octets)
    return None


@given(MESSAGES)
def test_what_is_encoded_is_decoded(message: CoapMessage) -> None:
    octets = encode_message(message)
    assert fields(decode_message(octets)) == fields(message)
    own = raw.decode(octets)
    assert (own.type, own.code, own.message_id, own.token, own.options, own.payload) == fields(message)
    assert raw.encode(own) == octets


@given(st.binary(max_size=300))
def test_any_octets_are_a_message_or_refused(octets: bytes) -> None:
    message = decoded(octets)
    if message is not None:
        assert fields(decode_message(encode_message(message))) == fields(message)
        read_request(message)


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_off_is_refused_or_a_shorter_one(message: CoapMessage, data: st.DataObject) -> None:
    octets = encode_message(message)
    end = data.draw(st.integers(0, len(octets)))
    found = decoded(octets[:end])
    assert found is None or len(encode_message(found)) == end


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", MALFORMED),
        (b"\x40\1\0", MALFORMED),
        (b"\x49\1\0\0" + bytes(9), MALFORMED),
        (b"\x42\1\0\0a", MALFORMED),
        (b"\x41\0\0\0a", MALFORMED),
        (b"\x40\1\0\0\xff", MALFORMED),
        (b"\x40\1\0\0\xf1a", MALFORMED),
        (b"\x40\1\0\0\x1fa", MALFORMED),
        (b"\x40\1\0\0\xe0\xff\xff", MALFORMED),
        (b"\x40\1\0\0" + b"\0" * (OPTIONS_MAX + 1), MALFORMED),
        (b"\x80\1\0\0", NOT_IMPLEMENTED),
    ],
)
def test_what_is_no_message_is_refused(octets: bytes, reason: str) -> None:
    with pytest.raises(PeerError) as found:
        decode_message(octets)
    assert found.value.reason == reason


@given(st.integers(0, 2**32 - 1))
def test_numbers_have_no_leading_zeros(value: int) -> None:
    octets = encode_number(value)
    assert decode_number(octets) == value
    assert not octets.startswith(b"\0")


@given(st.integers(0, (1 << 20) - 1), st.booleans(), st.integers(0, 6))
def test_blocks(number: int, more: bool, exponent: int) -> None:
    found = decode_block(BlockOption(number, more, exponent).value())
    assert (found.number, found.more, found.exponent, found.octets) == (number, more, exponent, 16 << exponent)


def test_only_the_first_wrong_option_is_named() -> None:
    message = CoapMessage(0, 1, 1, b"", [(URI_PATH, b"a"), (BLOCK1, b"\7"), (65_001, b"")])
    assert read_request(message).bad_option == BLOCK1


def test_an_answer_has_its_options_in_order() -> None:
    answer = CoapAnswer(CONTENT, b"x", 50)
    answer.observe = answer.max_age = answer.size2 = answer.size1 = 1
    answer.block1 = answer.block2 = BlockOption(0, True, 0)
    answer.etag = answer.echo = b"e"
    numbers = [number for number, _ in answer.message(0, 1, b"t").options]
    assert numbers == sorted(numbers) and len(numbers) == 9
    assert not answer.is_error() and CoapAnswer(128).is_error()
    assert code_text(CHANGED) == "2.04"
