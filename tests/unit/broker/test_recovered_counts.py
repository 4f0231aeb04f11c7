"""Counts of a queue after a crash: what a file was rewritten without counts no more."""

from __future__ import annotations

from pathlib import Path

from tests.vhosts import OneVhost

QUEUE = b"q"
STARTS = 20  # each begins a file of the log: what was published before is worth rewriting


def test_what_was_left_out_of_files_is_not_counted(tmp_path: Path) -> None:
    rig = OneVhost(tmp_path)
    rig.declare(QUEUE)
    for number in range(5):
        rig.publish(b"", QUEUE, b"%d" % number)
    rig.flush()
    for _ in range(STARTS):
        rig.crash()
    first = rig.taken(QUEUE)
    for _ in range(4):
        assert rig.vhost.consumers.get(QUEUE, 2, 1, True) is not None
    rig.vhost.session_closed(1)
    del first
    for _ in range(3):
        rig.flush()
        rig.housekeep()
    rig.crash()
    queue = rig.vhost.catalog.queue(QUEUE)
    assert queue.log.missing(0) == [(1, 5)], "the four are left out of the file"
    assert queue.ready() == queue.wanted() == 1
    delivery = rig.vhost.consumers.get(QUEUE, 2, 1, True)
    assert delivery is not None and delivery.block.body(delivery.index) == b"0"
    assert rig.vhost.consumers.get(QUEUE, 2, 1, True) is None
    assert queue.ready() == 0
    rig.close()
