"""The model knows what may have gone by itself."""

from __future__ import annotations

from random import Random

import pytest

from tests.conformance.mqtt.raw import V5
from tests.simulation.broker import Broker, Inside, StoredQueue
from tests.simulation.clients.amqp import AmqpClient
from tests.simulation.clients.channel import OFFSET, Consuming, Taken
from tests.simulation.clients.mqtt import MqttClient
from tests.simulation.disk import SimDisk
from tests.simulation.kinds import GROUPED, GROUPS, KEEPERS, KINDS, SHARES
from tests.simulation.model.audit import Audit
from tests.simulation.model.model import Model
from tests.simulation.model.promises import NEVER, Wrong
from tests.simulation.model.queues import UNKNOWN, Message, Queue
from tests.simulation.model.vhosts import Vhosts
from tests.simulation.model.wills import Will
from tests.stores import TestClock


def test_a_publish_that_may_have_come_only_the_second_time_takes_the_place_of_one_more() -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    queue = model.declared("short", KINDS["short"])
    again, oldest, *others = [model.new_message("a0", 0) for _ in range(7)]
    for message in (again, oldest, *others):
        model.published(message, "", "short")
    assert not queue.may_go(queue.copies[oldest.number], 0)
    again.taken = UNKNOWN  # its connection has ended without an answer
    model.published(again, "", "short")
    assert queue.may_go(queue.copies[oldest.number], 0)
    assert not queue.may_go(queue.copies[others[0].number], 0)


def test_the_answer_to_a_publish_that_led_nowhere_promises_nothing_once_it_comes_again() -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    message = model.new_message("a0", 0)
    model.published(message, "", "classic")
    message.promised = True
    queue = model.declared("classic", KINDS["classic"])
    model.repeated(message, "", "classic")
    assert message.number in queue.copies
    assert not message.promised


@pytest.mark.parametrize("tight", [False, True])
def test_a_publish_may_have_been_refused_for_want_of_room_when_it_comes_again(tight: bool) -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
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
    model.broker = Broker(SimDisk(), TestClock()).inside()
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


def stream_of(*labels: str) -> tuple[Queue, AmqpClient, list[Message]]:
    """A stream where messages of these labels were published, and somebody who reads those of label x."""
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    queue = model.queues["stream"] = model.known[1] = Queue(1, "stream", KINDS["stream"])
    messages = [model.new_message("a1", 0) for _ in labels]
    for message, label in zip(messages, labels, strict=True):
        message.label = label
        model.published(message, "", "stream")
    client = AmqpClient("a2", model, ("stream",))
    client.consumers["1"] = Consuming(queue, label="x")
    return queue, client, messages


def read(client: AmqpClient, message: Message, offset: int) -> None:
    head = b"\x00\x3c\x00\x3c" + b"\x011" + (offset + 1).to_bytes(8, "big") + b"\x00"
    client.message(head, OFFSET + offset.to_bytes(8, "big"), message.body)


def compare(client: AmqpClient, queue: Queue, messages: list[Message]) -> None:
    bodies = [message.body for message in messages]
    count = len(bodies)
    stored = StoredQueue(queue.id, queue.name, bodies, list(range(count)), count, count)
    Audit(client.model, restarted=False).check_found(queue, stored)


@pytest.mark.parametrize(("offset", "is_wrong"), [(UNKNOWN, False), (1, True), (2, False)])
def test_a_group_begins_at_the_first_record_whose_place_is_known(
    monkeypatch: pytest.MonkeyPatch, offset: int, is_wrong: bool
) -> None:
    queue, client, (message,) = stream_of("")
    queue.copies[message.number].place = offset
    monkeypatch.setattr(Inside, "places", lambda _, group: {f"1/{group}": 2})
    if is_wrong:
        with pytest.raises(Wrong, match="1/keepers does not begin at the first record"):
            client.model.reads(queue, KEEPERS)
    else:
        client.model.reads(queue, KEEPERS)


