"""Settling by choice: offsets and filters, of what waits, of what others hold, and of what is not published yet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from forebay.broker.redrive.settle_chosen import ACKNOWLEDGE, CANCEL, EXPIRE, settle_chosen
from forebay.core.errors import NOT_FOUND, TOO_MANY, RequestError
from forebay.filter.parser import parse
from forebay.queue.work import early_acks
from forebay.queue.work.work_group import WorkGroup
from tests.restarts import ENDS, SECOND_US, RestartRig

KINDS: Final[dict[str, dict[str, object]]] = {
    "classic": {},
    "quorum": {"x_queue_type": "quorum"},
    "priority": {"x_max_priority": 5},
}
EVERY_KIND = pytest.mark.parametrize("kind", sorted(KINDS))
EVERY_END = pytest.mark.parametrize("way", ENDS)
DAY_S: Final = 86_400


def rig_with(folder: Path, kind: str, count: int, way: str = ENDS[0], **arguments: object) -> RestartRig:
    """A broker with a queue that has so many messages, whose bodies are their offsets."""
    rig = RestartRig(folder, way)
    rig.declare(b"dead")
    rig.declare(b"q", **KINDS[kind], x_dead_letter_exchange="", x_dead_letter_routing_key="dead", **arguments)
    publish(rig, count)
    return rig


def publish(rig: RestartRig, count: int) -> None:
    end = rig.vhost.catalog.queue(b"q").log.end
    for offset in range(end, end + count):
        rig.publish(b"", b"q", b"%d" % offset)
    rig.settle()


def settle(
    rig: RestartRig, action: str, *ranges: tuple[int, int], where: str = "", limit: int = 1000, first: int = 0
) -> tuple[int, int, int, int]:
    """Settle; how many were done, held, gone and kept."""
    chosen = list(ranges) or None
    filter = parse(where) if where else None
    portion, kept = settle_chosen(rig.vhost, b"q", b"", action, filter, first, limit, chosen, 1000)
    rig.settle()
    return portion.done, portion.held, portion.gone, kept


def group(rig: RestartRig) -> WorkGroup:
    found = rig.vhost.catalog.queue(b"q").find_group(b"")
    assert isinstance(found, WorkGroup)
    return found


@EVERY_KIND
@EVERY_END
def test_what_waits_is_acknowledged_by_offsets(tmp_path: Path, kind: str, way: str) -> None:
    rig = rig_with(tmp_path, kind, 6, way)
    assert settle(rig, ACKNOWLEDGE, (1, 2), (3, 5)) == (3, 0, 0, 0)
    assert settle(rig, ACKNOWLEDGE, (1, 2)) == (0, 0, 1, 0)
    rig.flush()
    rig.end(0)
    assert rig.kept(b"q") == [b"0", b"2", b"5"]
    assert rig.taken(b"q").first == 0


@EVERY_KIND
def test_what_waits_expires_by_a_filter(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, 5)
    assert settle(rig, EXPIRE, where="offset >= 2 AND offset < 4") == (2, 0, 0, 0)
    assert rig.kept(b"q") == [b"0", b"1", b"4"]
    assert sorted(rig.kept(b"dead")) == [b"2", b"3"]


@pytest.mark.parametrize(("leasing", "done"), [("strict", 0), ("sublet", 1)])
@pytest.mark.parametrize("action", [ACKNOWLEDGE, CANCEL, EXPIRE])
def test_with_strict_leases_only_the_holder_settles(tmp_path: Path, leasing: str, done: int, action: str) -> None:
    rig = rig_with(tmp_path, "classic", 2, x_leasing=leasing)
    lease = rig.taken(b"q")
    assert settle(rig, action, (0, 1)) == (done, 1 - done, 0, 0)
    assert lease.left == 1 - done
    assert (b"0" in rig.kept(b"q")) == (not done or action == CANCEL)
    assert rig.kept(b"dead") == ([b"0"] if done and action == EXPIRE else [])


def test_a_cancel_leaves_what_waits_and_counts(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 2, x_leasing="sublet", x_max_cancels=1)
    rig.taken(b"q")
    assert settle(rig, CANCEL) == (1, 0, 0, 0)
    assert rig.kept(b"q") == [b"1"], "the first has been cancelled as often as it may be"


@pytest.mark.parametrize(("words", "reason"), [("amps", b"forced_expire"), ("rabbitmq", b"expired")])
def test_the_reason_of_a_forced_expiry(tmp_path: Path, words: str, reason: bytes) -> None:
    from forebay.message.deaths import deaths_of
    from forebay.message.record import record_at

    rig = rig_with(tmp_path, "classic", 1, x_dead_letter_reasons=words)
    settle(rig, EXPIRE, (0, 1))
    block = rig.vhost.catalog.queue(b"dead").log.block(0)
    assert block is not None
    last = deaths_of(record_at(block, 0).annotations).last
    assert last is not None and last.reason == reason


@EVERY_KIND
@EVERY_END
def test_what_is_not_published_yet_is_acknowledged_when_it_comes(tmp_path: Path, kind: str, way: str) -> None:
    rig = rig_with(tmp_path, kind, 2, way)
    assert settle(rig, ACKNOWLEDGE, (1, 2), (3, 5)) == (1, 0, 0, 2)
    rig.flush()
    rig.end(0)
    publish(rig, 2)
    assert rig.kept(b"q") == [b"0", b"2"]
    publish(rig, 2)
    assert rig.kept(b"q") == [b"0", b"2", b"5"]
    assert group(rig).attempts.early.runs == []


def test_an_acknowledgement_in_advance_outlives_a_checkpoint_and_not_its_time(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 1, ENDS[1])
    assert settle(rig, ACKNOWLEDGE, (1, 2), (2, 3)) == (0, 0, 0, 2)
    rig.rotate()
    rig.flush()
    rig.end(DAY_S - 10)
    publish(rig, 1)
    assert rig.kept(b"q") == [b"0"]
    rig.clock.us += 20 * SECOND_US
    publish(rig, 1)
    assert rig.kept(b"q") == [b"0", b"2"]


def test_nothing_is_kept_in_advance_where_the_queue_does_not_want_it(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 1, x_deferred_ack=0)
    assert settle(rig, ACKNOWLEDGE, (1, 2)) == (0, 0, 1, 0)
    publish(rig, 1)
    assert rig.kept(b"q") == [b"0", b"1"]


def test_what_is_kept_in_advance_is_bounded(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 1)
    with pytest.raises(RequestError):
        settle(rig, ACKNOWLEDGE, (1, 2 + early_acks.RECORDS_MAX))
    group(rig).attempts.early.runs = [(at, at + 1, 1) for at in range(10, 10 + 2 * early_acks.RUNS_MAX, 2)]
    with pytest.raises(RequestError) as caught:
        settle(rig, ACKNOWLEDGE, (1, 2))
    assert caught.value.reason == TOO_MANY


def test_a_large_backlog_is_cut_and_resumed(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 50)
    first: int | None = 0
    portions = 0
    while first is not None:
        portion, _ = settle_chosen(rig.vhost, b"q", b"", ACKNOWLEDGE, None, first, 20, None, 1000)
        rig.settle()
        first = portion.next
        portions += 1
    assert (portions, rig.kept(b"q")) == (3, [])


def test_each_group_is_settled_alone(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 3)
    rig.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 1, {})
    rig.vhost.consumers.consume(b"q", 2, 1, b"c", False, False, 1, {"x-consumer-group": "other"})
    rig.settle()
    portion, _ = settle_chosen(rig.vhost, b"q", b"other", ACKNOWLEDGE, None, 0, 100, None, 1000)
    rig.settle()
    assert (portion.done, portion.held) == (2, 1)
    assert rig.kept(b"q") == [b"0", b"1", b"2"], "the other group wants them"
    with pytest.raises(RequestError) as caught:
        settle_chosen(rig.vhost, b"q", b"nobody", ACKNOWLEDGE, None, 0, 100, None, 1000)
    assert caught.value.reason == NOT_FOUND


def test_whoever_consumes_in_a_sublet_group_acknowledges_what_nobody_holds(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 3, x_leasing="sublet")
    rig.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 1, {})
    rig.settle()
    settling = rig.vhost.settling
    assert not settling.acknowledge_waiting(b"q", b"", 1, 2), "who does not consume settles nothing"
    assert settling.acknowledge_waiting(b"q", b"", 1, 1)
    assert not settling.acknowledge_waiting(b"q", b"", 1, 1), "it is settled"
    assert settling.acknowledge_waiting(b"q", b"", 3, 1)
    publish(rig, 1)
    assert rig.kept(b"q") == [b"0", b"2"]
