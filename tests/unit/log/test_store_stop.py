"""The end of housekeeping that is told to stop: what is finished stays, and nothing is left half."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.log.housekeeping import Stopped
from tests.stores import SMALL, Everything, Opened, SmallDisk, bodies


@pytest.mark.parametrize("at_once", [True, False])
def test_housekeeping_of_many_queues_ends_when_the_broker_does(
    tmp_path: Path, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = list(range(1, 6))
    opened = Opened(tmp_path, queues)
    for queue in queues:
        opened.publish(queue, b"a", b"b")
        opened.publish(queue, b"c")
    assert opened.store.rotate([])
    opened.sync()
    job = opened.store.plan(Everything(), opened.clock.us + SMALL.rewrite_age_us)
    assert job is not None and len(job.rewrites) == 5

    def rename(old: str, new: str) -> None:
        SmallDisk.rename(opened.disk, old, new)
        if new.endswith(".seg"):
            job.stop()

    monkeypatch.setattr(opened.disk, "rename", rename)
    if at_once:
        job.stop()
    job.run()
    assert [bool(rewrite.made) for rewrite in job.rewrites] == [not at_once, False, False, False, False]
    assert not list(tmp_path.rglob("*.seg.tmp"))
    opened.close()
    again = Opened(tmp_path, queues)
    assert all(bodies(again.logs[queue]) == {0: b"a", 1: b"b", 2: b"c"} for queue in queues)
    while again.housekeep(Everything()):
        pass
    assert all(len(again.store.logs.stored[queue].segments) == 1 for queue in queues)
    again.close()


def test_a_rewrite_that_is_told_to_end_leaves_no_half_segment(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    for _ in range(3):
        opened.publish(1, b"a")
    assert opened.store.rotate([])
    opened.sync()
    job = opened.store.plan(Everything(), opened.clock.us + SMALL.rewrite_age_us)
    assert job is not None
    job.write_names()
    job.rewrites[0].stopped = True
    with pytest.raises(Stopped):
        job.rewrites[0].run(opened.disk, SMALL.segment_octets_max)
    assert not list(tmp_path.rglob("*.seg*"))
    opened.crash()
