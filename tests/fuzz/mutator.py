"""Inputs: recordings that chance has spoilt, put together and cut anew.

What is spoilt is a sequence of frames over several connections. A frame may go, come twice or elsewhere, be another
recording's or one that chance has made; its octets may change with or without the length that is said of them. Then
the octets are cut into reads, and between these connections break, readers stop, and time goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.conformance.mqtt.raw import V5
from tests.fuzz import amqp, blocks, mqtt
from tests.fuzz.recorder import AMQP, BLOCKS, LOGIN_FRAMES, MQTT, Frame, Recording, split, unwrap, wrap

# Kinds of steps.
OCTETS, LOST, STUFFED, DRAINED, LATER = "octets", "lost", "stuffed", "drained", "later"
LOGIN_SPOILT: Final = 0.1
LONG: Final = 0.001
LINES_MAX: Final = 6
FRAMES_MAX: Final = 200
READS_MAX: Final = 64  # of one frame that comes octet by octet
EXTREMES: Final = (b"\0", b"\xff", b"\x7f", b"\x80", b"\x01")
WIDTHS: Final = (1, 1, 2, 4, 8)
SECONDS: Final = (0.1, 0.1, 1, 1, 5, 60, 1_000_000)
DEEP: Final = 3000
FIRST_OCTETS: Final = 8  # of a frame: where its lengths are


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens to a connection.

    octets   of a read
    seconds  that go by, where it is LATER
    settles  the broker has done everything that is to be done before the next step
    """

    line: int
    kind: str
    octets: bytes = b""
    seconds: float = 0
    settles: bool = True


@dataclass(frozen=True, slots=True)
class Input:
    """Connections by their listeners, and what happens to them."""

    listeners: tuple[str, ...]
    steps: tuple[Step, ...]

    def octets(self) -> int:
        """How much the clients send."""
        return sum(len(step.octets) for step in self.steps)


class Mutator:
    """The source of inputs.

    corpus  recordings
    long    those that are so long that they are taken seldom
    """

    def __init__(self, corpus: Sequence[Recording], long: Sequence[Recording]) -> None:
        self.corpus = corpus
        self.long = long
        self.frames: dict[str, list[Frame]] = {AMQP: [], MQTT: [], BLOCKS: []}
        for recording in corpus:
            for frame in recording.frames:
                if frame.octets and not frame.login:
                    self.frames[frame.protocol].append(frame)

    def make(self, chance: Random) -> Input:
        """One input."""
        listeners: list[str] = []
        frames: list[Frame] = []
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
            talk = self.made_up(chance) if chance.random() < 0.4 else chance.choice(self.corpus)
            if chance.random() < LONG:
                talk = chance.choice(self.long)
            if len(listeners) + len(talk.listeners) > LINES_MAX:
                continue
            first = len(listeners)
            listeners += talk.listeners
            moved = [Frame(first + each.line, each.protocol, each.octets, each.login) for each in talk.frames]
            frames = mingled(chance, frames, moved)
        for _ in range(chance.choice((0, 1, 1, 2, 3, 5, 10))):
            self.spoil(chance, frames)
        return Input(tuple(listeners), tuple(steps_of(chance, frames[:FRAMES_MAX], len(listeners))))

    # ---- conversations by chance

    def made_up(self, chance: Random) -> Recording:
        """A login, and then frames that chance has made."""
        protocol = chance.choice((AMQP, AMQP, MQTT, MQTT, BLOCKS))
        made = Recording("made up", [MQTT if protocol == BLOCKS else protocol])
        version = chance.choice((4, V5, V5))
        begin = mqtt.login(chance, version) if protocol == MQTT else blocks.login()
        if protocol == AMQP:
            begin = amqp.login()
        for number, octets in enumerate(split(protocol, begin)):
            made.frames.append(Frame(0, protocol, octets, number < LOGIN_FRAMES[protocol]))
        for _ in range(chance.choice((3, 10, 30))):
            made.frames.append(Frame(0, protocol, self.made_frame(chance, protocol, version)))
        return made

    def made_frame(self, chance: Random, protocol: str, version: int) -> bytes:
        """A frame by chance; in AMQP perhaps with its content behind it."""
        if protocol == AMQP:
            return amqp.made_up(chance)
        return mqtt.made_up(chance, version) if protocol == MQTT else blocks.made_up(chance)

    # ---- what is spoilt

    def spoil(self, chance: Random, frames: list[Frame]) -> None:
        """Change one thing of the sequence; a login in few cases."""
        if not frames:
            return
        at = chance.randrange(len(frames))
        frame = frames[at]
        if frame.login and chance.random() > LOGIN_SPOILT:
            return
        kind = chance.random()
        if kind < 0.08:
            del frames[at]
        elif kind < 0.16:
            frames[at:at] = [frame] * chance.choice((1, 1, 2, 20))
        elif kind < 0.24:
            frames.insert(chance.randrange(len(frames) + 1), frames.pop(at))
        elif kind < 0.36:
            other = chance.choice(self.frames[frame.protocol]).octets
            frames.insert(at + 1, Frame(frame.line, frame.protocol, other))
        elif kind < 0.46:
            version = chance.choice((4, V5))
            frames.insert(at + 1, Frame(frame.line, frame.protocol, self.made_frame(chance, frame.protocol, version)))
        elif kind < 0.5:
            other = chance.choice(self.frames[chance.choice((AMQP, MQTT, BLOCKS))]).octets  # of another protocol
            frames[at] = Frame(frame.line, frame.protocol, other)
        elif frame.octets:
            frames[at] = Frame(frame.line, frame.protocol, self.spoilt(chance, frame))

    def spoilt(self, chance: Random, frame: Frame) -> bytes:
        """The octets of a frame with something wrong in them; in most cases its length is right."""
        parts = unwrap(frame.protocol, frame.octets)
        if parts is None or chance.random() < 0.25:
            return chance.choice(SPOILERS)(chance, frame.octets)
        head, payload = parts
        kind = chance.random()
        if kind < 0.1 and frame.protocol == AMQP:
            head = head[:1] + chance.choice((0, 1, 2, 7, 2047, 2048, 65_535)).to_bytes(2, "big")
        elif kind < 0.2:
            head = flip(chance, head)
        elif kind < 0.3:
            payload = deepened(chance, frame.protocol, payload)
        elif kind < 0.4:
            other = unwrap(frame.protocol, chance.choice(self.frames[frame.protocol]).octets)
            tail = b"" if other is None else other[1]
            payload = payload[: chance.randrange(len(payload) + 1)] + tail[chance.randrange(len(tail) + 1) :]
        else:
            payload = chance.choice(SPOILERS)(chance, payload)
        return wrap(frame.protocol, head, payload)


