"""Messages that die of their number of deliveries or cancels: the counts outlive every end of a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from forebay.message.deaths import deaths_of
from forebay.message.record import record_at
from forebay.queue.leases.lease import FAILED, NACKED, UNTRIED
from tests.restarts import ENDS, TAKE_OVER, RestartRig

KINDS: Final[dict[str, dict[str, object]]] = {
    "classic": {},
    "quorum": {"x_queue_type": "quorum"},
    "priority": {"x_max_priority": 5},
}
EVERY_KIND = pytest.mark.parametrize("kind", sorted(KINDS))
EVERY_END = pytest.mark.parametrize("way", ENDS)


def rig_with(folder: Path, kind: str, way: str, **arguments: object) -> RestartRig:
    """A broker with a message in a queue, whose dead letters have one of their own."""
    rig = RestartRig(folder, way)
    rig.declare(b"dead")
    rig.declare(b"q", **KINDS[kind], x_dead_letter_exchange="", x_dead_letter_routing_key="dead", **arguments)
    rig.publish(b"", b"q", b"a")
    rig.settle()
    return rig


def reasons(rig: RestartRig) -> list[tuple[str, int]]:
    """Why each dead letter died, and how often it had been delivered."""
    rig.settle()
    log = rig.vhost.catalog.queue(b"dead").log
    found = []
    for offset in range(log.start, log.end):
        block = log.block(offset)
        assert block is not None
        deaths = deaths_of(record_at(block, offset - block.base).annotations)
        assert deaths.last is not None and deaths.marks is not None
        found.append((deaths.last.reason.decode(), int(deaths.marks.deliveries)))
    return found


def end(rig: RestartRig) -> None:
    """End and go on; a take-over there is but one."""
    if rig.following is None:
        rig.end(0)


def give_back(rig: RestartRig, how: int) -> None:
    lease = rig.taken(b"q")
    rig.vhost.settling.nack(lease, lease.first, 1, 0, how)
    rig.settle()


@EVERY_KIND
@EVERY_END
@pytest.mark.parametrize("how", [FAILED, NACKED, UNTRIED])
def test_a_message_is_delivered_so_often_and_no_more(tmp_path: Path, kind: str, way: str, how: int) -> None:
    rig = rig_with(tmp_path, kind, way, x_max_deliveries=2)
    give_back(rig, how)
    if way != TAKE_OVER:
        end(rig)
    assert rig.taken(b"q").deliveries == 2
    rig.settle()
    assert reasons(rig) == []
    end(rig)
    assert reasons(rig) == [("max_deliveries", 2)], "the last delivery was out"
    assert rig.kept(b"q") == []
    end(rig)
    assert reasons(rig) == [("max_deliveries", 2)]


@EVERY_END
def test_without_dead_letters_it_is_gone(tmp_path: Path, way: str) -> None:
    rig = RestartRig(tmp_path, way)
    rig.declare(b"q", x_max_deliveries=1)
    rig.publish(b"", b"q", b"a")
    rig.settle()
    rig.taken(b"q")
    rig.settle()
    end(rig)
    rig.settle()
    assert rig.kept(b"q") == []


@EVERY_KIND
@EVERY_END
def test_cancels_are_counted_over_ends(tmp_path: Path, kind: str, way: str) -> None:
    rig = rig_with(tmp_path, kind, way, x_max_cancels=3, x_delivery_limit=-1)
    give_back(rig, FAILED)  # which is none
    for _ in range(1 if way == TAKE_OVER else 2):
        give_back(rig, NACKED)
        rig.taken(b"q")  # what is delivered again has its count on the disk
        rig.settle()
        end(rig)
    assert reasons(rig) == []
    if way == TAKE_OVER:
        give_back(rig, NACKED)
    give_back(rig, NACKED)
    assert [reason for reason, _ in reasons(rig)] == ["max_cancels"]


def test_a_checkpoint_has_the_counts_of_what_is_out(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", ENDS[1], x_max_deliveries=2, x_max_cancels=9)
    give_back(rig, NACKED)
    rig.taken(b"q")
    rig.settle()
    rig.rotate()
    rig.settle()
    end(rig)
    assert reasons(rig) == [("max_deliveries", 2)]


def test_a_delivery_waits_for_its_count(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", ENDS[1], x_max_deliveries=2)
    rig.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 0, {})
    rig.turn(sync=False)
    session = rig.broker.connections[1].session
    assert session is not None and session.hold_lsn > rig.store.durable
    rig.sync()
    assert session.hold_lsn <= rig.store.durable


@pytest.mark.parametrize(("words", "reason"), [("amps", "time_limit"), ("rabbitmq", "expired")])
def test_a_queue_chooses_the_words_of_its_reasons(tmp_path: Path, words: str, reason: str) -> None:
    rig = rig_with(tmp_path, "classic", ENDS[0], x_message_ttl=1000, x_dead_letter_reasons=words)
    rig.wait(3)
    assert reasons(rig) == [(reason, 0)]


def test_the_first_limit_that_is_reached_counts(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", ENDS[0], x_max_deliveries=5, x_max_cancels=2, x_delivery_limit=9)
    give_back(rig, NACKED)
    give_back(rig, NACKED)
    assert reasons(rig) == [("max_cancels", 2)]


def test_a_checkpoint_before_a_spent_message_has_moved_keeps_its_count(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", ENDS[1], x_max_deliveries=1)
    rig.taken(b"q")
    rig.settle()
    rig.end(0)
    rig.checkpoint()  # as a new leader writes one before its first turn
    rig.crash()
    assert reasons(rig) == [("max_deliveries", 1)]
