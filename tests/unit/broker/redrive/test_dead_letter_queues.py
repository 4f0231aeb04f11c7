"""What administrators do with dead letters: list, look, send back, change, discard."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from forebay.broker.redrive import dead_letter_queues as dlq
from forebay.core.errors import INVALID, NOT_FOUND, PRECONDITION, REFUSED, RequestError
from forebay.core.message import MQTT, Properties
from forebay.filter.parser import parse
from forebay.message.subject import RecordSubject
from forebay.wire.amqp091 import properties as amqp
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.mqtt.properties import USER_PROPERTY, Property, encode_properties, user_property
from tests.vhosts import EMPTY, OneVhost

ALL = 1000
TIME_MS = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    """Two queues whose dead letters are for one."""
    broker = OneVhost(tmp_path / "data")
    broker.declare(b"dead")
    broker.declare(b"orders", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.declare(b"mails", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=10)
    return broker


def reject(broker: OneVhost, queue: bytes, *bodies: bytes, properties: bytes = EMPTY) -> None:
    """Publish messages and reject them."""
    for body in bodies:
        broker.publish(b"", queue, body, properties)
    broker.settle()
    for _ in bodies:
        lease = broker.taken(queue)
        broker.vhost.settling.reject(lease, lease.first, 1)
    broker.settle()


def expire(broker: OneVhost, *bodies: bytes) -> None:
    for body in bodies:
        broker.publish(b"", b"mails", body)
    broker.settle()
    broker.later(20)


def bodies(broker: OneVhost, where: str = "", first: int = 0, limit: int = ALL) -> list[bytes]:
    filter = parse(where) if where else None
    found = list(islice(dlq.walk(broker.vhost, broker.vhost.catalog.queue(b"dead"), first), limit))
    return [letter.block.body(letter.index) for letter in found if filter is None or filter.matches(letter)]


def letters(broker: OneVhost, queue: bytes, first: int = 0) -> list[RecordSubject]:
    return list(dlq.walk(broker.vhost, broker.vhost.catalog.queue(queue), first))


def test_queues_with_dead_letters_are_found_whatever_leads_there(broker: OneVhost) -> None:
    for name in (b"by-key", b"by-exchange", b"behind", b"$dlq/x", b"other"):
        broker.declare(name)
    broker.vhost.catalog.bind(b"by-key", b"amq.direct", b"k", {})
    broker.vhost.catalog.bind(b"other", b"amq.direct", b"l", {})
    broker.declare(b"a", x_dead_letter_exchange="amq.direct", x_dead_letter_routing_key="k")
    broker.vhost.catalog.declare_exchange(b"one", b"fanout", True, False, False, {})
    broker.vhost.catalog.declare_exchange(b"two", b"fanout", True, False, False, {})
    broker.vhost.catalog.bind_exchange(b"two", b"one", b"", {})
    broker.vhost.catalog.bind(b"by-exchange", b"one", b"", {})
    broker.vhost.catalog.bind(b"behind", b"two", b"", {})
    broker.declare(b"b", x_dead_letter_exchange="one")
    broker.declare(b"c", x_dead_letter_exchange="none")
    broker.declare(b"d", x_dead_letter_exchange="", x_dead_letter_routing_key="missing")
    names = [queue.name for queue in dlq.dead_letter_queues(broker.vhost)]
    assert names == [b"$dlq/x", b"behind", b"by-exchange", b"by-key", b"dead"]


def test_a_summary_counts_by_cause_and_by_origin(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0", b"1")
    broker.clock.us += 5_000_000
    expire(broker, b"2")
    broker.publish(b"", b"dead", b"straight there")
    found = dlq.summary(broker.vhost, broker.vhost.catalog.queue(b"dead"))
    assert (found.messages, found.held, found.counted) == (4, 0, 4)
    assert found.causes == {"rejected": 2, "expired": 1, "unknown": 1}
    assert found.origins == {"orders": 2, "mails": 1, "unknown": 1}
    assert (found.oldest_ms, found.newest_ms) == (TIME_MS, TIME_MS + 5020)


def test_messages_are_looked_at_and_stay(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0", b"1", b"2")
    expire(broker, b"3")
    lease = broker.taken(b"dead")
    assert bodies(broker) == [b"0", b"1", b"2", b"3"], "what a consumer holds is shown too"
    assert bodies(broker, "death_reason = 'rejected' AND death_queue = 'orders'") == [b"0", b"1", b"2"]
    assert bodies(broker, "death_reason = 'expired'") == [b"3"]
    assert bodies(broker, first=2, limit=1) == [b"2"]
    assert broker.vhost.settling.ack(lease, lease.first, 1) == 1
    assert bodies(broker) == [b"1", b"2", b"3"]


def test_messages_go_back_to_where_they_died(broker: OneVhost) -> None:
    broker.vhost.catalog.bind(b"orders", b"amq.direct", b"k", {})
    broker.declare(b"copy")
    broker.vhost.catalog.bind(b"copy", b"amq.direct", b"k", {})
    broker.publish(b"amq.direct", b"k", b"0")
    broker.settle()
    lease = broker.taken(b"orders")
    broker.vhost.settling.reject(lease, lease.first, 1)
    broker.settle()
    expire(broker, b"1")
    done = dlq.redrive(broker.vhost, b"dead", parse("death_queue = 'orders'"), b"", 0, ALL)
    broker.settle()
    assert (done.done, done.held, done.next) == (1, 0, None)
    assert (broker.kept(b"orders"), broker.kept(b"dead"), broker.kept(b"copy")) == ([b"0"], [b"1"], [b"0"])
    block = broker.vhost.catalog.queue(b"orders").log.block(1)
    assert block is not None
    assert (block.exchange(0), block.routing_key(0)) == (b"amq.direct", b"k")


def test_a_message_that_went_back_remembers_its_deaths(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0")
    dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL)
    broker.settle()
    reject(broker, b"orders")
    lease = broker.taken(b"orders")
    broker.vhost.settling.reject(lease, lease.first, 1)
    broker.settle()
    found = letters(broker, b"dead")
    assert [letter.property("death_count") for letter in found] == [2]


def test_what_went_back_may_take_the_same_way_again(broker: OneVhost) -> None:
    """Without anybody's rejection; were it for `x-death` alone it would seem to go in a circle."""
    broker.declare(b"late", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=10)
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="late", x_message_ttl=10)
    broker.publish(b"", b"q", b"0")
    broker.settle()
    for times in (1, 2, 3):
        broker.later(20)
        broker.later(20)
        assert broker.kept(b"dead") == [b"0"]
        found = letters(broker, b"dead")
        assert found[0].property("death_count") == times
        dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL)
        broker.settle()
        assert broker.kept(b"q") == [b"0"]
    found = letters(broker, b"q")
    deaths = found[0].header("x-death")
    assert isinstance(deaths, list)
    assert [(each["queue"], each["reason"], each["count"]) for each in deaths] == [
        ("dead", "redriven", 3),
        ("late", "expired", 3),
        ("q", "expired", 3),
    ]


