"""Last-value queues in a vhost: what is replaced, refused, merged, leased, and recovered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mypy_extensions import u8

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import ACCEPTED, AMQP091, REJECTED
from forebay.management.groups import move_group
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.queue.work.work_group import WorkGroup
from tests.restarts import ENDS, RestartRig
from tests.vhosts import EMPTY, OneVhost

QUEUE = b"prices"
PATCH = EXCHANGE_FORMAT.edit(EMPTY, [], [("x-merge-patch", True), ("colour", "red")])


def prices(folder: Path, **arguments: object) -> OneVhost:
    broker = OneVhost(folder)
    broker.declare(QUEUE, x_last_value_key="/k", **arguments)
    return broker


def put(broker: OneVhost, key: str, value: object, properties: bytes = EMPTY) -> int:
    return broker.publish(b"", QUEUE, json.dumps({"k": key, "v": value}).encode(), properties)


def values(broker: OneVhost) -> list[tuple[str, object]]:
    broker.settle()
    return [(each["k"], each["v"]) for each in map(json.loads, broker.kept(QUEUE))]


def group_of(broker: OneVhost) -> WorkGroup:
    found = broker.vhost.catalog.queue(QUEUE).find_group(b"")
    assert isinstance(found, WorkGroup)
    return found


def test_the_latest_of_each_key_stays_without_any_consumer(tmp_path: Path) -> None:
    broker = prices(tmp_path)
    for number in range(20):
        assert put(broker, "ab"[number % 2], number) == ACCEPTED
        if number % 3 == 0:
            broker.settle()
    assert values(broker) == [("a", 18), ("b", 19)]
    queue = broker.vhost.catalog.queue(QUEUE)
    assert (queue.ready(), queue.counts.replaced, queue.log.start) == (2, 18, 18), "the log forgets the others"


def test_what_a_consumer_holds_stays_its_own_and_does_not_come_back(tmp_path: Path) -> None:
    broker = prices(tmp_path)
    put(broker, "a", 1)
    first = broker.taken(QUEUE)
    put(broker, "a", 2)
    assert values(broker) == [("a", 1), ("a", 2)]
    broker.vhost.settling.nack(first, first.first, 1, 0)
    assert values(broker) == [("a", 2)]
    second = broker.taken(QUEUE)
    put(broker, "a", 3)
    broker.settle()
    assert broker.vhost.settling.ack(second, second.first, 1) == 1
    assert values(broker) == [("a", 3)]


def test_what_comes_back_unreplaced_is_delivered_again(tmp_path: Path) -> None:
    broker = prices(tmp_path)
    put(broker, "a", 1)
    lease = broker.taken(QUEUE)
    broker.vhost.settling.nack(lease, lease.first, 1, 0)
    assert values(broker) == [("a", 1)]
    assert broker.taken(QUEUE).first == 0


def test_a_key_is_free_once_its_record_is_settled(tmp_path: Path) -> None:
    broker = prices(tmp_path, x_max_length=1)
    assert [put(broker, "a", 1), put(broker, "b", 1), put(broker, "a", 2)] == [ACCEPTED, REJECTED, ACCEPTED]
    broker.settle()
    lease = broker.taken(QUEUE)
    assert put(broker, "b", 1) == REJECTED, "it is not settled yet"
    broker.vhost.settling.ack(lease, lease.first, 1)
    assert put(broker, "b", 1) == ACCEPTED
    assert values(broker) == [("b", 1)]


def test_a_full_queue_and_a_message_without_a_key_say_why(tmp_path: Path) -> None:
    broker = prices(tmp_path, x_max_length=1)
    put(broker, "a", 1)
    route = broker.vhost.router.route(b"", QUEUE)
    publish = broker.vhost.publishing.publish
    full = publish(route, u8(AMQP091), EMPTY, b'{"k": "b"}')
    assert "queue 'prices' in vhost '/' is full: it has no room for a new key" in full.reason
    without = publish(route, u8(AMQP091), EMPTY, b"{}")
    assert without.status == REJECTED
    assert "wants a key of 1 to 1024 octets: /k gives none for this message" in without.reason


def test_expired_records_free_their_keys(tmp_path: Path) -> None:
    broker = prices(tmp_path, x_message_ttl=1000, x_max_length=1)
    put(broker, "a", 1)
    broker.settle()
    broker.jump(1001)
    assert values(broker) == []
    assert put(broker, "b", 1) == ACCEPTED


def test_a_message_group_has_no_effect(tmp_path: Path) -> None:
    broker = prices(tmp_path)
    grouped = EXCHANGE_FORMAT.edit(EMPTY, [], [("x-group-id", "g")])
    put(broker, "a", 1, grouped)
    put(broker, "b", 1, grouped)
    broker.settle()
    assert [broker.taken(QUEUE).first, broker.taken(QUEUE).first] == [0, 1]


# ---- merge patches


def test_a_patch_is_stored_as_the_whole_record(tmp_path: Path) -> None:
    broker = prices(tmp_path)
    broker.publish(b"", QUEUE, b'{"k":"a","bid":{"px":1,"qty":5},"ask":2}')
    broker.settle()
    assert broker.publish(b"", QUEUE, b'{"k":"a","bid":{"px":3},"ask":null}', PATCH) == ACCEPTED
    assert broker.publish(b"", QUEUE, b'{"k":"a","n":1}', PATCH) == ACCEPTED, "the other is in an open block"
    broker.settle()
    assert [json.loads(body) for body in broker.kept(QUEUE)] == [{"k": "a", "bid": {"px": 3, "qty": 5}, "n": 1}]
    block = broker.vhost.catalog.queue(QUEUE).log.block(2)
    assert block is not None
    assert EXCHANGE_FORMAT.headers(block.properties(2 - block.base)) == {"colour": "red"}


def test_a_patch_of_nothing_is_the_record_itself(tmp_path: Path) -> None:
    broker = prices(tmp_path)
    assert broker.publish(b"", QUEUE, b'{"k":"a","gone":null}', PATCH) == ACCEPTED
    broker.settle()
    assert broker.kept(QUEUE) == [b'{"k":"a"}']


@pytest.mark.parametrize(
    ("before", "patch"),
    [
        (b'{"k":"a"}', b'["a"]'),
        (b'{"k":"a"}', b'{"k":"a","deep":' + b'{"x":' * 200 + b"1" + b"}" * 201),
    ],
)
def test_a_patch_that_cannot_be_applied_is_refused(tmp_path: Path, before: bytes, patch: bytes) -> None:
    broker = prices(tmp_path)
    broker.publish(b"", QUEUE, before)
    assert broker.publish(b"", QUEUE, patch, PATCH) == REJECTED
    broker.settle()
    assert broker.kept(QUEUE) == [before]


def test_a_patch_that_would_change_the_key_is_refused(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(QUEUE, x_last_value_key="COALESCE(/id, /k)")
    broker.publish(b"", QUEUE, b'{"id":"a","k":"b"}')
    assert broker.publish(b"", QUEUE, b'{"k":"a"}', PATCH) == ACCEPTED, "the key a"
    assert broker.publish(b"", QUEUE, b'{"k":"a","id":{"x":1}}', PATCH) == REJECTED


# ---- what is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x_last_value_key": "/k ="}, "x-last-value-key"),
        ({"x_last_value_key": "/k = 1"}, "x-last-value-key"),
        ({"x_last_value_key": 5}, "unacceptable_type"),
        ({"x_last_value_key": "offset"}, "offset is not known before the message is in the queue"),
        ({"x_last_value_key": "/k", "x_queue_type": "stream"}, "of queue type rabbit_stream_queue"),
        ({"x_last_value_key": "/k", "x_overflow": "drop-head"}, "x-overflow"),
        ({"x_last_value_key": "/k", "x_retain": "7d"}, "x-retain"),
        ({"x_last_value_key": "/k", "x_source": "s"}, "x-last-value-key"),
    ],
)
def test_arguments_that_cannot_be(tmp_path: Path, arguments: dict[str, object], words: str) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"s", x_queue_type="stream")
    with pytest.raises(RequestError, match=words) as caught:
        broker.declare(QUEUE, **arguments)
    assert caught.value.reason == PRECONDITION
    assert QUEUE not in broker.vhost.catalog.queues


def test_a_group_cannot_go_back(tmp_path: Path) -> None:
    broker = prices(tmp_path)
    put(broker, "a", 1)
    broker.settle()
    with pytest.raises(RequestError, match="keeps nothing that was settled or replaced"):
        move_group(broker.vhost, broker.vhost.catalog.queue(QUEUE), group_of(broker), 0)


# ---- every end of a broker


@pytest.mark.parametrize("way", ENDS)
def test_the_latest_of_each_key_outlive_the_broker(tmp_path: Path, way: str) -> None:
    broker = RestartRig(tmp_path, way)
    broker.declare(QUEUE, x_last_value_key="/k")
    for number in range(10):
        put(broker, "abc"[number % 3], number)
    held = broker.taken(QUEUE)
    put(broker, "b", 10)
    broker.settle()
    newest = broker.taken(QUEUE)
    assert (held.first, newest.first) == (7, 8)
    broker.settle()
    broker.end(1.0)
    assert values(broker) == [("c", 8), ("a", 9), ("b", 10)]
    assert put(broker, "a", 11) == ACCEPTED
    assert values(broker) == [("c", 8), ("b", 10), ("a", 11)]


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("way", ENDS)
def test_an_older_record_does_not_come_back_after_a_newer_one_was_settled(
    tmp_path: Path, way: str, has_checkpoint: bool
) -> None:
    broker = RestartRig(tmp_path, way)
    broker.declare(QUEUE, x_last_value_key="/k")
    put(broker, "a", 1)
    broker.taken(QUEUE)
    put(broker, "a", 2)
    broker.settle()
    newest = broker.taken(QUEUE)
    broker.vhost.settling.ack(newest, newest.first, 1)
    broker.settle()
    if has_checkpoint:
        broker.checkpoint()
    broker.flush()
    broker.end(1.0)
    assert values(broker) == []
