"""Records that died of their counts and are not moved yet: a checkpoint until then has what they died of."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import AMQP091
from forebay.queue.declaration.limits import Limits
from forebay.queue.leases.lease import NACKED, UNLIMITED, Consumer
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log


@pytest.mark.parametrize(("deliveries", "cancels"), [(1, 0), (0, 1), (1, 1)])
def test_a_checkpoint_before_a_spent_record_has_moved_keeps_its_count(
    tmp_path: Path, deliveries: int, cancels: int
) -> None:
    log = memory_log(str(tmp_path))
    limits = Limits()
    limits.max_deliveries, limits.max_cancels = deliveries, cancels
    limits.notes_deliveries = True
    limits.dead_letter_exchange = b"dlx"
    log.append(AMQP091, b"", b"k", b"", b"body")
    log.seal(1)
    group = WorkGroup(1, b"", b"", log, 0, limits)
    consumer = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
    group.add(consumer)
    found: list[object] = []
    group.dispatch(1, found)  # type: ignore[arg-type]
    (delivery,) = found
    group.note_delivery(delivery)  # type: ignore[arg-type]
    group.give_back(delivery.lease, 0, 1, 0, NACKED)  # type: ignore[attr-defined]
    assert group.dead_letters.count == 1
    for _ in range(2):
        progress, returns = group.snapshot(), group.snapshot_returns()
        group = WorkGroup(1, b"", b"", log, 0, limits)
        group.restore(progress)
        group.attempts.restore(returns)
        group.finish_restore(1)
        assert (group.dead_letters.count, group.ready()) == (1, 0)
    group.settle_dead_letters(0, 1)
    assert group.snapshot_returns() == b""