def test_it_goes_back_to_the_first_of_its_deaths(broker: OneVhost) -> None:
    broker.declare(b"retry", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="retry")
    reject(broker, b"q", b"0")
    lease = broker.taken(b"retry")
    broker.vhost.settling.reject(lease, lease.first, 1)
    broker.settle()
    dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL)
    broker.settle()
    assert (broker.kept(b"q"), broker.kept(b"retry"), broker.kept(b"dead")) == ([b"0"], [], [])


def test_messages_go_where_they_are_told(broker: OneVhost) -> None:
    broker.declare(b"elsewhere")
    reject(broker, b"orders", b"0")
    broker.publish(b"", b"dead", b"1")
    assert dlq.redrive(broker.vhost, b"dead", None, b"elsewhere", 0, ALL).done == 2
    broker.settle()
    assert (broker.kept(b"elsewhere"), broker.kept(b"dead")) == ([b"0", b"1"], [])


def test_what_was_rejected_over_mqtt_goes_back_as_it_was(broker: OneVhost) -> None:
    broker.declare(b"q", x_dlq=True)
    block = encode_properties([Property(USER_PROPERTY, 0, b"colour", b"red")])
    broker.vhost.publishing.publish(broker.vhost.router.route_topic(b"$queue/q/a", None), MQTT | 16, block, b"0")
    broker.vhost.dead_letters.reject(broker.held(b"q"), 0, b"bad")
    broker.settle()
    dlq.redrive(broker.vhost, b"$dlq/q", parse("death_reason = 'bad'"), b"", 0, ALL)
    broker.settle()
    back = broker.vhost.catalog.queue(b"q").log.block(1)
    assert back is not None
    assert (back.routing_key(0), back.body(0), back.format(0)) == (b"$queue/q/a", b"0", MQTT | 16)
    assert user_property(back.properties(0), b"colour") == b"red"


