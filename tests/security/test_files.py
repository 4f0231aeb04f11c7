"""Files that a broker writes are its owner's alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pika
import pytest

from tests.broker_process import BrokerProcess


def modes(folder: Path) -> dict[str, int]:
    """The modes of a folder, and of all that is in it."""
    found = {".": stat.S_IMODE(folder.stat().st_mode)}
    for path in folder.rglob("*"):
        found[str(path.relative_to(folder))] = stat.S_IMODE(path.lstat().st_mode)
    return found


@pytest.fixture
def no_mask() -> object:
    """Nothing but the broker itself keeps others out."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_mask")
def test_nobody_else_may_read_the_data(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(wal_octets_max=1 << 20, wal_chunk_octets=64 << 10, segment_octets_max=1 << 20)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for _ in range(40):
            channel.basic_publish("", "q", bytes(100_000))
    broker.restart()
    found = modes(broker.data)
    assert len(found) > 5
    folders = {name for name in found if (broker.data / name).is_dir()}
    assert {name: mode for name, mode in found.items() if mode != (0o700 if name in folders else 0o600)} == {}


def test_a_folder_that_was_open_to_others_is_closed(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    data = tmp_path / "open"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    broker = start_broker(data=str(data))
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert "was open to others" in broker.log_text()
