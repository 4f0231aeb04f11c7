"""The ledger: what is sealed stays wanted until it is settled, and after a restart."""

from __future__ import annotations

from pathlib import Path

from forebay.core.message import MQTT
from forebay.log.queue_log import QueueLog
from forebay.queue.leases import PAGE_RECORDS
from forebay.queue.ledger import Ledger
from tests.logs import memory_log


def fill(log: QueueLog, count: int) -> None:
    for _ in range(count):
        log.append(MQTT, b"", b"k", b"", b"x")
    log.seal(1)


def test_what_is_sealed_is_wanted_until_it_is_settled(tmp_path: Path) -> None:
    log = memory_log(str(tmp_path))
    ledger = Ledger(log)
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
    log = memory_log(str(tmp_path))
    ledger = Ledger(log)
    fill(log, 2 * PAGE_RECORDS)
    ledger.sealed()
    ledger.settle(0, 2)
    ledger.settle(5, PAGE_RECORDS)
    noted = ledger.progress()
    fill(log, 4)
    ledger.sealed()
    wanted = ledger.wanted(0, log.end)
    for payload in (noted, ledger.snapshot()):
        again = Ledger(log)
        again.restore(payload)
        again.sealed()
        assert again.wanted(0, log.end) == wanted
        assert again.floor() == 2
    assert ledger.progress() == b""
