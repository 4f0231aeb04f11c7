"""Retained messages on a store on real files, for tests."""

from __future__ import annotations

from pathlib import Path

from forebay.broker.mqtt.retained import Retained
from forebay.core.message import MQTT
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.store import Liveness, Store
from tests.stores import SMALL, SmallDisk, TestClock

STORED = MQTT | 16 | 64  # QoS 1, retained


class OnlyRetained(Liveness):
    """There is no other log."""

    def __init__(self, retained: Retained) -> None:
        self.retained = retained

    def live(self, queue: int, first: int, end: int) -> list[tuple[int, int]]:
        assert queue == self.retained.number
        return self.retained.needed(first, end)


class Keeper:
    """Retained messages and their store, which is synced by hand."""

    def __init__(
        self, folder: Path, clock: TestClock | None = None, messages_max: int = 0, octets_max: int = 0
    ) -> None:
        self.clock = clock or TestClock()
        self.disk = SmallDisk(str(folder))
        self.store = Store(self.disk, self.clock, SMALL)
        self.retained = Retained(self.store, messages_max, octets_max)
        for entry in self.store.open().entries:
            assert (entry.kind, entry.queue) == (INTERNAL, self.retained.number)
            self.retained.restore(entry.group, entry.payload)
        self.retained.recovered(self.clock.now_us())
        self.store.start(self.retained.checkpoint())

    def put(self, topic: bytes, body: bytes, properties: bytes = b"") -> str:
        return self.retained.put(topic, STORED, properties, body, self.clock.now_us())

    def bodies(self, filter: bytes) -> list[bytes]:
        return [each.body for each in self.retained.matching(filter, self.clock.now_us())]

    def held(self) -> dict[bytes, bytes]:
        """Every topic's body."""
        return {each.topic: each.body for each in self.retained.matching(b"#", self.clock.now_us())}

    def end_turn(self) -> None:
        """End a turn; nothing of it is on the disk yet."""
        self.retained.end_turn(self.clock.now_us())

    def sync(self) -> None:
        """What ended turns have left to the disk."""
        while (commit := self.store.flush()) is not None:
            commit.run()
            self.store.synced(commit)

    def turn(self) -> None:
        self.end_turn()
        self.sync()

    def rotate(self) -> None:
        """Begin a new WAL file between two turns."""
        if self.store.finished is None and self.store.wals[-1].named:
            assert self.store.rotate(self.retained.checkpoint())

    def housekeep(self) -> bool:
        """One piece of housekeeping; whether there was any."""
        job = self.store.plan(OnlyRetained(self.retained), self.clock.now_us())
        if job is None:
            return False
        job.run()
        self.store.done(job)
        return True

    def crash(self) -> None:
        """Leave the files as they are."""
        self.disk.close_all()
