"""The mover: to whom a record goes that is settled elsewhere, who refuses it, and who waits for its target."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from forebay.broker.publish.outcome import NO_ROOM
from forebay.broker.publish.route import Route
from forebay.broker.quota import Quota
from forebay.core.errors import REFUSED, RequestError
from forebay.core.message import ACCEPTED, AMQP091, MQTT, REJECTED, UNROUTABLE
from forebay.core.options import Options
from forebay.message.annotations import annotation
from forebay.message.deaths import Death, DeathMarks, Deaths, deaths_of, with_deaths
from forebay.message.formats.conversion import for_exchange
from forebay.message.record import StoredRecord, record_at
from tests.vhosts import OneVhost


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    broker = OneVhost(tmp_path / "data")
    broker.declare(b"open")
    broker.declare(b"full", x_max_length=1, x_overflow="reject-publish")
    broker.publish(b"", b"full", b"0")
    broker.settle()
    return broker


def record(format: int = AMQP091, body: bytes = b"body", annotations: bytes = b"") -> StoredRecord:
    return StoredRecord(format, b"x", b"k", b"" if format & MQTT else bytes(2), body, annotations)


def route(broker: OneVhost, *queues: bytes) -> Route:
    return Route(b"e", b"r", [broker.vhost.catalog.queue(name) for name in queues], None)


@pytest.mark.parametrize(
    ("queues", "whole", "status", "taken"),
    [
        ([b"open"], True, ACCEPTED, [b"body"]),
        ([b"open", b"full"], True, REJECTED, []),
        ([b"open", b"full"], False, ACCEPTED, [b"body"]),
        ([b"full"], False, REJECTED, []),
        ([], True, UNROUTABLE, []),
    ],
)
def test_who_takes_it(broker: OneVhost, queues: list[bytes], whole: bool, status: int, taken: list[bytes]) -> None:
    outcome = broker.vhost.mover.send(route(broker, *queues), record(), whole, True)
    assert outcome.status == status
    assert [queue.name for queue in outcome.queues] == [name for name in queues if name == b"full"]
    broker.settle()
    assert broker.kept(b"open") == taken
    assert broker.kept(b"full") == [b"0"]


def test_without_room_on_the_disk_nobody_has_it(broker: OneVhost) -> None:
    broker.disk.octets_max = broker.disk.used()
    where = route(broker, b"open")
    assert broker.vhost.mover.send(where, record(body=b"x" * 20_000), False, True) is NO_ROOM
    with pytest.raises(RequestError, match="'open' does not take it: no room on the disk") as refused:
        broker.vhost.mover.hand_over(where, record(body=b"x" * 20_000))
    assert refused.value.reason == REFUSED


def test_who_moves_by_choice_is_told_who_is_full(broker: OneVhost) -> None:
    with pytest.raises(RequestError, match="queue 'full' is full"):
        broker.vhost.mover.hand_over(route(broker, b"open", b"full"), record())
    broker.settle()
    assert broker.kept(b"open") == []


@pytest.mark.parametrize("format", [AMQP091, MQTT | 16])
def test_it_comes_as_it_was_with_the_words_of_its_route(broker: OneVhost, format: int) -> None:
    deaths = Deaths()
    deaths.add(Death(b"q", b"expired", 1, b"", [b"q"], b""))
    deaths.marks = DeathMarks(b"1-1-0", b"q", 0, b"", b"expired", 0, 5)
    sent = record(format, annotations=with_deaths(b"", deaths))
    assert broker.vhost.mover.send(route(broker, b"open"), sent, True, True).status == ACCEPTED
    broker.settle()
    block = broker.vhost.catalog.queue(b"open").log.block(0)
    assert block is not None
    found = record_at(block, 0)
    assert (found.format, found.exchange, found.routing_key) == (format, b"e", b"r")
    assert (found.properties, found.body, found.annotations) == (sent.properties, sent.body, sent.annotations)
    first = deaths_of(found.annotations).first
    assert first is not None and (first.queue, first.reason) == (b"q", b"expired")
    assert annotation(found.annotations, 1) == b""


def test_publishers_wait_for_the_queue_where_dead_letters_go(broker: OneVhost) -> None:
    """The target is over its share: nobody publishes there, so whoever feeds it is held back."""
    shares = broker.vhosts.shared.shares
    quota = Quota(broker.vhosts, Options())
    shares.disk_octets = 2000
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="open")
    source, target = broker.vhost.catalog.queue(b"q"), broker.vhost.catalog.queue(b"open")
    for _ in range(6):
        assert not source.crowded
        fed = target.crowded
        broker.publish(b"", b"q", b"x" * 600)
        broker.settle()
        lease = broker.taken(b"q")
        broker.vhost.settling.reject(lease, lease.first, 1)
        broker.settle()
        quota.look()
        if fed:
            break
    assert source.crowded
    assert quota.reason(source) == ("queue 'open' is over its share of disk, and dead letters of queue 'q' go there")
    outcome = broker.vhost.publishing.publish(broker.vhost.router.route(b"", b"q"), AMQP091, bytes(2), b"one more")
    assert outcome.pressing is source
    broker.vhost.upkeep.purge(b"open")
    broker.settle()
    quota.look()
    quota.look()
    assert (source.crowded, target.crowded, shares.behind) == (False, False, {})


def test_a_full_queue_is_not_held_by_the_last_that_it_refused(broker: OneVhost) -> None:
    broker.declare(b"source", x_dead_letter_exchange="", x_dead_letter_routing_key="full", x_max_length=1)
    full = broker.vhost.catalog.queue(b"full")
    for _ in range(3):
        holders = sys.getrefcount(full)  # before the last; the route there is remembered from the first dead letter on
        broker.publish(b"", b"source", b"one too many")
        broker.settle()
    assert broker.vhost.dead_letters.dropped == 2
    assert sys.getrefcount(full) == holders
    with pytest.raises(RequestError):
        broker.vhost.mover.hand_over(route(broker, b"open", b"full"), record())
    gc.collect()
    assert sys.getrefcount(full) == holders


def test_a_record_of_an_unknown_format_is_not_taken_for_amqp091() -> None:
    record = StoredRecord(0, b"", b"open", b"sections", b"body", b"")
    with pytest.raises(AssertionError, match="format octet 0: no format has the number 0"):
        for_exchange(record)