# ---- octets


def flip(chance: Random, octets: bytes) -> bytes:
    """Other bits, one to three."""
    made = bytearray(octets)
    for _ in range(chance.choice((1, 1, 2, 3)) if made else 0):
        made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def extreme(chance: Random, octets: bytes) -> bytes:
    """A number that is as small or as large as it can be, often where a length is."""
    width = chance.choice(WIDTHS)
    span = len(octets) if chance.random() < 0.6 else min(len(octets), FIRST_OCTETS)
    at = chance.randrange(span + 1)
    value = chance.choice(EXTREMES) * width if chance.random() < 0.7 else bytes(width - 1) + chance.choice(EXTREMES)
    return octets[:at] + value + octets[at + width :]


def nudge(chance: Random, octets: bytes) -> bytes:
    """An octet that is a little more or less."""
    if not octets:
        return octets
    at = chance.randrange(len(octets))
    return octets[:at] + bytes([(octets[at] + chance.choice((-1, 1, -2, 2, 16))) % 256]) + octets[at + 1 :]


def remove(chance: Random, octets: bytes) -> bytes:
    at = chance.randrange(len(octets) + 1)
    return octets[:at] + octets[at + chance.choice((1, 1, 2, 8, 100)) :]


def insert(chance: Random, octets: bytes) -> bytes:
    at = chance.randrange(len(octets) + 1)
    more = chance.choice(
        (b"\0", b"\xff", b"\0" * 9, chance.randbytes(3), b"#", b"/", b"$queue/", b"\xed\xa0\x80", b"[" * 50)
    )
    return octets[:at] + more + octets[at:]


def repeat(chance: Random, octets: bytes) -> bytes:
    """A part of it many times."""
    at = chance.randrange(len(octets) + 1)
    end = at + chance.choice((1, 2, 5, 20))
    return octets[:end] + octets[at:end] * chance.choice((1, 3, 100)) + octets[end:]


