"""What readers ask of a broker beside records: which queues there are, how far they go, and that records stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.queue.source.pins import NOTED_US
from forebay.session.blocks.reading import NAMES_A_PAGE
from forebay.wire.blocks.frames import PREFACE, REPLY, REQUEST, BlocksFrame, decode_json, encode_json
from tests.logs import retain
from tests.unit.session.blocks.test_connection import LOGIN, Rig, blocks, error, fetch

STREAM: dict[str, object] = {"x-queue-type": "stream"}
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(str(tmp_path))
    made.vhost.catalog.declare_queue(b"s", True, False, False, STREAM, 0)
    made.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    made.turn()
    made.send(PREFACE)
    made.ask(LOGIN)
    yield made
    made.close()


def said(frame: BlocksFrame) -> dict[str, object]:
    assert frame.kind == REPLY, frame.payload
    return decode_json(frame.payload)


def ends(wait_ms: int = 0, **after: int) -> dict[str, object]:
    return {"op": "ends", "queues": after, "wait_ms": wait_ms}


def hold(queue: str, offset: int, group: str = "g", ttl_ms: int = 60_000) -> dict[str, object]:
    return {"op": "hold", "queue": queue, "group": group, "offset": offset, "ttl_ms": ttl_ms}


def tick(rig: Rig, us: int = 0) -> list[BlocksFrame]:
    """Time goes by; what was sent then."""
    rig.jump(us // 1000)
    return rig.frames()


# ---- which queues there are


def names(answer: dict[str, object]) -> list[object]:
    found = answer["queues"]
    assert isinstance(found, list)
    return [each["queue"] for each in found]


def test_queues_are_listed_by_name(rig: Rig) -> None:
    rig.fill(b"s", b"a", b"b")
    (answer,) = rig.ask({"op": "queues"})
    listed = said(answer)
    assert (names(listed), listed["next"]) == (["q", "s"], None)
    (described,) = rig.ask({"op": "describe", "queue": "s"})
    assert listed["queues"] == [said(rig.ask({"op": "describe", "queue": "q"})[0]), said(described)]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("[a-r]", ["q"]), ("s|q", ["q", "s"]), ("", ["q", "s"]), ("x", []), ("(?i)S", ["s"]), ("s.", [])],
)
def test_a_pattern_must_match_the_whole_name(rig: Rig, pattern: str, found: list[str]) -> None:
    assert names(said(rig.ask({"op": "queues", "pattern": pattern})[0])) == found


def test_a_bad_pattern_is_refused_with_what_is_wrong_in_it(rig: Rig) -> None:
    refusal = error(rig.ask({"op": "queues", "pattern": "a("})[0])
    assert (refusal["reason"], str(refusal["text"])[:18]) == ("invalid", "queues: pattern: c")


def test_a_list_goes_on_where_an_answer_ended(rig: Rig) -> None:
    for number in range(NAMES_A_PAGE):
        rig.vhost.catalog.declare_queue(b"n%04d" % number, False, False, False, {}, 0)
    first = said(rig.ask({"op": "queues"})[0])
    assert (len(names(first)), first["next"]) == (NAMES_A_PAGE, "q")
    rest = said(rig.ask({"op": "queues", "from": first["next"]})[0])
    assert (names(rest), rest["next"]) == (["q", "s"], None)


def test_queues_that_are_not_for_this_reader_are_left_out(rig: Rig) -> None:
    rig.vhost.catalog.declare_queue(b"mine", False, True, False, {}, 99)
    assert names(said(rig.ask({"op": "queues"})[0])) == ["q", "s"]
    permission = rig.session.rights.grants.permission
    assert permission is not None
    permission.read = "^s$"
    assert names(said(rig.ask({"op": "queues"})[0])) == ["s"]
    refusals = rig.ask(ends(s=0, q=0), hold("q", 0), {"op": "release", "queue": "q", "group": "g"})
    assert [error(each)["reason"] for each in refusals] == ["refused"] * 3


# ---- how far they go


def test_ends_are_told_at_once_without_a_wait(rig: Rig) -> None:
    rig.fill(b"s", b"a", b"b")
    answer = said(rig.ask(ends(s=2, q=0))[0])["queues"]
    assert isinstance(answer, dict)
    assert {name: (each["start"], each["end"]) for name, each in answer.items()} == {"s": (0, 2), "q": (0, 0)}
    assert answer["s"]["id"] == rig.vhost.catalog.queue(b"s").id


def test_ends_wait_until_one_moves(rig: Rig) -> None:
    assert rig.ask(ends(30_000, s=0, q=0), {"op": "describe", "queue": "s"}) == []
    rig.vhost.catalog.declare_queue(b"other", True, False, False, {}, 0)
    rig.fill(b"other", b"x")
    assert rig.sent() == []
    assert rig.vhost.publishing.publish(rig.vhost.router.route(b"", b"q"), 1, b"", b"y").status == 0
    moved, described = rig.frames()
    assert said(moved)["queues"]["q"]["end"] == 1  # type: ignore[index]
    assert said(described)["queue"] == "s"
    assert not any(queue.watches for queue in rig.vhost.catalog.queues.values())
    assert rig.vhosts.shared.next_turn.watches == []


def test_ends_wait_no_longer_than_they_were_told(rig: Rig) -> None:
    assert rig.ask(ends(500, s=0)) == []
    assert tick(rig, 400_000) == []
    (answer,) = tick(rig, 200_000)
    assert said(answer)["queues"]["s"]["end"] == 0  # type: ignore[index]


def test_what_is_not_on_the_disk_ends_no_wait(rig: Rig) -> None:
    assert rig.ask(ends(30_000, s=0)) == []
    rig.vhost.publishing.publish(rig.vhost.router.route(b"", b"s"), 1, b"", b"a")
    rig.turn(sync=False)
    rig.turn(sync=False)
    assert rig.sent() == []
    assert rig.vhosts.shared.next_turn.sessions == []
    assert len(rig.frames()) == 1


def test_a_wait_for_an_ephemeral_queue_ends_with_the_turn(rig: Rig) -> None:
    rig.vhost.router.address_queues = "memory"
    rig.vhost.consumers.consume(b"$queue/e", 7, 1, b"t", False, False, 1, {})
    assert rig.ask(ends(30_000, e=0)) == []
    rig.vhost.publishing.publish(rig.vhost.router.route(b"", b"e"), 1, b"", b"a")
    (answer,) = rig.frames()
    assert said(answer)["queues"]["e"]["end"] == 1  # type: ignore[index]


def test_a_queue_that_goes_ends_the_wait(rig: Rig) -> None:
    assert rig.ask(ends(30_000, s=0, q=0)) == []
    rig.vhost.upkeep.delete_queue(b"q", False, False)
    (answer,) = rig.frames()
    assert error(answer)["reason"] == "not-found"
    assert rig.vhosts.shared.next_turn.watches == []


def test_who_leaves_waits_for_nothing(rig: Rig) -> None:
    assert rig.ask(ends(30_000, s=0, q=0)) == []
    rig.line.close()
    assert rig.vhosts.shared.next_turn.watches == []
    assert not any(queue.watches for queue in rig.vhost.catalog.queues.values())


def test_ends_of_an_unknown_queue(rig: Rig) -> None:
    refusal = error(rig.ask(ends(30_000, s=0, nowhere=0))[0])
    assert refusal["reason"] == "not-found"
    assert rig.vhosts.shared.next_turn.watches == []


# ---- how often records were delivered


def handed_out(rig: Rig, queue: str, first: int = 0, end: int = 100) -> tuple[object, object]:
    answer = said(rig.ask({"op": "deliveries", "queue": queue, "first": first, "end": end})[0])
    return answer["deliveries"], answer["next"]


def test_deliveries_of_what_is_out_and_of_what_came_back(rig: Rig) -> None:
    assert handed_out(rig, "q") == ([], 0)
    rig.fill(b"q", *(b"%d" % number for number in range(10)))
    assert handed_out(rig, "q") == ([], 10)
    consumer = rig.vhost.consumers.consume(b"q", 9, 1, b"t", False, False, 6, {})
    (delivery,) = rig.deliveries()
    lease = delivery.lease
    assert lease is not None
    rig.vhost.settling.ack(lease, 1, 1)
    rig.vhost.settling.nack(lease, 2, 1, 10_000)
    assert handed_out(rig, "q") == ([[0, 1], [2, 1], [3, 1], [4, 1], [5, 1]], 10)
    rig.vhost.consumers.cancel(consumer)
    assert handed_out(rig, "q", 3, 7) == ([[3, 1], [4, 1], [5, 1], [6, 1]], 7)
    rig.vhost.consumers.consume(b"q", 9, 1, b"t", False, False, 1, {})
    rig.turn()
    assert handed_out(rig, "q", 0, 3) == ([[0, 2], [2, 1]], 3)
    assert handed_out(rig, "s") == ([], 0)


# ---- that records stay


def consume_all(rig: Rig, queue: bytes = b"q") -> int:
    """Take all that is ready out of a queue; how many."""
    count = 0
    while rig.vhost.consumers.get(queue, 5, 1, True) is not None:
        count += 1
    rig.turn()
    return count


def bases(rig: Rig, queue: str, first: int = 0, end: int = 100) -> tuple[int, list[int]]:
    """The queue's start as a fetch says it, and the offsets that it gives."""
    _, start, found = blocks(rig.ask(fetch(queue, first, end))[0])
    return start, [base + at for base, count in found for at in range(count)]


