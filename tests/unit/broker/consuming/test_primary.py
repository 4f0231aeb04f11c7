"""How far the primary group of a queue has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.consuming.primary import PrimaryGroup, primary_name, reader_primary
from forebay.core.message import MQTT
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.queue import STREAM, Queue
from forebay.queue.source.source import LogSource
from tests.logs import memory_log


def make_queue(folder: Path, **arguments: object) -> Queue:
    """A stream of ten records."""
    log = memory_log(str(folder))
    for _ in range(10):
        log.append(MQTT, b"", b"k", b"", b"x")
    log.seal(1)
    given: dict[str, object] = {"x-queue-type": "stream"}
    for name, value in arguments.items():
        given[f"x-{name.replace('_', '-')}"] = value
    return Queue(1, b"q", STREAM, QueueSpec(True, False, False, given, 30_000), LogSource(log))


def consumer(group: int) -> Consumer:
    return Consumer(1, 1, group, 1, 0, b"", False, 5)


def test_a_queue_that_names_none(tmp_path: Path) -> None:
    queue = make_queue(tmp_path)
    reader = queue.add_group(1, b"r", b"", False, 0, True)
    assert primary_name(queue) is None
    assert reader_primary(queue, consumer(reader.id)) is None


@pytest.mark.parametrize("name", ["w", b"w"])
def test_only_readers_are_told(tmp_path: Path, name: object) -> None:
    queue = make_queue(tmp_path, primary_group=name)
    workers = queue.add_group(1, b"w", b"", True, 0, True)
    reader = queue.add_group(2, b"r", b"", False, 0, True)
    assert primary_name(queue) == b"w"
    assert reader_primary(queue, consumer(workers.id)) is None
    told = reader_primary(queue, consumer(reader.id))
    assert told is not None
    assert told.name == b"w"


def test_progress_is_what_is_settled(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, primary_group="w")
    told = PrimaryGroup(queue, b"w")
    assert (told.committed(), told.has_settled(0)) == (0, False)
    workers = queue.add_group(1, b"w", b"", True, 0, True)
    worker = consumer(workers.id)
    workers.add(worker)
    out: list[Delivery] = []
    workers.dispatch(1, out)
    lease = out[0].lease
    assert lease is not None
    workers.ack(lease, 0, 2)
    workers.ack(lease, 4, 1)
    assert told.committed() == 2
    assert [told.has_settled(offset) for offset in range(7)] == [True, True, False, False, True, False, False]
    queue.log.truncate(4)
    assert told.committed() == 4


def test_a_group_of_that_name_that_is_no_work_group_says_nothing(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, primary_group="w")
    queue.add_group(1, b"w", b"", False, 7, True)
    assert PrimaryGroup(queue, b"w").committed() == 0