def test_what_a_consumer_holds_stays(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0", b"1")
    lease = broker.taken(b"dead")
    done = dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL)
    assert (done.done, done.held) == (1, 1)
    broker.settle()
    assert (broker.kept(b"orders"), broker.kept(b"dead")) == ([b"1"], [b"0"])
    assert broker.vhost.settling.ack(lease, lease.first, 1) == 1


def test_it_goes_in_portions(broker: OneVhost) -> None:
    reject(broker, b"orders", *[b"%d" % number for number in range(5)])
    first = dlq.redrive(broker.vhost, b"dead", None, b"", 0, 2)
    assert (first.done, first.scanned, first.next) == (2, 2, 2)
    second = dlq.redrive(broker.vhost, b"dead", None, b"", 2, 2)
    assert second.next == 4
    third = dlq.redrive(broker.vhost, b"dead", None, b"", 4, 2)
    assert (third.done, third.next) == (1, None)
    broker.settle()
    assert broker.kept(b"orders") == [b"0", b"1", b"2", b"3", b"4"]


def test_messages_are_sent_back_by_offset_and_never_twice(broker: OneVhost) -> None:
    reject(broker, b"orders", *[b"%d" % number for number in range(8)])
    lease = broker.taken(b"dead")  # offset 0
    wanted = [(0, 2), (4, 6), (7, 9)]
    first = dlq.redrive(broker.vhost, b"dead", None, b"", 0, 2, wanted)
    assert (first.done, first.held, first.gone, first.next) == (2, 1, 0, 5)
    second = dlq.redrive(broker.vhost, b"dead", None, b"", 5, 2, wanted)
    assert (second.done, second.held, second.gone, second.next) == (2, 0, 1, None)  # there is no offset 8
    broker.settle()
    again = dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL, wanted)
    assert (again.done, again.held, again.gone, again.next) == (0, 1, 5, None)
    some = dlq.redrive(broker.vhost, b"dead", parse("offset = 3"), b"", 0, ALL, [(2, 4)])
    assert (some.done, some.scanned, some.gone) == (1, 2, 0)
    assert dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL, []).done == 0
    broker.settle()
    assert broker.kept(b"orders") == [b"1", b"4", b"5", b"7", b"3"]
    broker.vhost.settling.ack(lease, lease.first, 1)
    broker.settle()
    assert broker.kept(b"dead") == [b"2", b"6"]


def test_by_offset_those_that_cannot_go_hold_up_nobody(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0")
    broker.publish(b"", b"dead", b"1")
    broker.publish(b"", b"dead", b"2")
    reject(broker, b"orders", b"3")
    done = dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL, [(0, 9)])
    assert (done.done, done.refused, done.gone) == (2, 2, 5)
    assert done.refusal == "offset 1: the message does not say where it died"
    broker.settle()
    assert (broker.kept(b"orders"), broker.kept(b"dead")) == ([b"0", b"3"], [b"1", b"2"])


def test_what_the_nameless_group_has_settled_is_gone_though_another_wants_it(broker: OneVhost) -> None:
    broker.vhost.consumers.consume(b"dead", 1, 1, b"c", False, False, 0, {"x-consumer-group": "other"})
    reject(broker, b"orders", b"0", b"1")
    assert dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL, [(0, 1)]).done == 1
    broker.settle()
    again = dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL, [(0, 2)])
    assert (again.done, again.held, again.gone) == (1, 0, 1)


def test_a_message_without_a_way_back_stays(broker: OneVhost) -> None:
    broker.publish(b"", b"dead", b"0")
    with pytest.raises(RequestError, match="offset 0: the message does not say where it died") as unknown:
        dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL)
    assert unknown.value.reason == NOT_FOUND
    reject(broker, b"orders", b"1")
    broker.vhost.upkeep.delete_queue(b"orders", False, False)
    with pytest.raises(RequestError, match="offset 1: queue 'orders', where it died, is no more") as gone:
        dlq.redrive(broker.vhost, b"dead", None, b"", 1, ALL)
    assert gone.value.reason == NOT_FOUND
    with pytest.raises(RequestError, match="is the queue itself") as itself:
        dlq.redrive(broker.vhost, b"dead", None, b"dead", 0, ALL)
    assert itself.value.reason == INVALID
    broker.settle()
    assert broker.kept(b"dead") == [b"0", b"1"]


