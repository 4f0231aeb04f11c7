"""What dies in a work group and why, who is served, and what a queue remembers of what came back."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import AMQP091, EXPIRES
from forebay.filter.subject import Subject
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.declaration.limits import RETRY_ALL, RETRY_FAILED, RETRY_RETURNED, STRICT, Limits
from forebay.queue.leases.lease import FAILED, NACKED, UNLIMITED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.leases.retries import retry_us
from forebay.queue.properties import NoSubject, PropertyReader
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log

MS = 1000


class BodyFacts(PropertyReader):
    """A record's properties are its expiration in ms, its routing key its priority."""

    def priority(self, block: Block, index: int) -> int:
        return int(block.routing_key(index))

    def expiration_us(self, block: Block, index: int) -> int:
        return int(block.properties(index)) * MS

    def key(self, block: Block, index: int) -> bytes:
        return b""

    def filter_value(self, block: Block, index: int) -> bytes | None:
        return None

    def has_topic(self, block: Block, index: int) -> bool:
        return False

    def subject(self, queue: bytes, block: Block, index: int, deliveries: int, failures: int) -> Subject:
        return NoSubject()


class Rig:
    """A queue's log in memory and a work group with limits; `seen` is all that was delivered."""

    def __init__(self, folder: Path, **limits: object) -> None:
        self.log: QueueLog = memory_log(str(folder))
        self.limits = Limits()
        for name, value in limits.items():
            setattr(self.limits, name, value)
        self.group = WorkGroup(1, b"", b"", self.log, 0, self.limits, BodyFacts())
        if self.limits.priority_mode:
            self.group.ready_queue.make_ordered(False)
        self.ids = 0

    def publish(self, *ttls: int | None, now_us: int = 1, key: bytes = b"0", body: bytes = b"x") -> None:
        for ttl in ttls:
            format = AMQP091 if ttl is None else AMQP091 | EXPIRES
            self.log.append(format, b"", key, b"" if ttl is None else b"%d" % ttl, body)
        self.log.seal(now_us)

    def consumer(self, credit: int = UNLIMITED, priority: int = 0, no_ack: bool = False) -> Consumer:
        self.ids += 1
        made = Consumer(self.ids, 1, 1, self.ids, 0, b"", no_ack, credit)
        made.priority = priority
        self.group.add(made)
        return made

    def turn(self, now_us: int = 1) -> list[Delivery]:
        out: list[Delivery] = []
        self.group.dispatch(now_us, out)
        self.group.look_after(now_us)
        return out

    def offsets(self, now_us: int = 1) -> list[int]:
        return [at for each in self.turn(now_us) for at in range(each.block.base + each.index, end_of(each))]

    def dead(self) -> list[tuple[int, int, str]]:
        return [(each.first, each.count, each.cause) for each in self.group.dead_letters.runs]


def end_of(delivery: Delivery) -> int:
    return int(delivery.block.base + delivery.index + delivery.count)


def lease_of(delivery: Delivery) -> Lease:
    assert delivery.lease is not None
    return delivery.lease


# ---- expiry


def test_records_expire_at_the_head(tmp_path: Path) -> None:
    rig = Rig(tmp_path, dead_letter_exchange=b"dlx")
    rig.publish(5, None, 5, 7)
    rig.turn(6 * MS)
    assert rig.dead() == [(0, 1, "expired")]  # the one without an expiration stands before the others
    rig.consumer(1)
    assert rig.offsets(6 * MS) == [1]
    assert rig.dead() == [(0, 1, "expired"), (2, 1, "expired")]
    assert rig.group.ready_queue.next_expiry_us() == 1 + 7 * MS


def test_the_lower_of_the_two_times_holds(tmp_path: Path) -> None:
    rig = Rig(tmp_path, message_ttl_us=10 * MS)
    rig.publish(20, 5)
    assert rig.group.ready_queue.next_expiry_us() == 1 + 10 * MS
    rig.turn(11 * MS)
    assert rig.group.counts.expired == 2
    assert rig.group.settlement.advance() == 2  # nobody wants to have them: settled at once
    assert rig.group.dead_letters.runs == []


