"""The codec of AMQP 1.0 under hostile octets: nothing but its own error comes out, and work grows with the octets."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from forebay.core.errors import PeerError
from forebay.core.message import AMQP091, AMQP10, MQTT
from forebay.message.formats.conversion import convert_content
from forebay.message.formats.table import format_of
from forebay.wire.amqp10.checker import check_value
from forebay.wire.amqp10.decoder import decode_value, value_end
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.frames import (
    AMQP_FRAME,
    SASL_FRAME,
    PerformativeReader,
    body_at,
    frame_end,
    performative_code,
)
from forebay.wire.amqp10.performatives import DISPOSITION, FLOW, TRANSFER, decode_performative
from forebay.wire.amqp10.sasl import decode_sasl
from forebay.wire.amqp10.sections import body_payload, check_sections, edited_map, list_field, value_at
from tests.examples import examples
from tests.fuzz.amqp10 import GROWING, HOSTILE_FRAMES, HOSTILE_MESSAGES, HOSTILE_VALUES, SEEDS, conversation, messages
from tests.fuzz.costs import LineCounter
from tests.fuzz.mutator import SPOILERS

FRAME_MAX: Final = 1 << 20
DEPTH: Final = 100
FORMAT: Final = format_of(AMQP10)
ROUNDS: Final = 20_000
TIMES: Final = 8
MORE: Final = 1.25
LEGAL_FRAMES: Final = {"a disposition of all", "a credit beyond all"}


def read_values(octets: bytes) -> None:
    """Read a value in every way."""
    end = value_end(octets, 0, len(octets))
    check_value(octets, 0, end, DEPTH)
    encode_value(decode_value(octets, 0, end, DEPTH))


def read_frames(octets: bytes) -> None:
    """Read frames as a session does, those of a login too."""
    reader = PerformativeReader(DEPTH)
    at = 0
    while at < len(octets):
        kind = SASL_FRAME if len(octets) > at + 5 and octets[at + 5] == SASL_FRAME else AMQP_FRAME
        end = frame_end(octets, at, FRAME_MAX, kind)
        if not end:
            return
        start = body_at(octets, at)
        at = end
        if kind == SASL_FRAME:
            decode_sasl(octets, start, end)
            continue
        if start == end:
            continue
        code = performative_code(octets, start, end)
        if code == TRANSFER:
            reader.read_transfer(octets, start, end)
        elif code == DISPOSITION:
            reader.read_disposition(octets, start, end)
        elif code == FLOW:
            reader.read_flow(octets, start, end)
        else:
            decode_performative(octets, start, end, DEPTH)


def read_sections(octets: bytes) -> None:
    """Read a message as a session and its readers do."""
    found = check_sections(octets, 0, len(octets), DEPTH)
    body_payload(octets, found)
    for at in (found.header, found.properties, found.message_annotations, found.application_properties):
        value_at(octets, at, found.end)
    list_field(octets, found.properties, found.end, 12)
    edited_map(octets, found.message_annotations, found.end, [b"x-a"], [])
    head, body = octets[: found.body_at], octets[found.body_at :]
    FORMAT.marks(head)
    FORMAT.headers(head)
    FORMAT.without_expiration(head)
    FORMAT.edit(head, [b"x-a"], [("x-b", 1)])
    for target in (AMQP091, MQTT):
        convert_content(AMQP10, head, body, target)


READERS: Final[tuple[Callable[[bytes], None], ...]] = (read_values, read_frames, read_sections)


def refusal_of(read: Callable[[bytes], None], octets: bytes) -> str:
    """What a reader has against the octets, "" for nothing. Any other error goes through."""
    try:
        read(octets)
    except PeerError as error:
        return error.text
    return ""


def test_good_octets_are_read() -> None:
    for octets in conversation():
        assert refusal_of(read_frames, octets) == ""
    for octets in messages():
        assert refusal_of(read_sections, octets) == ""


@pytest.mark.parametrize("name", [name for name in HOSTILE_VALUES if name != "a string of 255 in the short form"])
def test_hostile_values_are_refused(name: str) -> None:
    octets = HOSTILE_VALUES[name]
    with pytest.raises(PeerError):
        decode_value(octets, 0, len(octets), DEPTH)


@pytest.mark.parametrize(
    "name", [name for name in HOSTILE_FRAMES if name not in {"a disposition of all", "a credit beyond all"}]
)
def test_hostile_frames_are_refused(name: str) -> None:
    assert refusal_of(read_frames, HOSTILE_FRAMES[name]) != ""


@pytest.mark.parametrize("name", sorted(LEGAL_FRAMES))
def test_frames_that_only_sessions_can_refuse_are_read(name: str) -> None:
    assert refusal_of(read_frames, HOSTILE_FRAMES[name]) == ""


@pytest.mark.parametrize("name", [name for name in HOSTILE_MESSAGES if name != "no body"])
def test_hostile_messages_are_refused(name: str) -> None:
    assert refusal_of(read_sections, HOSTILE_MESSAGES[name]) != ""


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_octets_are_read_or_refused(seed: int) -> None:
    chance = Random(seed)
    for _ in range(examples(ROUNDS) // 4):
        octets = chance.choice(SEEDS)[:4096]
        for _ in range(chance.choice((0, 1, 1, 2, 5))):
            octets = chance.choice(SPOILERS)(chance, octets)
        if chance.random() < 0.1:
            octets += chance.choice(SEEDS)[:512]
        for read in READERS:
            refusal_of(read, octets)


def test_nothing_of_what_was_read_is_kept() -> None:
    octets = b"".join(messages())
    marker = bytes(bytearray(octets))
    holders = sys.getrefcount(marker)
    for read in READERS:
        for _ in range(5):
            refusal_of(read, marker)
    gc.collect()
    assert sys.getrefcount(marker) <= holders + 1  # the parameter of the last call in a traceback at most


@pytest.mark.parametrize("name", GROWING)
def test_eight_times_the_octets_are_eight_times_the_work(name: str) -> None:
    """On the compiled build no line of the codec is interpreted: there this only tries the inputs."""
    make = GROWING[name]
    lines = []
    for count in (200, 200 * TIMES):
        octets = make(count)
        with LineCounter() as counter:
            for read in READERS:
                refusal_of(read, octets)
        lines.append(counter.lines)
    assert lines[1] <= MORE * TIMES * lines[0] + 200