def test_what_finds_no_room_stays_and_what_went_before_is_gone(broker: OneVhost) -> None:
    broker.declare(b"small", x_max_length=1, x_overflow="reject-publish")
    reject(broker, b"orders", b"0", b"1")
    with pytest.raises(RequestError, match="queue 'small' is full") as full:
        dlq.redrive(broker.vhost, b"dead", None, b"small", 0, ALL)
    assert full.value.reason == REFUSED
    broker.settle()
    assert (broker.kept(b"small"), broker.kept(b"dead")) == ([b"0"], [b"1"])


def test_messages_are_discarded_by_what_they_say(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0", b"1")
    expire(broker, b"2")
    done = dlq.discard(broker.vhost, b"dead", parse("death_queue = 'orders'"), 0, ALL)
    assert (done.done, done.scanned, done.next) == (2, 3, None)
    broker.settle()
    assert broker.kept(b"dead") == [b"2"]


def test_a_message_is_changed(broker: OneVhost) -> None:
    said = Properties()
    said.headers = [("colour", "red"), ("size", 5)]
    said.message_id = "m"
    reject(broker, b"orders", b"0", b"1", properties=amqp.encode_properties(said))
    dlq.edit(broker.vhost, b"dead", 0, b"better", {"colour": "blue", "size": None}, b"new-key")
    broker.settle()
    assert broker.kept(b"dead") == [b"1", b"better"]
    found = letters(broker, b"dead", 2)
    block = found[0].block
    after = amqp.decode_properties(block.properties(found[0].index), TABLE_DEPTH_MAX)
    assert (after.header("colour"), after.header("size"), after.message_id) == ("blue", None, "m")
    assert (block.routing_key(found[0].index), found[0].property("death_queue")) == (b"new-key", "orders")
    dlq.redrive(broker.vhost, b"dead", None, b"", 2, ALL)
    broker.settle()
    assert broker.kept(b"orders") == [b"better"]


def test_a_message_of_mqtt_is_changed(broker: OneVhost) -> None:
    block = encode_properties([Property(USER_PROPERTY, 0, b"colour", b"red"), Property(USER_PROPERTY, 0, b"a", b"b")])
    broker.vhost.publishing.publish(broker.vhost.router.route_topic(b"$queue/dead/a", None), MQTT | 16, block, b"0")
    broker.settle()
    dlq.edit(broker.vhost, b"dead", 0, None, {"colour": 7, "a": None})
    broker.settle()
    changed = broker.vhost.catalog.queue(b"dead").log.block(1)
    assert changed is not None
    assert user_property(changed.properties(0), b"colour") == b"7"
    assert user_property(changed.properties(0), b"a") is None
    assert changed.body(0) == b"0"


def test_what_cannot_be_changed_is_said(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0")
    with pytest.raises(RequestError, match="offset: 7 is not in queue 'dead'") as missing:
        dlq.edit(broker.vhost, b"dead", 7, b"x")
    assert missing.value.reason == NOT_FOUND
    lease = broker.taken(b"dead")
    with pytest.raises(RequestError, match="offset: 0 of queue 'dead' is held by a consumer") as held:
        dlq.edit(broker.vhost, b"dead", 0, b"x")
    assert held.value.reason == PRECONDITION
    broker.vhost.settling.ack(lease, lease.first, 1)
    with pytest.raises(RequestError, match="offset: 0 is not in queue 'dead'"):
        dlq.edit(broker.vhost, b"dead", 0, b"x")
    broker.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 1)
    with pytest.raises(RequestError, match="'s' is a stream") as stream:
        dlq.discard(broker.vhost, b"s", None, 0, ALL)
    assert stream.value.reason == INVALID


def test_a_redrive_is_on_disk_as_a_whole_or_not_at_all(broker: OneVhost) -> None:
    reject(broker, b"orders", b"0", b"1", b"2")
    dlq.redrive(broker.vhost, b"dead", None, b"", 0, 1)
    dlq.edit(broker.vhost, b"dead", 1, b"better")
    broker.settle()
    dlq.redrive(broker.vhost, b"dead", None, b"", 0, ALL)
    broker.turn(sync=False)
    broker.crash()
    assert (broker.kept(b"orders"), broker.kept(b"dead")) == ([b"0"], [b"2", b"better"])
    broker.close()