def test_a_returned_record_expires_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, message_ttl_us=10 * MS, dead_letter_exchange=b"dlx")
    rig.publish(None, None)
    consumer = rig.consumer()
    lease = lease_of(rig.turn(2)[0])
    rig.group.detach(consumer)
    rig.group.give_back(lease, 0, 2, 0, UNTRIED)
    rig.turn(12 * MS)
    assert rig.dead() == [(0, 1, "expired"), (1, 1, "expired")] or rig.dead() == [(0, 2, "expired")]
    assert rig.group.dead_letters.runs[0].deliveries == 1


def test_with_no_time_to_live_only_who_is_there_gets_a_record(tmp_path: Path) -> None:
    rig = Rig(tmp_path, message_ttl_us=0)
    rig.consumer(1)
    rig.publish(None, None, now_us=7)
    assert rig.offsets(7) == [0]
    assert rig.group.ready() == 0


def test_every_level_is_looked_through(tmp_path: Path) -> None:
    rig = Rig(tmp_path, priority_mode=STRICT, max_priority=2, dead_letter_exchange=b"dlx")
    rig.publish(5, 50, key=b"0")
    rig.publish(50, 5, key=b"1")
    rig.publish(5, key=b"2")
    rig.turn(6 * MS)
    assert sorted(rig.dead()) == [(0, 1, "expired"), (4, 1, "expired")]  # 3 stands behind 2


def test_what_is_dying_is_neither_settled_nor_ready(tmp_path: Path) -> None:
    rig = Rig(tmp_path, message_ttl_us=1, dead_letter_exchange=b"dlx")
    rig.publish(None, None)
    rig.turn(MS)
    assert (rig.group.ready(), rig.group.settlement.advance(), rig.group.dead_letters.count) == (0, 0, 2)
    assert rig.group.settlement.unsettled(0, 2) == [(0, 2)]
    rig.group.settle_dead_letters(0, 2)
    assert (rig.group.settlement.advance(), rig.group.dead_letters.count) == (2, 0)
    assert len(rig.group.take_progress()) == 16


# ---- length


def test_the_oldest_ready_ones_go_beyond_the_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, max_messages=2, dead_letter_exchange=b"dlx")
    rig.publish(None, None)
    rig.consumer(1)
    assert rig.offsets() == [0]
    rig.publish(None, None, None)
    rig.turn()
    assert rig.dead() == [(1, 2, "maxlen")]  # what a consumer holds does not count
    assert rig.group.ready() == 2


def test_octets_are_counted_of_what_is_ready(tmp_path: Path) -> None:
    rig = Rig(tmp_path, max_octets=10)
    rig.publish(None, None, body=b"12345")
    rig.turn()
    assert (rig.group.ready(), rig.group.ready_queue.octets.count) == (2, 10)
    consumer = rig.consumer(1)
    lease = lease_of(rig.turn()[0])
    assert rig.group.ready_queue.octets.count == 5
    rig.publish(None, body=b"1234567")
    rig.turn()
    assert (rig.group.ready(), rig.group.ready_queue.octets.count) == (1, 7)
    rig.group.detach(consumer)
    rig.group.give_back(lease, 0, 1, 0, UNTRIED)
    rig.turn()
    assert (rig.group.ready(), rig.group.ready_queue.octets.count) == (1, 7)  # the returned one was the head
    assert rig.group.purge() == 1
    assert rig.group.ready_queue.octets.count == 0


