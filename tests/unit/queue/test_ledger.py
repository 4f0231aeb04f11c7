"""The ledger: what is sealed stays wanted until it is settled, and after a restart."""

from __future__ import annotations

from pathlib import Path

from forebay.core.message import MQTT
from forebay.log.queue_log import QueueLog
from forebay.log.store import Store
from forebay.queue.leases.page import PAGE_RECORDS
from forebay.queue.work.ledger import Ledger
from forebay.server.system.disk import DataDisk
from tests.stores import SMALL, TestClock


def make(folder: Path) -> tuple[QueueLog, Store]:
    """A log in memory, and a store that writes down what is noted of it."""
    store = Store(DataDisk(str(folder)), TestClock(), SMALL)
    store.open()
    log = store.create_log(1, "q", False)
    store.start([])
    return log, store


def fill(log: QueueLog, count: int) -> None:
    for _ in range(count):
        log.append(MQTT, b"", b"k", b"", b"x")
    log.seal(1)


def test_what_is_sealed_is_wanted_until_it_is_settled(tmp_path: Path) -> None:
    log, store = make(tmp_path)
    ledger = Ledger(log, store)
    for end in (3, 3 * PAGE_RECORDS):
        fill(log, end - int(log.end))
        ledger.sealed()
        assert ledger.floor() == 0
        assert ledger.wanted(0, log.end) == [(0, end)]
    ledger.settle(1, 2)
    ledger.settle(PAGE_RECORDS, PAGE_RECORDS)
    assert ledger.floor() == 0
    assert ledger.wanted(0, log.end) == [(0, 1), (3, PAGE_RECORDS), (2 * PAGE_RECORDS, 3 * PAGE_RECORDS)]
    ledger.settle(0, 1)
    assert ledger.floor() == 3


def test_notes_and_snapshot_give_the_same_ledger_again(tmp_path: Path) -> None:
    log, store = make(tmp_path)
    ledger = Ledger(log, store)
    fill(log, 2 * PAGE_RECORDS)
    ledger.sealed()
    ledger.settle(0, 2)
    ledger.settle(5, PAGE_RECORDS)
    noted = ledger.progress()
    store.note(9, 1, 0, noted, True)
    log.truncate(ledger.needed_from())
    assert log.start == 0  # the disk has not said so
    assert (0, 2) in ledger.wanted(0, log.end)
    commit = store.commit()
    assert commit is not None
    commit.run()
    store.synced(commit)
    log.truncate(ledger.needed_from())
    assert log.start == 2
    fill(log, 4)
    ledger.sealed()
    wanted = ledger.wanted(0, log.end)
    for payload in (noted, ledger.snapshot()):
        again = Ledger(log, store)
        again.restore(payload)
        again.sealed()
        assert again.wanted(0, log.end) == wanted
        assert again.floor() == 2
    assert ledger.progress() == b""