def test_what_never_came_to_a_stream_does_not_make_what_nobody_has_read_come_late() -> None:
    queue, client, (lost, first, second, third) = stream_of("", "", "x", "")
    queue.copies[lost.number].vague = True
    read(client, second, offset=1)
    compare(client, queue, [first, second, third])


def test_a_stream_is_compared_with_what_was_published_also_where_it_was_read() -> None:
    queue, client, (first, second) = stream_of("x", "x")
    read(client, second, offset=0)
    read(client, first, offset=1)
    with pytest.raises(Wrong, match="behind a later one"):
        compare(client, queue, [second, first])


@pytest.mark.parametrize("is_full", [False, True])
def test_a_message_sent_without_acknowledgement_may_come_late_once_where_the_disk_is_full(is_full: bool) -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    model.broker.broker.was_full = is_full
    queue = model.declared("classic", KINDS["classic"])
    message = model.new_message("a0", 0)
    model.published(message, "", "classic")
    message.promised = queue.was_careless = True
    Audit(model, False).check_missing(queue)
    if is_full:
        model.delivered(queue, message.body, "a1")
    with pytest.raises(Wrong, match="it was settled there"):
        model.delivered(queue, message.body, "a1")


def test_a_session_whose_subscribe_was_not_answered_may_be_the_last_member_with_which_all_goes() -> None:
    model = Model()
    client, chance, filter = MqttClient("m0", model, V5, durable=True), Random(1), SHARES["jobs"]
    share = model.shares.by_filter[filter]
    share.members["m0"] = 1
    message = model.new_message("m1", 0)
    message.promised = True
    share.published(message)
    while [each for each, _ in client.asked] != [filter]:
        client.asked.clear()
        client.subscribe(chance)
    assert share.missing() == [message.number]
    client.is_clean = True
    client.open(chance)
    assert share.missing() == []


@pytest.mark.parametrize("is_late", [False, True])
def test_a_member_may_read_late_what_was_sent_to_it_before_another_got_it_for_good(is_late: bool) -> None:
    share = Model().shares.by_filter[SHARES["jobs"]]
    share.delivered("m0", 1, 2, is_late=False, text="m0 got message 1")
    if is_late:  # its line was over before the broker sent the message to the other
        share.delivered("m2", 1, 1, is_late=True, text="m2 got message 1")
    else:
        with pytest.raises(Wrong, match="which m0 got for good"):
            share.delivered("m2", 1, 1, is_late=False, text="m2 got message 1")
    assert share.got[1] == ("m0", 2)


def test_a_delayed_message_that_was_put_off_takes_the_place_of_one_more_as_long_as_it_may_come() -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    late, *others = [model.new_message("a0", 0) for _ in range(8)]
    model.is_tight = True
    model.delay(late, "", "brief", 0)
    model.release()
    model.is_tight = False
    queue = model.known[1] = model.declared("brief", {"x-max-length": 6})
    for message in others[:6]:
        model.published(message, "", "brief")
    oldest = queue.copies[others[0].number]
    assert queue.may_go(oldest, 0)
    assert not queue.may_go(queue.copies[others[1].number], 0)
    model.pass_on({late.number})
    assert queue.may_go(oldest, 0)
    model.pass_on(set())
    assert queue.may_go(oldest, 0)  # it has come
    model.published(others[6], "", "brief")
    assert not queue.may_go(queue.copies[others[2].number], 0)


def test_a_will_that_was_published_just_before_the_disk_was_full_may_not_be_retained() -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    model.retained.change("will/m0", 7).promised = True
    message = model.new_message("m0 in its will", 0)
    model.wills.begin(Will(NEVER, message, "will/m0", 0, True))
    model.wills.ended(model.wills.open[0])
    assert model.retained.is_sure("will/m0")
    model.tighten()
    assert not model.retained.is_sure("will/m0")


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_will_may_be_there_after_a_crash_where_the_broker_had_ended_the_connection(is_ended: bool) -> None:
    broker, model = Broker(SimDisk(), TestClock()), Model()
    model.broker = broker.inside()
    client = MqttClient("m0", model, V5, durable=True)
    client.line = broker.connect()
    will = Will(NEVER, model.new_message("m0 in its will", 0), "will/m0", 0, True, True, True)
    client.taken_in(will, False)
    client.line.closing = is_ended
    client.lose()
    assert will.is_vague == is_ended
    assert model.retained.is_sure("will/m0") != is_ended


