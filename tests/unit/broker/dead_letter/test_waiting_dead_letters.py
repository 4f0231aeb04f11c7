"""Dead letters that wait for a route are counted, and who had them once is known after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.queue.totals import GroupTotals
from tests.restarts import ENDS, RestartRig

KEPT = {"x_dead_letter_strategy": "at-least-once", "x_overflow": "reject-publish"}


def counted(rig: RestartRig) -> tuple[int, int, int, int]:
    """Messages, those that are ready, and dead letters that wait with their octets."""
    queue = rig.vhost.catalog.queue(b"q")
    totals = GroupTotals(queue)
    return int(queue.wanted()), int(queue.ready()), int(totals.dead_letters), int(totals.dead_letter_octets)


def declared(folder: Path, way: str, kind: str, **arguments: object) -> RestartRig:
    rig = RestartRig(folder, way)
    rig.vhost.catalog.declare_exchange(b"dlx", b"fanout", True, False, False, {})
    rig.declare(b"q", x_queue_type=kind, x_dead_letter_exchange="dlx", **KEPT, **arguments)
    return rig


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("way", ENDS)
def test_what_was_rejected_comes_again_as_redelivered(tmp_path: Path, way: str, kind: str) -> None:
    rig = declared(tmp_path, way, kind)
    for body in (b"rejected", b"and this"):
        rig.publish(b"", b"q", body)
        rig.settle()
    lease = rig.taken(b"q")
    rig.vhost.settling.reject(lease, 0, 1)
    rig.settle()
    assert counted(rig) == (2, 1, 1, len(b"rejected"))
    rig.wait(3)  # it is tried again meanwhile
    assert counted(rig) == (2, 1, 1, len(b"rejected"))
    rig.flush()
    rig.end(1)
    rig.wait(1)
    assert counted(rig) == (2, 2, 0, 0)
    first, second = (rig.vhost.consumers.get(b"q", 1, 1, False) for _ in range(2))
    assert first is not None and second is not None
    assert (first.redelivered, first.deliveries, first.failures) == (True, 2, 0)
    assert second.redelivered == (way != "SIGTERM"), "nobody had it, as far as is known"


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_waits_is_counted_until_it_has_gone(tmp_path: Path, kind: str) -> None:
    rig = declared(tmp_path, "SIGTERM", kind, x_message_ttl=500)
    for body in (b"1", b"22", b"333"):
        rig.publish(b"", b"q", body)
    rig.wait(2)
    assert counted(rig) == (3, 0, 3, 6)
    rig.declare(b"dead")
    rig.vhost.catalog.bind(b"dead", b"dlx", b"", {})
    rig.wait(2)
    assert counted(rig) == (0, 0, 0, 0)
    assert rig.vhost.catalog.queue(b"dead").ready() == 3
