"""Records that consumers refused, and annotations that they gave: nothing is lost, doubled, or kept too long."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from librt.strings import BytesWriter

from forebay.core.message import AMQP091
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.message.annotations import MODIFIED, annotation
from forebay.queue.declaration.limits import Limits
from forebay.queue.leases.lease import FAILED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.ready.refused import CONSUMER_MAX, GROUP_MAX, RefusedRecords
from forebay.queue.work.attempts import Attempts
from forebay.queue.work.modified import GROUP_MAX as MODIFIED_MAX
from forebay.queue.work.modified import RECORD_MAX, annotated_block
from forebay.queue.work.settlement import Settlement
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log


def filled(folder: Path, count: int) -> QueueLog:
    log = memory_log(str(folder))
    for number in range(count):
        log.append(AMQP091, b"", b"k", b"", b"%d" % number)
    log.seal(1)
    return log


class Model:
    """A group, its consumers, and what each of them has refused."""

    def __init__(self, group: WorkGroup, count: int, chance: random.Random) -> None:
        self.group = group
        self.chance = chance
        self.consumers: list[Consumer] = []
        self.refused: dict[int, set[int]] = {}  # consumer -> offsets
        self.held: dict[int, tuple[Lease, int]] = {}  # offset -> lease, and its consumer
        self.settled: set[int] = set()
        self.count = count
        self.now_us = 1
        self.ids = 0

    def join(self) -> None:
        self.ids += 1
        made = Consumer(self.ids, 1, 1, 1, 0, b"", False, 1 << 30)
        made.flow(self.chance.randrange(20), False)
        self.consumers.append(made)
        self.refused[self.ids] = set()
        self.group.add(made)

    def leave(self) -> None:
        if self.consumers:
            gone = self.consumers.pop(self.chance.randrange(len(self.consumers)))
            self.group.remove(gone)
            del self.refused[int(gone.id)]
            self.held = {offset: each for offset, each in self.held.items() if each[1] != gone.id}

    def dispatch(self) -> None:
        self.now_us += 1
        for consumer in self.consumers:
            consumer.flow(self.chance.randrange(8), False)
        out: list[Delivery] = []
        self.group.dispatch(self.now_us, out)
        for each in out:
            assert each.lease is not None
            for offset in range(each.block.base + each.index, each.block.base + each.index + each.count):
                assert offset not in self.held, "delivered twice"
                assert offset not in self.settled, "delivered after it was settled"
                assert offset not in self.refused[int(each.consumer.id)], "delivered to who has refused it"
                self.held[int(offset)] = (each.lease, int(each.consumer.id))

    def settle(self) -> None:
        if not self.held:
            return
        offset = self.chance.choice(sorted(self.held))
        lease, consumer = self.held.pop(offset)
        action = self.chance.randrange(5)
        if action < 2:
            assert self.group.ready_queue.refused.refuse(offset, consumer)
            self.refused[consumer].add(offset)
            self.group.give_back(lease, offset, 1, 0, self.chance.choice([UNTRIED, FAILED]))
        elif action == 2:
            due_us = self.now_us + 3 if self.chance.randrange(2) else 0
            self.group.give_back(lease, offset, 1, due_us, UNTRIED)
        else:
            self.settled.add(offset)
            if action == 3:
                self.group.ack(lease, offset, 1)
            else:
                self.group.reject(lease, offset, 1)

    def check(self) -> None:
        waiting = self.count - len(self.settled) - len(self.held)
        assert self.group.ready() == waiting - sum(count for _, _, count in self.group.delayed.heap)

    def finish(self) -> None:
        """Everything can be had in the end, by somebody new."""
        while self.consumers:
            self.leave()
        refused = self.group.ready_queue.refused
        assert (refused.count, refused.by_offset, refused.by_consumer, refused.waiting) == (0, {}, {}, set())
        self.now_us += 100
        self.ids += 1
        last = Consumer(self.ids, 1, 1, 1, 0, b"", False, 1 << 30)
        self.refused[self.ids] = set()
        self.group.add(last)
        out: list[Delivery] = []
        self.group.dispatch(self.now_us, out)
        assert sum(each.count for each in out) == self.count - len(self.settled)


@pytest.mark.parametrize("seed", range(40))
def test_refused_records_against_a_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    count = 60
    group = WorkGroup(1, b"", b"", filled(tmp_path, count), 0, Limits())
    if seed % 3 == 0:
        group.ready_queue.make_ordered(seed % 2 == 0)
    model = Model(group, count, chance)
    for _ in range(400):
        chance.choice([model.join, model.leave, model.dispatch, model.settle, model.settle, model.settle])()
        model.check()
    model.finish()


def test_a_purge_takes_what_was_refused(tmp_path: Path) -> None:
    group = WorkGroup(1, b"", b"", filled(tmp_path, 3), 0)
    consumer = Consumer(1, 1, 1, 1, 0, b"", False, 10)
    group.add(consumer)
    out: list[Delivery] = []
    group.dispatch(1, out)
    lease = out[0].lease
    assert lease is not None
    group.ready_queue.refused.refuse(1, 1)
    group.attempts.modify(1, b"note")
    group.give_back(lease, 0, 3, 0, UNTRIED)
    assert group.ready() == 3
    assert group.purge() == 3
    assert (group.ready(), group.ready_queue.refused.count, group.attempts.modified.octets) == (0, 0, 0)


def test_the_number_of_refused_records_is_bounded() -> None:
    refused = RefusedRecords()
    for offset in range(CONSUMER_MAX):
        assert refused.refuse(offset, 1)
    assert not refused.refuse(CONSUMER_MAX, 1)
    consumer = 2
    while refused.count < GROUP_MAX:
        assert refused.refuse(refused.count, consumer + refused.count // CONSUMER_MAX)
    assert not refused.refuse(0, 99)
    refused.forget(0)
    assert refused.refuse(0, 99)


# ---- annotations


def attempts_of(tmp_path: Path) -> Attempts:
    return Attempts(Settlement(filled(tmp_path, 10), 0))


def test_annotations_come_back_after_a_restart(tmp_path: Path) -> None:
    attempts = attempts_of(tmp_path)
    for offset, value in ((1, b"a"), (2, b"b" * 24), (3, b"c" * 1000), (4, b"d" * 25)):
        assert attempts.modify(offset, value)
        attempts.note(offset, 1, 1)
    assert attempts.modify(4, b"again")
    attempts.note(7, 2, 5)
    first = attempts.take_notes()
    again = Attempts(attempts.settlement)
    again.restore(first)
    again.prune()
    assert again.modified.by_offset == attempts.modified.by_offset
    assert again.modified.of(4) == b"again"
    assert again.of(8) == 5
    once_more = Attempts(attempts.settlement)
    once_more.restore(again.snapshot([(50, 7, 1)]))
    once_more.prune()
    assert once_more.modified.by_offset == attempts.modified.by_offset
    assert once_more.take_delays() == [(50, 7, 1)]


def test_annotations_of_what_is_settled_do_not_come_back(tmp_path: Path) -> None:
    attempts = attempts_of(tmp_path)
    attempts.modify(1, b"a")
    attempts.note(1, 1, 1)
    again = Attempts(attempts.settlement)
    again.restore(attempts.take_notes())
    again.settlement.restore(settled(1, 2))
    again.prune()
    assert (again.modified.by_offset, again.modified.octets) == ({}, 0)


def settled(first: int, end: int) -> bytes:
    from librt.strings import write_i64_le

    out = BytesWriter()
    write_i64_le(out, first)
    write_i64_le(out, end)
    return out.getvalue()


def test_annotations_have_bounds(tmp_path: Path) -> None:
    attempts = attempts_of(tmp_path)
    assert not attempts.modify(1, b"x" * (RECORD_MAX + 1))
    offset = 0
    while attempts.modify(offset, b"x" * RECORD_MAX):
        offset += 1
    assert offset == MODIFIED_MAX // (RECORD_MAX + 120)
    attempts.forget(0, offset)
    assert attempts.modified.octets == 0


def test_a_record_with_annotations_is_one_of_its_own(tmp_path: Path) -> None:
    block = filled(tmp_path, 3).block(0)
    assert isinstance(block, Block)
    made = annotated_block(block, 1, b"note")
    assert (made.base, made.count, made.body(0), made.timestamp_us(0)) == (1, 1, b"1", block.timestamp_us(1))
    assert annotation(made.annotations(0), MODIFIED) == b"note"