def cut(chance: Random, octets: bytes) -> bytes:
    return octets[: chance.randrange(len(octets) + 1)]


def random_octets(chance: Random, octets: bytes) -> bytes:
    return chance.randbytes(chance.choice((1, 7, 40)))


SPOILERS: Final[tuple[Callable[[Random, bytes], bytes], ...]] = (
    flip,
    flip,
    extreme,
    extreme,
    nudge,
    remove,
    insert,
    repeat,
    cut,
    random_octets,
)


def deepened(chance: Random, protocol: str, payload: bytes) -> bytes:
    """Something that goes very deep: a table, an array, JSON, levels of a topic, brackets of a filter."""
    depth = chance.choice((5, 101, DEEP))
    if protocol == AMQP:
        inner = b""
        for _ in range(min(depth, DEEP)):
            inner = (
                chance.choice((b"\x01aF", b"\x01aA") if not inner else (b"\x01aF",))
                + len(inner).to_bytes(4, "big")
                + inner
            )
            if len(inner) > 20_000:
                break
        return payload[: chance.randrange(len(payload) + 1)] + len(inner).to_bytes(4, "big") + inner
    if protocol == BLOCKS:
        opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
        return b'{"op":"fetch","queue":"work","first":0,"end":' + opening * depth + b"1" + closing * depth + b"}"
    text = chance.choice(
        (b"/" * depth, b"+/" * depth + b"#", b"(" * depth + b"1" + b")" * depth, b"NOT " * depth + b"a")
    )
    at = chance.randrange(len(payload) + 1)
    return payload[:at] + len(text).to_bytes(2, "big") + text + payload[at:]


# ---- reads


def mingled(chance: Random, one: list[Frame], other: list[Frame]) -> list[Frame]:
    """Both sequences as one, each in its order; or one behind the other."""
    if not one or chance.random() < 0.2:
        return one + other
    found: list[Frame] = []
    heads = [0, 0]
    while heads[0] < len(one) and heads[1] < len(other):
        which = chance.randrange(2)
        count = chance.choice((1, 1, 3))
        found += (one, other)[which][heads[which] : heads[which] + count]
        heads[which] += count
    return found + one[heads[0] :] + other[heads[1] :]


def steps_of(chance: Random, frames: Sequence[Frame], lines: int) -> list[Step]:
    """Frames as reads that end anywhere, and what happens between them."""
    steps: list[Step] = []
    waiting = [b""] * lines  # what comes together with the next
    haste = chance.choice((0.0, 0.0, 0.5, 1.0))
    joins = chance.choice((0.0, 0.0, 0.2, 0.8))
    cuts = chance.choice((0.0, 0.1, 0.6))
    events = chance.choice((0.0, 0.02, 0.1))
    for frame in frames:
        if not frame.octets:
            if waiting[frame.line]:
                steps.append(Step(frame.line, OCTETS, waiting[frame.line]))
            steps.append(Step(frame.line, LOST))
            waiting[frame.line] = b""
            continue
        octets = waiting[frame.line] + frame.octets
        waiting[frame.line] = b""
        if chance.random() < joins:
            waiting[frame.line] = octets
            continue
        for each in pieces(chance, octets, cuts):
            steps.append(Step(frame.line, OCTETS, each, 0, chance.random() >= haste))
        if chance.random() < events:
            steps.append(event(chance, frame.line))
    steps += [Step(line, OCTETS, octets) for line, octets in enumerate(waiting) if octets]
    return steps


def pieces(chance: Random, octets: bytes, cuts: float) -> list[bytes]:
    """The reads in which these octets come."""
    if chance.random() >= cuts or len(octets) < 2:
        return [octets]
    if len(octets) <= READS_MAX and chance.random() < 0.3:
        return [octets[at : at + 1] for at in range(len(octets))]
    places = sorted(chance.sample(range(1, len(octets)), min(len(octets) - 1, chance.choice((1, 1, 2, 5)))))
    return [octets[first:end] for first, end in zip([0, *places], [*places, len(octets)], strict=True)]


def event(chance: Random, line: int) -> Step:
    """Something that is no read."""
    kind = chance.choice((LOST, STUFFED, STUFFED, DRAINED, DRAINED, LATER, LATER, LATER))
    return Step(line, kind, b"", chance.choice(SECONDS) if kind == LATER else 0)