def test_what_is_held_stays_though_it_is_consumed(rig: Rig) -> None:
    for body in (b"a", b"b", b"c"):
        rig.fill(b"q", body)
    assert said(rig.ask(hold("q", 1))[0]) == {"offset": 1, "start": 0}
    assert consume_all(rig) == 3
    queue = rig.vhost.catalog.queue(b"q")
    assert bases(rig, "q") == (1, [1, 2])
    assert (queue.ready(), queue.log.start, queue.log.kept) == (0, 3, 1)
    assert said(rig.ask({"op": "describe", "queue": "q"})[0])["start"] == 1
    assert queue.source.needed(0, 3) == [(1, 3)]
    assert said(rig.ask(hold("q", 2))[0]) == {"offset": 2, "start": 2}
    assert bases(rig, "q") == (2, [2])
    assert said(rig.ask(hold("q", 0))[0]) == {"offset": 2, "start": 2}
    assert said(rig.ask({"op": "release", "queue": "q", "group": "g"})[0]) == {}
    assert bases(rig, "q") == (3, [])
    assert said(rig.ask({"op": "release", "queue": "q", "group": "g"})[0]) == {}


@pytest.mark.parametrize("queue", ["s", "q"])
def test_what_is_held_stays_though_it_is_purged(rig: Rig, queue: str) -> None:
    rig.fill(queue.encode(), b"a", b"b")
    rig.ask(hold(queue, 0))
    assert rig.vhost.upkeep.purge(queue.encode()) == 2
    rig.turn()
    assert rig.vhost.catalog.queue(queue.encode()).ready() == 0
    assert bases(rig, queue) == (0, [0, 1])
    rig.fill(queue.encode(), b"c")
    assert rig.vhost.catalog.queue(queue.encode()).ready() == 1
    assert bases(rig, queue) == (0, [0, 1, 2])
    consumer = rig.vhost.consumers.consume(queue.encode(), 9, 1, b"t", True, False, 0, {"x-stream-offset": "first"})
    assert [each.block.body(each.index) for each in rig.deliveries()] == [b"c"]
    rig.vhost.consumers.cancel(consumer)


