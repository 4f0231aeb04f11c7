"""Redelivery of what was settled: which records of the log are a queue's, and a group's."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.redrive.redeliver import redeliver
from forebay.core.errors import RequestError
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from tests.vhosts import OneVhost


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    return OneVhost(tmp_path / "data")


def settled(broker: OneVhost, name: bytes, count: int) -> tuple[Queue, WorkGroup]:
    """Take so many records of a queue, and settle them; return the queue and its nameless group."""
    for _ in range(count):
        lease = broker.taken(name)
        broker.vhost.settling.ack(lease, lease.first, 1)
    broker.settle()
    queue = broker.vhost.catalog.queue(name)
    group = queue.find_group(b"")
    assert isinstance(group, WorkGroup)
    return queue, group


def test_a_view_gets_nothing_that_its_filter_has_left_out(broker: OneVhost) -> None:
    broker.declare(b"orders", x_queue_type="stream")
    broker.declare(b"large", x_source="orders", x_filter="/qty > 5")
    for qty in (1, 9, 2, 8, 3):
        broker.publish(b"", b"orders", b'{"qty": %d}' % qty)
    broker.settle()
    queue, group = settled(broker, b"large", 2)
    portion = redeliver(broker.vhost, queue, group, None, 0, 5, 100)
    assert portion.done == 2
    broker.settle()
    assert [int(broker.taken(b"large").first) for _ in range(2)] == [1, 3]
    assert broker.vhost.consumers.get(b"large", 1, 1, False) is None


def test_a_portion_ends_at_its_limit_and_says_where_to_go_on(broker: OneVhost) -> None:
    broker.declare(b"q", x_retain_length=100)
    for _ in range(6):
        broker.publish(b"", b"q", b"")
    broker.settle()
    queue, group = settled(broker, b"q", 5)
    portion = redeliver(broker.vhost, queue, group, None, 0, 6, 3)
    assert (portion.done, portion.next) == (3, 3)
    portion = redeliver(broker.vhost, queue, group, None, 3, 6, 3)
    assert (portion.done, portion.held, portion.next) == (2, 1, None)


def test_a_queue_that_retains_nothing_refuses(broker: OneVhost) -> None:
    broker.declare(b"q")
    broker.publish(b"", b"q", b"")
    broker.settle()
    queue, group = settled(broker, b"q", 1)
    with pytest.raises(RequestError, match="queue 'q' keeps nothing"):
        redeliver(broker.vhost, queue, group, None, 0, 1, 1)
