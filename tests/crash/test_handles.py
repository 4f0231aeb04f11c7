"""More clients than the system lets the broker have sockets."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pika

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess

FILES_MAX = 300
ROOM = FILES_MAX // 2  # for connections; the rest is for files


def test_connections_leave_the_broker_handles_for_its_files(tmp_path: Path) -> None:
    limited = ["prlimit", f"--nofile={FILES_MAX}:{FILES_MAX}"]
    broker = BrokerProcess(tmp_path, wrapper=limited, wal_octets_max=1 << 20, wal_chunk_octets=1 << 16)
    broker.start()
    others: list[socket.socket] = []
    try:
        assert f"no more than {ROOM} connections are taken" in broker.log_text()
        channel = open_channel(broker)
        channel.queue_declare("first", durable=True)
        for _ in range(FILES_MAX + 100):
            others.append(socket.create_connection(("127.0.0.1", broker.amqp_port), timeout=10))
        # All files of the log are made anew now, and a queue comes with files of its own.
        channel.queue_declare("second", durable=True)
        for number in range(300):
            channel.basic_publish("", "second", b"%08d" % number + bytes(20_000))
        for number in range(300):
            frame, _, body = channel.basic_get("second", auto_ack=True)
            assert frame is not None and int(body[:8]) == number
        assert len(list(Path(f"/proc/{broker.pid}/fd").iterdir())) < FILES_MAX
        for each in others:
            each.close()
        deadline = time.monotonic() + 60
        while True:  # the ends of the others are seen one by one
            try:
                open_channel(broker).queue_declare("third", durable=True)
                break
            except pika.exceptions.AMQPError:
                assert time.monotonic() < deadline
        broker.finish()
    finally:
        broker.abandon()
