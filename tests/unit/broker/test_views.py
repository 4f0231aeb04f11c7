"""Views: queues over the log of a stream, each with groups, settlements and limits of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.errors import NOT_FOUND, PRECONDITION, REFUSED, RequestError
from forebay.core.message import ACCEPTED, MQTT, Properties
from forebay.core.stored.entry_kinds import RELEASED
from forebay.management.groups import delete_group, find_group, move_group
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.queue.work.work_group import WorkGroup
from tests.restarts import ENDS, KILL, RestartRig
from tests.vhosts import OneVhost

STREAM = {"x_queue_type": "stream"}


def with_stream(folder: Path, **arguments: object) -> OneVhost:
    broker = OneVhost(folder)
    broker.declare(b"orders", **STREAM, **arguments)
    return broker


def view(broker: OneVhost, name: bytes, **arguments: object) -> None:
    broker.declare(name, x_source="orders", **arguments)


def fill(broker: OneVhost, first: int, end: int) -> None:
    for number in range(first, end):
        assert broker.publish(b"", b"orders", b"%d" % number) == ACCEPTED
    broker.settle()


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def settle(broker: OneVhost, queue: bytes, first: int, count: int, group: bytes = b"") -> None:
    """Settle records of a queue that a consumer of a group holds."""
    found = broker.vhost.catalog.queue(queue).find_group(group)
    assert isinstance(found, WorkGroup)
    for offset in range(first, first + count):
        lease = found.leases.find(offset)
        assert lease is not None
        broker.vhost.settling.ack(lease, offset, 1)
    broker.settle()


def leave(broker: OneVhost, queue: bytes) -> None:
    """Cancel the consumers of a queue."""
    for consumer in broker.vhost.catalog.queue(queue).consumers():
        broker.vhost.consumers.cancel(consumer)
    broker.settle()


def refusal(broker: OneVhost, name: bytes = b"v", **arguments: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        broker.declare(name, **arguments)
    assert name not in broker.vhost.catalog.queues or name == b"orders"
    return caught.value


# ---- what is in them


def test_two_views_and_their_stream_have_what_comes_into_the_stream(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"a")
    view(broker, b"b")
    fill(broker, 0, 10)
    assert (broker.held(b"a").count, broker.held(b"b").count) == (10, 10)
    settle(broker, b"a", 0, 10)
    assert (broker.kept(b"a"), broker.kept(b"b"), broker.kept(b"orders")) == ([], numbers(0, 10), numbers(0, 10))


def test_a_record_is_stored_once(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    for number in range(10):
        view(broker, b"v%d" % number)
    fill(broker, 0, 10)
    catalog = broker.vhost.catalog
    assert sum(int(queue.stored_octets()) for queue in catalog.queues.values()) == catalog.queue(b"orders").log.octets
    assert len({id(queue.log) for queue in catalog.queues.values()}) == 1
    assert [int(queue.ready()) for queue in catalog.queues.values()] == [10] * 11


def test_a_view_delivers_in_the_turn_of_the_publish(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    broker.vhost.consumers.consume(b"v", 1, 1, b"c", False, False, 0, {})
    broker.turn()
    broker.publish(b"", b"orders", b"now")
    assert [each.block.body(each.index) for each in broker.deliveries()] == [b"now"]


def test_what_was_published_in_this_turn_can_be_got(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    broker.settle()
    broker.publish(b"", b"orders", b"now")
    assert broker.taken(b"v").count == 1


@pytest.mark.parametrize(
    ("point", "first"), [("epoch", 0), ("now", 10), ("creation", 10), (4, 4), ("7", 7), ("timestamp=0", 0)]
)
def test_a_view_begins_at_its_recovery_point(tmp_path: Path, point: object, first: int) -> None:
    broker = with_stream(tmp_path)
    fill(broker, 0, 10)
    view(broker, b"v", x_recovery_point=point)
    fill(broker, 10, 12)
    assert broker.kept(b"v") == numbers(first, 12)
    broker.checkpoint()
    broker.crash()
    assert broker.kept(b"v") == numbers(first, 12)
    assert broker.held(b"v").first == first


def test_a_time_is_a_recovery_point(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    fill(broker, 0, 5)
    broker.wait(10)
    since = broker.clock.us // 1000
    fill(broker, 5, 10)
    view(broker, b"v", x_recovery_point=f"timestamp={since}")
    assert broker.kept(b"v") == numbers(5, 10)


# ---- what becomes of them


@pytest.mark.parametrize("way", ENDS)
def test_every_end_keeps_what_each_view_has_settled(tmp_path: Path, way: str) -> None:
    broker = RestartRig(tmp_path, way)
    broker.declare(b"orders", **STREAM)
    view(broker, b"a")
    view(broker, b"b")
    fill(broker, 0, 10)
    broker.held(b"a")
    broker.held(b"b")
    settle(broker, b"a", 2, 3)
    settle(broker, b"b", 0, 7)
    broker.flush()
    broker.end(1)
    assert broker.kept(b"a") == [*numbers(0, 2), *numbers(5, 10)]
    assert broker.kept(b"b") == numbers(7, 10)
    assert broker.kept(b"orders") == numbers(0, 10)
    fill(broker, 10, 12)
    assert broker.kept(b"b") == numbers(7, 12)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_deleted_stream_leaves_its_log_to_its_views(tmp_path: Path, checkpoint: bool) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"a", x_publish_target="orders")
    view(broker, b"b")
    fill(broker, 0, 10)
    number = int(broker.vhost.catalog.queue(b"orders").source.number)
    broker.publish(b"", b"a", b"10")
    broker.settle()
    broker.vhost.upkeep.delete_queue(b"orders", False, False)
    broker.settle()
    with pytest.raises(RequestError) as caught:
        broker.publish(b"", b"a", b"11")
    assert (caught.value.reason, "was deleted" in caught.value.text) == (NOT_FOUND, True)
    broker.held(b"a")
    settle(broker, b"a", 0, 11)
    broker.flush()
    if checkpoint:
        broker.checkpoint()
    broker.crash()
    assert (broker.kept(b"a"), broker.kept(b"b")) == ([], numbers(0, 11))
    assert number in broker.vhost.catalog.sources
    broker.vhost.upkeep.delete_queue(b"b", False, False)
    broker.settle()
    assert broker.vhost.catalog.queue(b"a").log.start == 11
    broker.vhost.upkeep.delete_queue(b"a", False, False)
    broker.settle()
    assert number not in broker.vhost.catalog.sources
    assert number not in broker.store.logs.stored
    broker.crash()
    assert not broker.vhost.catalog.queues


def test_a_new_stream_of_the_name_of_a_deleted_one_is_another(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v", x_publish_target="orders")
    fill(broker, 0, 3)
    broker.vhost.upkeep.delete_queue(b"orders", False, False)
    broker.declare(b"orders", **STREAM)
    fill(broker, 3, 6)
    assert (broker.kept(b"v"), broker.kept(b"orders")) == (numbers(0, 3), numbers(3, 6))
    with pytest.raises(RequestError):
        broker.publish(b"", b"v", b"nowhere")


@pytest.mark.parametrize("checkpoint", [False, True])
def test_retention_takes_from_the_stream_what_views_keep(tmp_path: Path, checkpoint: bool) -> None:
    broker = with_stream(tmp_path, x_max_length=3)
    view(broker, b"v")
    for number in range(10):
        fill(broker, number, number + 1)
    broker.held(b"v")
    settle(broker, b"v", 0, 2)
    leave(broker, b"v")
    broker.flush()
    broker.wait(2)
    stream = broker.vhost.catalog.queue(b"orders")
    assert (stream.start(), stream.log.start, stream.kept()) == (7, 2, 7)
    assert (broker.kept(b"orders"), broker.kept(b"v")) == (numbers(7, 10), numbers(2, 10))
    broker.flush()
    if checkpoint:
        broker.checkpoint()
    broker.crash()
    assert (broker.kept(b"orders"), broker.kept(b"v")) == (numbers(7, 10), numbers(2, 10))
    view(broker, b"late")
    assert broker.kept(b"late") == numbers(7, 10)
    broker.held(b"v")
    settle(broker, b"v", 2, 8)
    assert broker.vhost.catalog.queue(b"orders").log.start == 7


def test_a_reader_of_the_stream_is_moved_by_its_retention_and_not_by_its_views(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    fill(broker, 0, 10)
    broker.vhost.consumers.consume(b"orders", 1, 1, b"c", False, False, 1, {"x-stream-offset": "first"})
    assert broker.deliveries()[0].index == 0
    broker.vhost.upkeep.truncate(b"orders", 6)
    broker.settle()
    assert broker.kept(b"v") == numbers(0, 10)
    broker.vhost.consumers.consume(b"orders", 2, 1, b"c", False, False, 1, {"x-stream-offset": "first"})
    [delivery] = broker.deliveries()
    assert delivery.block.base + delivery.index == 6


@pytest.mark.parametrize("crashes", [False, True])
def test_a_reader_of_the_stream_does_not_come_back_to_what_only_views_keep(tmp_path: Path, crashes: bool) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    fill(broker, 0, 10)
    named: dict[str, object] = {"x-consumer-group": "g", "x-stream-offset": "first"}
    broker.vhost.consumers.consume(b"orders", 1, 1, b"c", False, False, 1, named)
    assert broker.deliveries()[0].index == 0
    broker.vhost.upkeep.purge(b"orders")
    broker.settle()
    leave(broker, b"orders")
    fill(broker, 10, 12)
    broker.flush()
    if crashes:
        broker.crash()
    broker.vhost.consumers.consume(b"orders", 2, 1, b"c", False, False, 1, {"x-consumer-group": "g"})
    [delivery] = broker.deliveries()
    assert (delivery.block.base + delivery.index, broker.kept(b"v")) == (10, numbers(0, 12))


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_view_has_for_the_first_time_is_not_marked_redelivered(tmp_path: Path, restarts: bool) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"before")
    fill(broker, 0, 3)
    broker.flush()
    broker.crash()
    view(broker, b"after")
    if restarts:
        broker.checkpoint()
        broker.vhosts.stop_in_order()
        broker.restart()
    for name, redelivered in ((b"before", True), (b"after", False)):
        broker.vhost.consumers.consume(name, 1, 1, b"c", False, False, 0, {})
        assert [each.redelivered for each in broker.deliveries()] == [redelivered], name


@pytest.mark.parametrize("queue", [b"v", b"orders"])
@pytest.mark.parametrize("consumes", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_purge_takes_from_one_queue_only(tmp_path: Path, queue: bytes, consumes: bool, checkpoint: bool) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    view(broker, b"other")
    fill(broker, 0, 10)
    if consumes:
        broker.taken(b"v")
        leave(broker, b"v")
        broker.vhost.consumers.close_channel(1, 1)
        broker.settle()
    assert broker.vhost.upkeep.purge(queue) == 10
    broker.settle()
    fill(broker, 10, 12)
    for _ in range(2):
        for name in (b"orders", b"v", b"other"):
            assert broker.kept(name) == numbers(10 if name == queue else 0, 12)
        broker.flush()
        if checkpoint:
            broker.checkpoint()
        broker.crash()


def test_a_view_without_its_groups_goes_on_where_they_were(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    fill(broker, 0, 10)
    named: dict[str, object] = {"x-consumer-group": "g"}
    broker.vhost.consumers.consume(b"v", 1, 1, b"c", False, False, 0, named)
    broker.turn()
    settle(broker, b"v", 0, 6, b"g")
    where = broker.vhost.catalog.queue(b"v")
    delete_group(broker.vhost, where, find_group(where, b"g"), False)
    broker.settle()
    assert broker.kept(b"v") == numbers(6, 10)
    broker.crash()
    assert broker.kept(b"v") == numbers(6, 10)
    assert broker.held(b"v").first == 6


def test_a_group_of_a_view_goes_back_as_far_as_the_stream(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    fill(broker, 0, 5)
    view(broker, b"v", x_recovery_point="now")
    fill(broker, 5, 10)
    broker.held(b"v")
    settle(broker, b"v", 5, 5)
    where = broker.vhost.catalog.queue(b"v")
    move_group(broker.vhost, where, find_group(where, b""), 2)
    broker.settle()
    for _ in range(2):
        assert broker.kept(b"v") == numbers(2, 10)
        broker.crash()
    broker.checkpoint()
    broker.crash()
    assert broker.kept(b"v") == numbers(2, 10)


# ---- limits, times, keys


def test_limits_are_of_the_view_alone(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"short", x_max_length=2)
    view(broker, b"brief", x_message_ttl=1000)
    fill(broker, 0, 5)
    assert broker.kept(b"short") == numbers(3, 5)
    broker.wait(2)
    assert (broker.kept(b"brief"), broker.kept(b"orders")) == ([], numbers(0, 5))


def test_dead_letters_of_a_view_are_its_own(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    broker.declare(b"dead")
    view(broker, b"v", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    view(broker, b"other")
    fill(broker, 0, 3)
    broker.vhost.settling.reject(broker.taken(b"v"), 0, 1)
    broker.settle()
    assert broker.kept(b"dead") == [b"0"]
    assert (broker.kept(b"v"), broker.kept(b"other")) == (numbers(1, 3), numbers(0, 3))


def properties(expiration_ms: int | None = None, key: str = "") -> bytes:
    made = Properties()
    made.expiration_ms = expiration_ms
    made.headers = [("x-group-id", key)] if key else []
    return EXCHANGE_FORMAT.encode(made)


def test_an_expiration_of_a_message_is_looked_after_without_a_consumer(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    broker.declare(b"dead")
    view(broker, b"v", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.publish(b"", b"orders", b"0", properties(expiration_ms=500))
    broker.settle()
    broker.wait(2)
    assert (broker.kept(b"v"), broker.kept(b"dead"), broker.kept(b"orders")) == ([], [b"0"], [b"0"])


@pytest.mark.parametrize("declared", ["before", "after"])
def test_message_groups_go_one_at_a_time(tmp_path: Path, declared: str) -> None:
    broker = with_stream(tmp_path)
    if declared == "before":
        view(broker, b"v")
    for body in (b"0", b"1"):
        broker.publish(b"", b"orders", body, properties(key="k"))
    broker.settle()
    if declared == "after":
        view(broker, b"v")
    for _ in range(2):
        lease = broker.held(b"v")
        assert (lease.first, lease.count, int(broker.vhost.catalog.queue(b"v").ready())) == (0, 1, 1)
        broker.flush()
        broker.crash()
    broker.held(b"v")
    settle(broker, b"v", 0, 1)
    assert broker.vhost.catalog.queue(b"v").ready() == 0


# ---- publishing


def test_a_publish_to_a_view_is_refused_by_name(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    for key in (b"v", b"$queue/v"):
        with pytest.raises(RequestError) as caught:
            broker.publish(b"", key, b"x")
        assert caught.value.reason == REFUSED
        assert "queue 'v' in vhost '/' is a view of stream 'orders'" in caught.value.text
        assert "x-publish-target" in caught.value.text
    with pytest.raises(RequestError) as caught:
        broker.vhost.router.route_topic(b"$queue/v", None)
    assert "is a view" in caught.value.text


def test_a_message_for_a_view_does_not_wait_for_its_time(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    with pytest.raises(RequestError, match="is a view of stream 'orders'"):
        broker.vhost.publishing.delay(b"", broker.clock.us + 10**6, MQTT, b"$queue/v/k", b"", b"x")
    view(broker, b"w", x_publish_target="orders")
    broker.vhost.publishing.delay(b"", broker.clock.us + 10**6, MQTT, b"$queue/w/k", b"", b"x")
    broker.wait(2)
    assert broker.kept(b"v") == [b"x"]


def test_a_publish_goes_to_the_target(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v", x_publish_target="orders")
    view(broker, b"other")
    assert broker.publish(b"", b"v", b"0") == ACCEPTED
    assert broker.publish(b"", b"$queue/v", b"1") == ACCEPTED
    broker.settle()
    for name in (b"v", b"other", b"orders"):
        assert broker.kept(name) == numbers(0, 2)
    broker.vhost.upkeep.delete_queue(b"orders", False, False)
    with pytest.raises(RequestError):
        broker.publish(b"", b"v", b"2")


def test_nothing_is_bound_to_a_view(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v")
    with pytest.raises(RequestError) as caught:
        broker.vhost.catalog.bind(b"v", b"amq.topic", b"#", {})
    assert (caught.value.reason, "name the stream" in caught.value.text) == (PRECONDITION, True)


# ---- declarations


@pytest.mark.parametrize(
    ("arguments", "reason", "part"),
    [
        ({"x_source": "nowhere"}, NOT_FOUND, "no stream 'nowhere'"),
        ({"x_source": "orders/#"}, NOT_FOUND, "patterns and several sources are not in force"),
        ({"x_source": 5}, PRECONDITION, "{unacceptable_type,signedint}"),
        ({"x_source": "plain"}, PRECONDITION, "queue 'plain' is no stream"),
        ({"x_source": "a"}, PRECONDITION, "'a' is a view itself, of 'orders': views of views are not in force"),
        ({"x_source": "orders", "x_queue_type": "stream"}, PRECONDITION, "rabbit_stream_queue"),
        ({"x_source": "orders", "x_overflow": "reject-publish"}, PRECONDITION, "x-overflow"),
        ({"x_source": "orders", "x_max_message_size": 5}, PRECONDITION, "x-max-message-size"),
        ({"x_source": "orders", "x_publish_filter": "a = 1"}, PRECONDITION, "its filter is x-filter"),
        ({"x_source": "orders", "x_publish_target": "plain"}, PRECONDITION, "'plain' is not its source, 'orders'"),
        ({"x_source": "orders", "x_recovery_point": "soon"}, PRECONDITION, "'soon' is none of epoch, now"),
        ({"x_source": "orders", "x_recovery_point": True}, PRECONDITION, "True is none of epoch, now"),
        ({"x_source": "orders", "x_recovery_point": -1}, PRECONDITION, "-1 is none of"),
        ({"x_source": "orders", "x_recovery_point": 7}, PRECONDITION, "offset 7 is beyond the end"),
        ({"x_recovery_point": "now"}, PRECONDITION, "only a view has it"),
        ({"x_filter": "a = 1"}, PRECONDITION, "only a view has it"),
        ({"x_source": "orders", "x_filter": "a ="}, PRECONDITION, "invalid arg 'x-filter'"),
        ({"x_source": "orders", "x_filter": "age_ms > 1"}, PRECONDITION, "age_ms is not known before"),
        ({"x_publish_target": "orders"}, PRECONDITION, "only a view has it"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    tmp_path: Path, arguments: dict[str, object], reason: str, part: str
) -> None:
    broker = with_stream(tmp_path)
    broker.declare(b"plain")
    view(broker, b"a")
    fill(broker, 0, 3)
    error = refusal(broker, b"v", **arguments)
    assert error.reason == reason
    assert part in error.text


@pytest.mark.parametrize(("durable", "exclusive"), [(False, False), (True, True)])
def test_a_view_is_as_durable_as_its_stream(tmp_path: Path, durable: bool, exclusive: bool) -> None:
    broker = with_stream(tmp_path)
    with pytest.raises(RequestError, match="as durable as its stream"):
        broker.vhost.catalog.declare_queue(b"v", durable, exclusive, False, {"x-source": "orders"}, 1)


def test_a_declaration_of_the_same_is_the_same_and_of_another_is_refused(tmp_path: Path) -> None:
    broker = with_stream(tmp_path)
    view(broker, b"v", x_recovery_point="now")
    number = broker.vhost.catalog.queue(b"v").id
    view(broker, b"v", x_recovery_point="now")
    assert broker.vhost.catalog.queue(b"v").id == number
    for arguments in ({}, {"x_source": "orders"}, {"x_source": "others", "x_recovery_point": "now"}):
        with pytest.raises(RequestError, match="inequivalent arg"):
            broker.declare(b"v", **arguments)


def test_a_folder_without_views_has_the_entries_that_it_always_had(tmp_path: Path) -> None:
    broker = with_stream(tmp_path, x_max_length=2)
    broker.declare(b"plain")
    fill(broker, 0, 9)
    broker.wait(2)
    assert not [entry for entry in broker.vhost.catalog.checkpoint() if entry.kind == RELEASED]
    assert not [entry for entry in broker.vhost.catalog.checkpoint() if b"source" in entry.payload]


def test_a_kill_between_two_settlements_takes_no_more_than_these(tmp_path: Path) -> None:
    broker = RestartRig(tmp_path, KILL)
    broker.declare(b"orders", **STREAM)
    view(broker, b"v")
    fill(broker, 0, 10)
    lease = broker.held(b"v")
    settle(broker, b"v", 0, 5)
    broker.flush()
    broker.vhost.settling.ack(lease, 5, 1)
    broker.end(1)
    assert broker.kept(b"v") == numbers(5, 10)
