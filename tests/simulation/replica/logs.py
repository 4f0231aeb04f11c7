"""The log of a simulated member: frames in memory, of which a crash loses what was not synced."""

from __future__ import annotations

import marshal
from typing import Final

from forebay.log.shipment import Shipment
from forebay.replica.messages import Run
from forebay.replica.outcome import Taking
from forebay.replica.replica_log import ReplicaLog
from tests.simulation.replica.violation import Violation

SimFrame = tuple[int, tuple[object, ...]]  # epoch, and what it says

FILE_HEAD: Final = bytes(32)
FRAMES_MAX: Final = 63  # in a shipment


def runs_of(frames: list[SimFrame], start: int) -> list[Run]:
    """Stretches of one epoch, newest first, of frames above this LSN."""
    runs: list[Run] = []
    last = start + len(frames)
    while last > start:
        epoch = frames[last - 1 - start][0]
        first = last
        while first - 1 > start and frames[first - 2 - start][0] == epoch:
            first -= 1
        runs.append((epoch, first, last))
        last = first - 1
    return runs


class SimLog(ReplicaLog):
    """`frames` are those above LSN `start`: the ones before are gone, as their WAL files are."""

    def __init__(self, name: str, frames: list[SimFrame]) -> None:
        self.name = name
        self.frames = frames
        self.gone = 0  # frames that are in no WAL file any more, though the model keeps them
        self.committed = 0
        self.cuts = 0

    def end(self) -> tuple[int, int]:
        return (self.frames[-1][0], len(self.frames)) if self.frames else (0, 0)

    def runs(self) -> list[Run]:
        return runs_of(self.frames[self.gone :], self.gone)

    def epoch_of(self, lsn: int) -> int | None:
        return self.frames[lsn - 1][0] if self.gone < lsn <= len(self.frames) else None

    def frames_from(self, lsn: int, octets_max: int) -> list[Shipment] | None:
        if lsn <= self.gone:
            return None
        frames = self.frames[lsn - 1 : lsn - 1 + FRAMES_MAX]
        if not frames:
            return []
        octets = marshal.dumps(frames)
        return [Shipment(FILE_HEAD, lsn, lsn, lsn + len(frames) - 1, frames[0][0], frames[-1][0], octets)]

    def take(self, taking: Taking) -> bool:
        """As the store does; false where the frame before does not stand here."""
        prev = int(taking.prev_lsn)
        if prev > len(self.frames) or (prev > self.gone and self.frames[prev - 1][0] != taking.prev_epoch):
            return False
        lsn = prev
        for shipment in taking.shipments:
            for frame in marshal.loads(shipment.octets):
                self.put(lsn, frame)
                lsn += 1
        return True

    def put(self, before: int, frame: SimFrame) -> None:
        """One frame behind that LSN; one that is here already is passed over."""
        if before < len(self.frames):
            if self.frames[before][0] == frame[0]:
                return
            if before < self.committed:
                raise Violation(f"2: {self.name} cuts frame {before + 1}, and {self.committed} are committed")
            self.cut(before)
        self.frames.append(frame)

    def cut(self, end: int) -> None:
        self.cuts += 1
        del self.frames[end:]