def test_a_streams_limits_do_not_count_what_is_held(rig: Rig) -> None:
    rig.vhost.catalog.declare_queue(b"l", True, False, False, {**STREAM, "x-max-age": "1h"}, 0)
    log = rig.vhost.catalog.queue(b"l").log
    rig.fill(b"l", b"a")
    rig.ask(hold("l", 0, ttl_ms=DAY_MS))
    for body in (b"b", b"c"):
        rig.clock.us += 1_800_000_000
        rig.fill(b"l", body)
        tick(rig)
    tick(rig, 2_000_000_000)
    assert (log.start, log.kept, log.end) == (1, 0, 3)
    assert retain(log, rig.clock.us, 0, 0, 1)
    assert (log.start, log.kept) == (2, 0)
    assert not retain(log, rig.clock.us, 0, log.octets // 2, 0)
    assert retain(log, rig.clock.us, 0, 1, 0)
    assert (log.start, log.kept) == (3, 0)
    assert bases(rig, "l") == (0, [0, 1, 2])


def test_the_lowest_hold_decides(rig: Rig) -> None:
    for body in (b"a", b"b", b"c"):
        rig.fill(b"q", body)
    rig.ask(hold("q", 2, "late"), hold("q", 0, "early"))
    consume_all(rig)
    assert bases(rig, "q") == (0, [0, 1, 2])
    rig.ask({"op": "release", "queue": "q", "group": "early"})
    assert bases(rig, "q") == (2, [2])


def test_a_hold_ends_by_itself_unless_it_is_renewed(rig: Rig) -> None:
    rig.fill(b"q", b"a")
    rig.ask(hold("q", 0, ttl_ms=1000))
    consume_all(rig)
    tick(rig, 900_000)
    rig.ask(hold("q", 0, ttl_ms=1000))
    tick(rig, 900_000)
    assert bases(rig, "q") == (0, [0])
    tick(rig, 200_000)
    assert bases(rig, "q") == (1, [])
    assert rig.vhost.catalog.queue(b"q").pins.by_name == {}


@pytest.mark.parametrize("ttl_ms", [1, 999, DAY_MS + 1])
def test_a_time_to_live_out_of_bounds_is_refused(rig: Rig, ttl_ms: int) -> None:
    refusal = error(rig.ask(hold("q", 0, ttl_ms=ttl_ms))[0])
    assert f"ttl_ms is {ttl_ms}, not a number from 1000 to {DAY_MS}" in str(refusal["text"])
    assert rig.vhost.catalog.queue(b"q").pins.by_name == {}


def test_a_new_hold_is_answered_when_it_is_on_the_disk(rig: Rig) -> None:
    rig.fill(b"q", b"a", b"b")
    assert asks_for_commit(rig, hold("q", 0)) == (True, 1)
    assert asks_for_commit(rig, hold("q", 1)) == (False, 0)
    tick(rig, NOTED_US)
    assert asks_for_commit(rig, hold("q", 2)) == (False, 1)
    rig.fill(b"q", b"c")
    rig.ask(hold("q", 0, "other"), hold("q", 3))
    assert asks_for_commit(rig, hold("q", 2)) == (True, 1)


def asks_for_commit(rig: Rig, request: dict[str, object]) -> tuple[bool, int]:
    """Whether a request waits for the disk, and how many notes it makes."""
    frame = rig.store.frame
    assert frame is not None
    before = frame.pieces
    rig.send(encode_json(REQUEST, request))
    asked = (frame.urgent, frame.pieces - before)
    assert rig.session.hold_lsn > rig.store.durable or not frame.urgent
    (answer,) = rig.frames()
    assert answer.kind == REPLY
    return asked


def test_holds_of_a_deleted_queue_are_gone(rig: Rig) -> None:
    rig.fill(b"q", b"a")
    rig.ask(hold("q", 0))
    rig.vhost.upkeep.delete_queue(b"q", False, False)
    rig.turn()
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    rig.turn()
    assert rig.vhost.catalog.queue(b"q").pins.by_name == {}
    rig.fill(b"q", b"b")
    consume_all(rig)
    assert bases(rig, "q") == (1, [])


def test_a_hold_waits_for_a_rewrite_that_does_not_know_of_it(rig: Rig) -> None:
    for number in range(6):
        rig.fill(b"q", b"%d" % number + bytes(500))
    assert rig.vhost.consumers.get(b"q", 5, 1, False) is not None, "the first stays out, so the log's start stays"
    consume_all(rig)
    rig.checkpoint()
    while (job := rig.plan()) is None or not job.rewrites:
        if job is not None:
            rig.work()
        rig.flush()
    rig.send(encode_json(REQUEST, hold("q", 0)) + encode_json(REQUEST, {"op": "describe", "queue": "q"}))
    for _ in range(2):
        rig.flush()
        assert rig.sent() == []
    rig.work()
    rig.jump(1000)
    held, described = rig.frames()
    assert said(held) == {"offset": 0, "start": 0}
    assert said(described)["queue"] == "q"
    assert bases(rig, "q") == (0, [0]), "what was settled before the hold may go, as it would have by then"
    rig.fill(b"q", b"new")
    consume_all(rig)
    assert bases(rig, "q") == (0, [0, 6])


def test_a_queue_that_is_held_is_not_unused(rig: Rig) -> None:
    rig.vhost.catalog.declare_queue(b"u", True, False, False, {"x-expires": 10_000}, 0)
    rig.ask(hold("u", 0, ttl_ms=30_000))
    for _ in range(5):
        tick(rig, 5_000_000)
    rig.ask(hold("u", 0, ttl_ms=1_000))
    for _ in range(2):
        tick(rig, 2_000_000)
    assert b"u" in rig.vhost.catalog.queues
    tick(rig, 11_000_000)
    assert b"u" not in rig.vhost.catalog.queues


def test_too_many_holds_on_one_queue(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.broker.catalog.retention_pins.PINS_MAX", 2)
    answers = rig.ask(hold("q", 0, "a"), hold("q", 0, "b"), hold("q", 0, "c"), hold("q", 0, "b"))
    assert [answer.kind == REPLY for answer in answers] == [True, True, False, True]
    assert error(answers[2])["reason"] == "refused"
