"""Names that a killed process gave, and had not synced, when the power goes later."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from forebay.core.errors import StorageError
from forebay.log.store import FrameEntry, Store
from tests.simulation.disk import SimDisk
from tests.stores import SMALL, Everything, TestClock


class Nothing(Random):
    """Of what was not synced nothing is left."""

    def random(self) -> float:
        return 1.0

    def randint(self, a: int, b: int) -> int:
        return a


def opened(disk: SimDisk) -> Store:
    store = Store(disk, TestClock(), SMALL)
    store.open()
    store.create_log(1, "q", True)
    store.start([FrameEntry(3, 1, 0, b"")])
    return store


def housekeep(store: Store) -> None:
    while (job := store.plan(Everything(), 1 << 62)) is not None:
        job.run()
        store.done(job)
        sync(store)


def sync(store: Store) -> None:
    while (commit := store.flush()) is not None:
        commit.run()
        store.synced(commit)


@pytest.mark.parametrize("changes", range(24))
def test_a_segment_that_was_found_stays(changes: int) -> None:
    """The process is killed anywhere in its housekeeping; the next one starts, and the power goes."""
    disk = SimDisk()
    store = opened(disk)
    log = store.logs.stored[1].log
    log.append(2, b"", b"q", b"", b"body")
    block = log.seal(1)
    assert block is not None
    assert store.reserve(block.octets() + 200)
    store.append(log, block)
    sync(store)
    store.rotate([])
    sync(store)
    disk.changes_left = changes
    with suppress(StorageError):
        housekeep(store)
    disk.forget()
    housekeep(opened(disk))
    disk.crash(Nothing())
    store = opened(disk)
    block = store.logs.stored[1].log.block(0)
    assert block is not None
    assert block.body(0) == b"body"
    assert disk.list("queues/1")[0].endswith(".seg")
