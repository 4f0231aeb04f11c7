"""Bugs that somebody might make, planted: the simulation has to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from forebay.broker.internal import DELAYED_LOG, INTERNAL, SESSIONS_LOG
from forebay.broker.topology import SETTLED
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.log.store import Entry, Store
from forebay.log.wal import GatheredFrame
from tests.simulation.amqp import DEAD
from tests.simulation.broker import Broker
from tests.simulation.disk import SimDisk
from tests.stores import SMALL, TestClock


class ConfirmsEarly(Broker):
    """Says that a commit is on the disk when the next one goes there."""

    def sync(self) -> None:
        commit, self.commit = self.commit, None
        if commit is None:
            return
        late = getattr(self, "late", None)
        if late is not None:
            late.run()
        self.late = commit
        commit.ran = True
        self.back(commit)


class LosesSettlements(Broker):
    """Leaves out of the checkpoint what was settled."""

    def checkpoint(self) -> list[Entry]:
        return [entry for entry in super().checkpoint() if entry.kind != SETTLED]


def without(entries: list[Entry], field: str) -> list[Entry]:
    """These entries with nothing in this field of what sessions keep."""
    out: list[Entry] = []
    for entry in entries:
        if entry.kind == INTERNAL and entry.queue == SESSIONS_LOG and entry.payload[0] >= 0x80:
            fields = msgspec.msgpack.decode(entry.payload)
            if fields.get("op") == "kept":
                fields[field] = []
                entry = Entry(entry.kind, entry.queue, entry.group, msgspec.msgpack.encode(fields))  # noqa: PLW2901
        out.append(entry)
    return out


class ForgetsBacklogs(Broker):
    """Leaves out of the checkpoint what waits for sessions."""

    def checkpoint(self) -> list[Entry]:
        return without(super().checkpoint(), "waiting")


class ForgetsReceived(Broker):
    """Leaves out of the checkpoint which publishes of QoS 2 have come: what PUBREC was sent for."""

    def checkpoint(self) -> list[Entry]:
        return without(super().checkpoint(), "received")


class ParcelStore(Store):
    """Writes dead letters a frame later than what they were settled by."""

    def append(self, log: QueueLog, block: Block) -> None:
        frame = self.frame
        if frame is not None and log.name.startswith(DEAD) and frame.pieces and self.fits(frame) and frame.file.named:
            frame.file.tail = frame.end()
            self.ready.append(frame)
            self.lsn += 1
            self.frame = GatheredFrame(self.lsn, frame.file, 0)
        super().append(log, block)


class SettlesFirst(Broker):
    """Settles what has died before the dead letter is stored."""

    def make_store(self) -> Store:
        return ParcelStore(self.disk, self.clock, SMALL)


class IdleStore(Store):
    """Never hurries."""

    def hurry(self) -> None:
        pass


class PurgesLater(Broker):
    """Answers a purge before it is on the disk."""

    def make_store(self) -> Store:
        return IdleStore(self.disk, self.clock, SMALL)


class ForgetfulStore(Store):
    """Does not write down which delayed messages have gone."""

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        if kind != INTERNAL or queue != DELAYED_LOG:
            super().note(kind, queue, group, payload, urgent)


class DelaysTwice(Broker):
    """Publishes a delayed message again after a restart."""

    def make_store(self) -> Store:
        return ForgetfulStore(self.disk, self.clock, SMALL)


class LyingDisk(SimDisk):
    """Names segments that it has not synced."""

    def sync(self, handle: int) -> None:
        if not self.handles[handle][0].startswith("queues/"):
            super().sync(handle)


def planted(make: type[Broker]) -> Callable[[SimDisk, TestClock], Broker]:
    return lambda disk, clock: make(disk, clock, {})


BROKERS: Final[dict[str, type[Broker]]] = {
    "a confirm before the sync": ConfirmsEarly,
    "a settlement lost when the log changes files": LosesSettlements,
    "a backlog that is not restored": ForgetsBacklogs,
    "a PUBREC forgotten": ForgetsReceived,
    "a dead letter settled before it is stored": SettlesFirst,
    "a purge undone by a crash": PurgesLater,
    "a delayed message twice": DelaysTwice,
}