def test_a_limit_may_come_later(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(None, None, None, body=b"12345")
    rig.turn()
    rig.limits.max_octets = 5
    rig.turn()
    assert (rig.group.ready(), rig.group.ready_queue.octets.count) == (1, 5)


# ---- failures


def test_a_record_that_fails_too_often_dies(tmp_path: Path) -> None:
    rig = Rig(tmp_path, delivery_limit=1, dead_letter_exchange=b"dlx")
    rig.publish(None)
    rig.consumer()
    counts = []
    for failed in (True, False, True):
        delivery = rig.turn()[0]
        counts.append((delivery.deliveries, delivery.failures))
        rig.group.give_back(lease_of(delivery), 0, 1, 0, FAILED if failed else UNTRIED)
    assert counts == [(1, 0), (2, 1), (3, 1)]
    assert rig.turn() == []
    assert rig.dead() == [(0, 1, "delivery_limit")]
    assert (rig.group.dead_letters.runs[0].deliveries, rig.group.dead_letters.runs[0].failures) == (3, 2)


def test_rejected_records_die_out_of_the_middle_of_a_lease(tmp_path: Path) -> None:
    rig = Rig(tmp_path, dead_letter_exchange=b"dlx")
    rig.publish(None, None, None)
    consumer = rig.consumer(3)
    lease = lease_of(rig.turn()[0])
    assert rig.group.reject(lease, 1, 1) == 1
    assert rig.group.reject(lease, 1, 1) == 0
    assert consumer.credit == 1
    assert rig.group.ack(lease, 0, 3) == 2
    assert rig.dead() == [(1, 1, "rejected")]
    rig.group.settle_dead_letters(1, 1)
    assert rig.group.settlement.advance() == 3


def test_how_often_a_record_came_back_outlives_the_broker(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(None, None, None)
    consumer = rig.consumer()
    lease = lease_of(rig.turn()[0])
    rig.group.give_back(lease, 0, 2, 0, FAILED)
    rig.group.ack(lease, 2, 1)
    returns, progress = rig.group.attempts.take_notes(), rig.group.take_progress()
    assert rig.group.attempts.take_notes() == b""
    for noted in (returns, rig.group.attempts.snapshot([])):
        copy = WorkGroup(1, b"", b"", rig.log, 0)
        copy.attempts.restore(noted)
        copy.restore(progress)
        copy.finish_restore()
        copy.add(consumer)
        out: list[Delivery] = []
        copy.dispatch(1, out)
        assert [(each.count, each.deliveries, each.failures) for each in out] == [(2, 2, 1)]


def test_the_time_of_a_returned_record_outlives_the_broker(tmp_path: Path) -> None:
    """By its notes, by a snapshot, and whatever kinds of notes a later version adds."""
    rig = Rig(tmp_path)
    rig.publish(None, None, None, None)
    rig.consumer()
    lease = lease_of(rig.turn()[0])
    rig.group.give_back(lease, 0, 1, 50, NACKED)
    rig.group.give_back(lease, 1, 2, 80, NACKED)
    rig.group.give_back(lease, 3, 1, 0, NACKED)
    unknown = b"".join(number.to_bytes(8, "little") for number in (0, 0, 1 << 8 | 99, 7, 0, 0))
    for noted in (unknown + rig.group.attempts.take_notes(), rig.group.snapshot_returns()):
        copy = WorkGroup(1, b"", b"", rig.log, 0)
        copy.attempts.restore(noted)
        copy.finish_restore(60)
        assert (copy.delayed.heap, copy.ready()) == ([(80, 1, 2)], 2)
        assert copy.snapshot_returns() and copy.next_due_us() == 80
        copy.expire(79)
        assert copy.ready() == 2
        copy.expire(80)
        assert copy.ready() == 4


def test_a_record_that_returns_again_waits_for_no_earlier_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.publish(None)
    rig.consumer()
    rig.group.give_back(lease_of(rig.turn(1)[0]), 0, 1, 5, NACKED)
    rig.group.give_back(lease_of(rig.turn(10)[0]), 0, 1, 0, NACKED)
    copy = WorkGroup(1, b"", b"", rig.log, 0)
    copy.attempts.restore(rig.group.attempts.take_notes())
    copy.finish_restore(0)  # the clock went back
    assert copy.ready() == 1


@pytest.mark.parametrize(
    ("kind", "exponential", "failed", "times", "expected_ms"),
    [
        (RETRY_ALL, False, False, 3, 30),
        (RETRY_ALL, False, True, 3, 30),
        (RETRY_ALL, False, True, 30, 100),
        (RETRY_ALL, True, True, 4, 80),
        (RETRY_ALL, True, True, 1_000_000, 100),
        (RETRY_FAILED, False, True, 1, 10),
        (RETRY_FAILED, False, False, 1, 0),
        (RETRY_RETURNED, False, False, 1, 10),
        (RETRY_RETURNED, False, True, 1, 0),
    ],
)
def test_a_record_waits_before_it_is_tried_again(
    kind: int, exponential: bool, failed: bool, times: int, expected_ms: int
) -> None:
    limits = Limits()
    limits.retry_type, limits.retry_exponential = kind, exponential
    limits.retry_min_us, limits.retry_max_us = 10 * MS, 100 * MS
    assert retry_us(limits, FAILED if failed else UNTRIED, times, times if failed else 0) == expected_ms * MS


@pytest.mark.parametrize(
    ("factor", "times", "expected_ms"),
    [(1.0, 500, 10), (1.5, 1, 10), (1.5, 2, 15), (1.5, 3, 22.5), (3.0, 3, 90), (3.0, 4, 100), (1e6, 1 << 31, 100)],
)
def test_a_wait_grows_by_any_factor(factor: float, times: int, expected_ms: float) -> None:
    limits = Limits()
    limits.retry_type, limits.retry_exponential, limits.retry_factor = RETRY_ALL, True, factor
    limits.retry_min_us, limits.retry_max_us = 10 * MS, 100 * MS
    assert retry_us(limits, FAILED, times, times) == expected_ms * MS


@pytest.mark.parametrize(("counts", "cause"), [(True, [(0, 1, "delivery_limit")]), (False, [])])
def test_a_nack_counts_as_the_queue_says(tmp_path: Path, counts: bool, cause: list[tuple[int, int, str]]) -> None:
    rig = Rig(tmp_path, delivery_limit=0, dead_letter_exchange=b"dlx", nack_counts=counts)
    rig.publish(None)
    rig.consumer()
    rig.group.give_back(lease_of(rig.turn()[0]), 0, 1, 0, NACKED)
    assert rig.dead() == cause


def test_a_time_out_counts(tmp_path: Path) -> None:
    rig = Rig(tmp_path, delivery_limit=1, dead_letter_exchange=b"dlx")
    rig.publish(None)
    rig.consumer().timeout_us = 10 * MS
    for turn in range(4):
        rig.turn(1 + turn * 20 * MS)
    assert rig.dead() == [(0, 1, "delivery_limit")]
    assert rig.group.dead_letters.runs[0].deliveries == 2


def test_a_delayed_record_comes_when_its_time_has_come(tmp_path: Path) -> None:
    rig = Rig(tmp_path, retry_type=RETRY_ALL, retry_min_us=10 * MS, retry_max_us=10 * MS)
    rig.publish(None)
    rig.consumer()
    lease = lease_of(rig.turn(MS)[0])
    # Its time counts from when it was given back, not from when it was delivered.
    rig.group.give_back(lease, 0, 1, 0, FAILED)
    assert rig.turn(500 * MS) == []
    assert rig.turn(509 * MS) == []
    assert rig.group.next_due_us() == 510 * MS
    assert rig.offsets(510 * MS) == [0]


# ---- who is served


def test_the_higher_priority_is_served_while_it_has_credit(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    low, high, other = rig.consumer(), rig.consumer(2, priority=5), rig.consumer(2, priority=5)
    rig.publish(*[None] * 6)
    assert [each.consumer for each in rig.turn()] == [high, other, high, other, low, low]


def test_one_consumer_is_active_and_the_next_takes_its_place(tmp_path: Path) -> None:
    rig = Rig(tmp_path, single_active=True)
    first, second = rig.consumer(1), rig.consumer(1)
    rig.publish(None, None, None)
    lease = lease_of(rig.turn()[0])
    assert lease.consumer is first
    assert rig.turn() == []
    rig.group.remove(first)
    assert [each.consumer for each in rig.turn()] == [second]


def test_a_higher_priority_takes_over_once_the_active_one_holds_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, single_active=True)
    low = rig.consumer(5)
    rig.publish(None)
    lease = lease_of(rig.turn()[0])
    high = rig.consumer(5, priority=1)
    rig.publish(None)
    assert rig.turn() == []
    assert low.held == 1
    rig.group.ack(lease, 0, 1)
    assert [each.consumer for each in rig.turn()] == [high]


def test_who_holds_a_record_too_long_is_cancelled_if_it_is_to_be(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    patient, hasty = rig.consumer(1), rig.consumer(1)
    patient.timeout_us, hasty.timeout_us = 100 * MS, 10 * MS
    patient.cancels = hasty.cancels = True
    rig.publish(None, None, None)
    rig.turn()
    assert rig.group.next_due_us() == 10 * MS + 1
    rig.turn(10 * MS + 1)
    assert rig.group.overdue == [hasty]
    assert (hasty.timed_out, hasty.held) == (True, 0)
    assert rig.group.consumers == [patient]
    rig.turn(100 * MS + 1)
    assert rig.group.overdue == [hasty, patient]
    assert rig.group.ready() == 3
