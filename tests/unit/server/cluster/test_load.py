"""The load of a thread: what it has run, and what it would have run if the processor had been free."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event

import pytest

from forebay.server.cluster.load import BUSY_PERCENT, ThreadLoad
from tests.waiting import until

PART_S = 0.1


def percent(load: ThreadLoad, idle: bool) -> int:
    """The load of a short time in which this thread sleeps, or does not."""
    load.since(1)
    began = time.monotonic_ns()
    if idle:
        Event().wait(PART_S)
    while time.monotonic_ns() - began < PART_S * 1e9:
        pass
    return load.since((time.monotonic_ns() - began) // 1000)


def test_a_thread_that_sleeps_is_not_busy_and_one_that_works_is() -> None:
    load = ThreadLoad()
    until(lambda: percent(load, idle=True) < BUSY_PERCENT // 2)
    until(lambda: percent(load, idle=False) > BUSY_PERCENT)


def test_where_the_kernel_says_nothing_what_it_has_run_counts(tmp_path: Path) -> None:
    for text in (None, b"", b"1", b"a b c"):
        load = ThreadLoad()
        load.path = tmp_path / "schedstat"
        if text is not None:
            load.path.write_bytes(text)
        before = load.wanted()
        began = time.thread_time_ns()
        while time.thread_time_ns() - began < 10_000_000:
            pass
        assert load.wanted() - before >= 10_000_000


@pytest.mark.parametrize("us", [0, -5])
def test_no_time_at_all_is_no_error(us: int) -> None:
    assert ThreadLoad().since(us) >= 0
