"""Recordings: the octets of clients in real conversations with a held broker, frame by frame.

A conversation is a function that talks to the rig with the clients of the conformance tests. What it sends is kept in
its order over all its connections, and cut into frames, so that a mutation can be of a frame or of its octets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.fuzz.held import Held, HeldLine

AMQP, MQTT, BLOCKS = "amqp", "mqtt", "blocks"
PREFACES: Final = {AMQP: b"AMQP\x00\x00\x09\x01", BLOCKS: b"FBLK\x02\0\0\0"}
LOGIN_FRAMES: Final = {AMQP: 4, MQTT: 1, BLOCKS: 2}  # the preface among them
AUTH_PACKET: Final = 0xF0
Talk = Callable[[Held], None]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as its client sent it; empty: the client has gone.

    line   the connection, by its number in the recording
    login  without it the broker takes in nothing
    """

    line: int
    protocol: str
    octets: bytes
    login: bool = False


@dataclass(slots=True)
class Recording:
    """The frames of one conversation.

    listeners  to which each of its connections has come
    """

    name: str
    listeners: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)


class TapedLine(HeldLine):
    """A connection whose client is recorded."""

    __slots__ = ()

    def sendall(self, octets: bytes) -> None:
        assert isinstance(self.rig, Tape)
        self.rig.sent(self, octets)
        super().sendall(octets)

    def close(self) -> None:
        assert isinstance(self.rig, Tape)
        self.rig.sent(self, b"")
        super().close()


class Tape(Held):
    """A broker that records its clients."""

    line_type = TapedLine

    def __init__(self, **options: object) -> None:
        self.taped: list[tuple[TapedLine, bytes]] = []
        super().__init__(**options)

    def sent(self, line: TapedLine, octets: bytes) -> None:
        self.taped.append((line, octets))


def record(name: str, talk: Talk, options: Mapping[str, object]) -> Recording:
    """Have the conversation with a new broker of these options."""
    tape = Tape(**options)
    try:
        talk(tape)
        tape.settle()
    finally:
        tape.close()
    made = Recording(name)
    numbers: dict[TapedLine, int] = {}
    protocols: list[str] = []
    counts: list[int] = []
    ended: set[int] = set()
    for line, octets in tape.taped:
        number = numbers.setdefault(line, len(numbers))
        if number == len(made.listeners):
            made.listeners.append(line.default_protocol)
            protocols.append(protocol_of(octets))
            counts.append(0)
        if number in ended:
            continue
        if not octets:
            ended.add(number)
        for each in split(protocols[number], octets) if octets else [b""]:
            login = bool(octets) and is_login(protocols[number], counts[number], each)
            counts[number] += 1
            made.frames.append(Frame(number, protocols[number], each, login))
    return made


def protocol_of(octets: bytes) -> str:
    """The protocol that begins so."""
    for protocol, preface in PREFACES.items():
        if octets.startswith(preface[:4]):
            return protocol
    return MQTT


def is_login(protocol: str, number: int, octets: bytes) -> bool:
    """Whether this frame of a connection is part of its login."""
    return number < LOGIN_FRAMES[protocol] or (protocol == MQTT and number < 3 and octets[0] == AUTH_PACKET)


# ---- frames


def split(protocol: str, octets: bytes) -> list[bytes]:
    """The frames that these octets are; what is none comes last, as it is."""
    found: list[bytes] = []
    at = 0
    while at < len(octets):
        end = frame_end(protocol, octets, at)
        if not at < end <= len(octets):
            end = len(octets)
        found.append(octets[at:end])
        at = end
    return found


def frame_end(protocol: str, octets: bytes, at: int) -> int:
    """The end of the frame that begins there; 0 where that cannot be told."""
    preface = PREFACES.get(protocol, b"")
    if preface and octets.startswith(preface[:4], at):
        return at + 8
    if protocol == AMQP:
        return at + 8 + int.from_bytes(octets[at + 3 : at + 7], "big") if at + 7 <= len(octets) else 0
    if protocol == BLOCKS:
        return at + 8 + int.from_bytes(octets[at : at + 4], "little") if at + 8 <= len(octets) else 0
    length, shift = 0, 0
    for place in range(at + 1, min(at + 5, len(octets))):
        length |= (octets[place] & 127) << shift
        shift += 7
        if octets[place] < 128:
            return place + 1 + length
    return 0


def unwrap(protocol: str, frame: bytes) -> tuple[bytes, bytes] | None:
    """Head without its length, and payload; None where it is not one whole frame."""
    if frame_end(protocol, frame, 0) != len(frame) or frame[:4] in (b"AMQP", b"FBLK"):
        return None
    if protocol == AMQP:
        return frame[:3], frame[7:-1]
    if protocol == BLOCKS:
        return frame[4:8], frame[8:]
    octets = 1
    while frame[octets] > 127:
        octets += 1
    return frame[:1], frame[octets + 1 :]


def wrap(protocol: str, head: bytes, payload: bytes) -> bytes:
    """The frame of that head and payload."""
    if protocol == AMQP:
        return head + len(payload).to_bytes(4, "big") + payload + b"\xce"
    if protocol == BLOCKS:
        return len(payload).to_bytes(4, "little") + head + payload
    length, rest = b"", len(payload)
    while rest > 127:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return head + length + bytes([rest]) + payload


def record_all(talks: Mapping[str, Talk], options: Mapping[str, object]) -> Sequence[Recording]:
    """A recording of each, by its name."""
    return [record(name, talk, options) for name, talk in talks.items()]
