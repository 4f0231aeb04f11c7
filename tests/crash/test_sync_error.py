"""A failed sync: nothing more is confirmed, the broker says what happened and ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess

EXIT_STORAGE = 74
SOURCE = Path(__file__).with_name("failing_sync.c")


def test_a_failed_sync_ends_the_broker_unconfirmed(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "failing_sync.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    flag = tmp_path / "fail"
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FAIL_SYNC", str(flag))
    broker = start_broker()
    monkeypatch.delenv("LD_PRELOAD")
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    for number in range(10):
        channel.basic_publish("", "q", b"%d" % number)
    flag.touch()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel.basic_publish("", "q", b"never confirmed")
    assert broker.wait() == EXIT_STORAGE
    assert "nothing more is confirmed" in broker.log_text()
    assert "Input/output error" in broker.log_text()

    broker.start()
    channel = open_channel(broker)
    bodies = []
    while (got := channel.basic_get("q", auto_ack=True))[0] is not None:
        bodies.append(got[2])
    # What was confirmed is there; what was not may be, the write itself having worked.
    assert bodies[:10] == [b"%d" % number for number in range(10)]
    assert bodies[10:] in ([], [b"never confirmed"])
