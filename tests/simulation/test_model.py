"""The model knows what may have gone by itself."""

from __future__ import annotations

import pytest

from tests.simulation.audit import Audit
from tests.simulation.broker import Broker
from tests.simulation.disk import SimDisk
from tests.simulation.kinds import KINDS
from tests.simulation.model import Model
from tests.simulation.queues import UNKNOWN, Queue
from tests.stores import TestClock


def test_a_publish_that_may_have_come_only_the_second_time_takes_the_place_of_one_more() -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock())
    queue = model.declared("short", KINDS["short"])
    again, oldest, *others = [model.new_message("a0", 0) for _ in range(7)]
    for message in (again, oldest, *others):
        model.published(message, "", "short")
    assert not queue.may_go(queue.copies[oldest.number], 0)
    again.taken = UNKNOWN  # its connection has ended without an answer
    model.published(again, "", "short")
    assert queue.may_go(queue.copies[oldest.number], 0)
    assert not queue.may_go(queue.copies[others[0].number], 0)


@pytest.mark.parametrize("tight", [False, True])
def test_a_publish_may_have_been_refused_for_want_of_room_when_it_comes_again(tight: bool) -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock())
    queue = model.declared("classic", KINDS["classic"])
    message = model.new_message("m0", 0)
    model.is_tight = tight
    model.published(message, "", "classic")
    first = queue.copies[message.number].place
    model.published(message, "", "classic")
    assert queue.copies[message.number].place == (-1 if tight else first)


@pytest.mark.parametrize(("settled", "promised"), [(False, True), (True, True), (False, False)])
def test_a_delayed_message_that_came_just_before_a_crash_may_be_over(settled: bool, promised: bool) -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock())
    queue = model.queues["classic"] = model.known[1] = Queue(1, "classic", {})
    message = model.new_message("a0", 0)
    message.promised = promised
    model.delay(message, "", "classic", 0)
    model.release()
    if settled:
        model.settle(queue, message.number)
    model.turned(2)
    for _ in range(2):
        Audit(model, True, durable=1).check_delayed()
    assert model.delayed[message.number].vague == (settled or not promised)
