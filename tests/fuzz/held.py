"""A broker in the fuzzer's hand: a node on a disk in memory, whose chance is the same every time.

An error of the broker's own is raised by whatever step brought it about: nothing is caught here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from forebay.core.ports import Random
from tests.node_rig import LOOPBACK, Line, NodeRig
from tests.simulation.disk import Parts, SimDisk
from tests.stores import SmallDisk

NOWHERE: Final = Path("/simulated")
MUCH: Final = 1 << 30  # octets that a client which reads nothing has not taken


class Steady(Random):
    """The same octets every time, so that the proof of a login that was recorded is right again."""

    def octets(self, count: int) -> bytes:
        return b"\x5a" * count


class MemoryDisk(SimDisk):
    """A disk in memory that never fails."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def pwrite(self, handle: int, parts: Parts, position: int) -> None:
        self.written += sum(map(len, parts))
        super().pwrite(handle, parts, position)

    def close_all(self) -> None:
        self.handles.clear()


class HeldLine(Line):
    """A connection of which counts what goes in: octets, those that are looked at once more, and reads.

    again  octets that were given to the session, or joined to others, a second time
    """

    __slots__ = ("again", "answered")

    def __init__(self, rig: Held, protocol: str, port: int) -> None:
        super().__init__(rig, protocol, port)
        self.again = 0
        self.answered = 0

    def received(self, data: bytes) -> None:
        if self.parts is None:
            self.again += len(self.rest)
        elif self.parts_octets + len(data) >= self.wanted:
            self.again += self.parts_octets
        super().received(data)

    def put(self, octets: bytes) -> None:
        """The octets of one read, which wait where the broker does not read for now."""
        if not self.gone:
            self.sendall(octets)

    def stuff(self) -> None:
        """The client takes nothing of what it is sent any more."""
        if not self.closing and not self.gone:
            self.left = MUCH
            self.fill(True)

    def drain(self) -> None:
        """The client has taken everything."""
        self.left = 0
        if not self.closing and not self.gone and self.full:
            self.fill(False)

    def forget(self) -> None:
        """Nobody reads what the broker has sent."""
        self.answered += len(self.sent)
        self.sent.clear()


class Held(NodeRig):
    """The node, and how many turns and commits it has made."""

    line_type: type[HeldLine] = HeldLine

    def __init__(self, **options: object) -> None:
        self.turns = 0
        self.commits = 0
        super().__init__(NOWHERE, None, **options)

    def make_disk(self) -> SmallDisk:
        self.memory = MemoryDisk()
        return cast(SmallDisk, self.memory)

    def make_random(self) -> Random:
        return Steady()

    def connect(self, listener: str) -> HeldLine:
        self.ports += 1
        line = self.line_type(self, listener, self.ports)
        self.lines.append(line)
        self.broker.opened(line)
        return line

    def written(self) -> int:
        """Octets that the disk was given."""
        return self.memory.written

    def step(self) -> bool:
        self.turns += self.broker.is_due
        return super().step()

    def write(self) -> None:
        self.commits += 1
        super().write()


__all__ = ["LOOPBACK", "Held", "HeldLine"]
