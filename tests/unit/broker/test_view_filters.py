"""The filter on the input of a view: what the view has, for how much work in a turn, and through every end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import Properties
from forebay.core.options import make_options
from forebay.core.stored.entry_kinds import INTAKE, SETTLED
from forebay.management.groups import move_group
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.session.blocks.reading import readable
from tests.restarts import ENDS, RestartRig
from tests.vhosts import OneVhost

EVEN = "/n % 2 = 0"
PAGE = 1024


def opened(folder: Path) -> OneVhost:
    broker = OneVhost(folder)
    broker.declare(b"orders", x_queue_type="stream")
    return broker


def view(broker: OneVhost, name: bytes = b"v", filter: str = EVEN, **arguments: object) -> Queue:
    broker.declare(name, x_source="orders", x_filter=filter, **arguments)
    return broker.vhost.catalog.queue(name)


def fill(broker: OneVhost, first: int, end: int, properties: bytes = EXCHANGE_FORMAT.encode(Properties())) -> None:
    for number in range(first, end):
        broker.publish(b"", b"orders", b'{"n": %d}' % number, properties)
    broker.settle()


def look_through(broker: OneVhost, queue: Queue) -> int:
    """Let turns pass until the view has looked at all of its stream; how many that took."""
    for turns in range(1000):
        if queue.groups and all(group.next_offset() == queue.log.end for group in queue.groups.values()):
            return turns
        broker.wait(1)
    raise AssertionError("it does not end")


def kept(broker: OneVhost, name: bytes) -> list[int]:
    return [json.loads(body)["n"] for body in broker.kept(name)]


def got(broker: OneVhost, name: bytes, group: str = "", **arguments: object) -> list[int]:
    """Consume all that is delivered in one turn."""
    given: dict[str, object] = {key.replace("_", "-"): value for key, value in arguments.items()}
    if group:
        given["x-consumer-group"] = group
    broker.vhost.consumers.consume(name, 1, 1, group.encode() or b"c", False, False, 0, given)
    found: list[int] = []
    for delivery in broker.deliveries():
        for index in range(delivery.index, delivery.index + delivery.count):
            found.append(json.loads(delivery.block.body(index))["n"])
    return found


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("declared", ["before", "after"])
def test_a_view_has_only_what_its_filter_matches(tmp_path: Path, kind: str, declared: str) -> None:
    broker = opened(tmp_path)
    if declared == "before":
        view(broker, x_queue_type=kind)
    fill(broker, 0, 20)
    if declared == "after":
        view(broker, x_queue_type=kind)
        broker.settle()
    queue = broker.vhost.catalog.queue(b"v")
    assert (queue.ready(), queue.counts.published) == (10, 10)
    assert kept(broker, b"v") == list(range(0, 20, 2))
    assert got(broker, b"v") == list(range(0, 20, 2))
    assert kept(broker, b"orders") == list(range(20))


@pytest.mark.parametrize("way", ENDS)
def test_every_end_keeps_what_the_view_took_and_settled(tmp_path: Path, way: str) -> None:
    broker = RestartRig(tmp_path, way)
    broker.declare(b"orders", x_queue_type="stream")
    view(broker)
    fill(broker, 0, 3 * PAGE)
    queue = broker.vhost.catalog.queue(b"v")
    look_through(broker, queue)
    leases = [broker.taken(b"v") for _ in range(1000)]
    for lease in leases[5:]:
        broker.vhost.settling.ack(lease, lease.first, 1)
    broker.settle()
    broker.flush()
    broker.end(1)
    queue = broker.vhost.catalog.queue(b"v")
    look_through(broker, queue)
    assert kept(broker, b"v") == [*range(0, 10, 2), *range(2000, 3 * PAGE, 2)]
    assert queue.ready() == 5 + (3 * PAGE - 2000) // 2
    fill(broker, 3 * PAGE, 3 * PAGE + 4)
    assert got(broker, b"v")[-2:] == [3 * PAGE, 3 * PAGE + 2]


def test_no_turn_looks_at_a_whole_backlog_and_what_was_found_is_delivered_meanwhile(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    fill(broker, 0, 2000)
    looks = broker.vhost.catalog.properties.looks
    looks.most = 500
    looks.begin()
    queue = view(broker)
    first = got(broker, b"v")
    assert first == list(range(0, 2 * len(first), 2))
    assert 0 < len(first) < 500
    assert look_through(broker, queue) >= 1
    assert queue.counts.published == 1000


def test_what_is_not_taken_is_not_kept_for_the_view_though_nobody_consumes(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    view(broker, filter="/n >= 90")
    fill(broker, 0, 100)
    broker.vhost.upkeep.truncate(b"orders", 95)
    broker.settle()
    log = broker.vhost.catalog.queue(b"orders").log
    assert (log.start, kept(broker, b"v"), kept(broker, b"orders")) == (90, [*range(90, 100)], [*range(95, 100)])


def test_groups_of_a_view_share_its_filter(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    queue = view(broker)
    fill(broker, 0, 10)
    for group in ("", "a", "b"):
        assert got(broker, b"v", group) == [0, 2, 4, 6, 8]
    assert queue.counts.published == 5


def test_a_reader_of_the_view_as_a_stream_gets_the_same(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    view(broker)
    fill(broker, 0, 10)
    broker.flush()
    assert got(broker, b"v", x_stream_offset="first") == [0, 2, 4, 6, 8]


def test_filters_of_consumers_choose_from_what_the_view_has(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    view(broker)
    fill(broker, 0, 20)
    broker.vhost.consumers.consume(b"v", 1, 1, b"c", False, False, 0, {"x-filter": "/n % 3 = 0"})
    broker.turn()
    found = broker.vhost.catalog.queue(b"v").find_group(b"")
    assert isinstance(found, WorkGroup)
    assert sorted(int(lease.first) for lease in found.leases.all_live()) == [0, 6, 12, 18]
    assert found.ready() == 6


def test_priorities_and_limits_hold_for_what_the_view_has(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    view(broker, b"short", x_max_length=3)
    view(broker, b"levels", x_max_priority=5)
    fill(broker, 0, 10)
    high = Properties()
    high.priority = 5
    fill(broker, 10, 13, EXCHANGE_FORMAT.encode(high))
    assert kept(broker, b"short") == [8, 10, 12]
    assert got(broker, b"levels") == [10, 12, 0, 2, 4, 6, 8]


def test_a_purge_and_a_move_of_the_group_know_the_filter(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    queue = view(broker)
    fill(broker, 0, 10)
    assert broker.vhost.upkeep.purge(b"v") == 5
    fill(broker, 10, 14)
    assert kept(broker, b"v") == [10, 12]
    group = queue.find_group(b"")
    assert isinstance(group, WorkGroup)
    move_group(broker.vhost, queue, group, 3)
    for _ in range(2):
        look_through(broker, queue)
        assert kept(broker, b"v") == [4, 6, 8, 10, 12]
        broker.flush()
        broker.crash()
        queue = broker.vhost.catalog.queue(b"v")


def test_the_index_and_the_settlements_take_few_octets(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    notes: dict[int, int] = {}
    store_note = broker.store.note

    def note(kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        notes[kind] = notes.get(kind, 0) + len(payload)
        store_note(kind, queue, group, payload, urgent)

    view(broker)
    dispatcher = broker.vhost.dispatcher
    try:
        dispatcher.store.note = note  # type: ignore[method-assign]
    except (AttributeError, TypeError):
        pytest.skip("compiled")
    for first in range(0, 8 * PAGE, 256):
        fill(broker, first, first + 256)
        for lease in [broker.taken(b"v") for _ in range(128)]:
            broker.vhost.settling.ack(lease, lease.first, 1)
        broker.settle()
    assert kept(broker, b"v") == []
    assert 0 < notes[INTAKE] <= 2 * 8 * PAGE / 8
    assert notes[SETTLED] <= 2 * 8 * PAGE
    checkpointed = sum(len(entry.payload) for entry in broker.vhost.catalog.checkpoint() if entry.kind == SETTLED)
    assert checkpointed <= 64


def test_blocks_of_a_view_with_a_filter_are_not_read(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    queue = view(broker)
    with pytest.raises(RequestError, match="is a view with a filter: read its stream"):
        readable(queue)
    assert readable(broker.vhost.catalog.queue(b"orders")) is broker.vhost.catalog.queue(b"orders")


def test_a_filter_stays_as_it_was_declared(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    view(broker)
    view(broker)
    with pytest.raises(RequestError) as caught:
        view(broker, filter="/n = 1")
    assert caught.value.reason == PRECONDITION
    assert make_options({"queues": [{"name": "v", "source": "s", "filter": EVEN}]}).queues[0].filter == EVEN