def test_a_will_may_come_as_late_as_it_was_due_before_the_clock_went_back() -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    model.now_us = 600_000_000
    will = Will(NEVER, model.new_message("m0 in its will", 0), "will/m0", 5, True, True, True)
    model.wills.begin(will)
    model.wills.ended(will)
    model.now_us = 0
    model.wills.crashed()
    assert will.due_us == 605_000_000
    assert not model.retained.is_sure("will/m0")


@pytest.mark.parametrize("doubts", [False, True])
def test_a_queue_that_is_not_there_may_never_have_been_made_where_its_connection_was_about_to_end(doubts: bool) -> None:
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    model.doubts = doubts
    model.declared("classic", {})
    assert ("classic" in model.queues) != doubts


def grouped() -> tuple[Model, Queue]:
    """A work queue with two messages."""
    model = Model()
    model.broker = Broker(SimDisk(), TestClock()).inside()
    queue = model.declared(GROUPED, {})
    for _ in range(2):
        model.published(model.new_message("a0", 0), "", GROUPED)
    return model, queue


def test_each_group_has_every_message_and_settles_it_for_itself() -> None:
    model, queue = grouped()
    left, right = (model.groups[queue].joined(name) for name in GROUPS)
    model.settle(left, 1)
    assert left.copies[1].settled and not right.copies[1].settled
    model.published(model.new_message("a0", 0), "", GROUPED)
    assert [sorted(each.copies) for each in (left, right)] == [[1, 2, 3]] * 2


def test_a_group_that_comes_later_may_miss_what_another_has_settled_and_nothing_else() -> None:
    model, queue = grouped()
    model.settle(model.groups[queue].joined("left"), 1)
    right = model.groups[queue].joined("right")
    assert [right.copies[number].vague for number in (1, 2)] == [True, False]


def test_what_a_group_was_handed_before_it_went_elsewhere_is_settled_too_late() -> None:
    model, queue = grouped()
    group = model.groups[queue].joined("left")
    taken = Taken(group, 1, group.moves)
    model.groups[queue].move(group, "next")
    assert not taken.is_held
    assert all(copy.settled for copy in group.copies.values())


@pytest.mark.parametrize("number", [1, 2])
def test_a_vhost_that_nobody_has_made_is_wrong_and_so_is_one_that_is_missing(number: int) -> None:
    vhosts = Vhosts(lambda model: [])
    broker = Broker(SimDisk(), TestClock())
    vhosts.begin(broker)
    if number == 1:
        broker.real.vhosts.add(b"east")
    else:
        broker.real.vhosts.add(b"east")
        vhosts.made("east").promised = True
        broker.real.vhosts.delete(b"east")
    with pytest.raises(Wrong):
        vhosts.audit(restarted=True)


@pytest.mark.parametrize(("expiry_ms", "may_go"), [(500, True), (2000, False)])
def test_what_a_group_may_have_lost_by_its_age_it_may_have_lost_also_after_the_clock_went_back(
    expiry_ms: int, may_go: bool
) -> None:
    model, queue = grouped()
    queue.copies[1].message.expiry_ms = expiry_ms
    groups = model.groups[queue]
    group = groups.known[1] = groups.joined("left")
    for copy in group.copies.values():
        copy.came_us = 9_000_000
    model.now_us = 10_000_000
    model.turn_back()
    assert [group.may_go(group.copies[number], 9_000_000) for number in (1, 2)] == [may_go, False]
