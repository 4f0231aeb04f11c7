"""A worker of the demo, a process of its own: takes flights off the work queue, notes each and acknowledges it.

Noting comes before acknowledging, as the work comes first in any worker. So what the broker regards as settled is
always in a log, and a worker that is killed between the two makes the broker deliver that flight again, marked as
redelivered. The other order would lose what was acknowledged and not yet noted.

A log is a run of 4-octet little-endian numbers, one a delivery:

    bits 0..30  the flight's row number in the source file
    bit  31     the broker marked the delivery as redelivered

Each is written by one write(2), so a kill leaves a whole number of them; no sync: the machine does not fail here.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from typing import Any

import pika

PREFETCH_MESSAGES = 256
REDELIVERED_BIT = 1 << 31


def work(host: str, port: int, queue: str, log: int) -> None:
    """Drain the queue until SIGTERM; what was received and not yet noted goes back to the broker."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=PREFETCH_MESSAGES)

    def on_message(_: object, method: Any, __: object, body: bytes) -> None:
        row = json.loads(body)["id"]
        os.write(log, struct.pack("<I", row | (REDELIVERED_BIT if method.redelivered else 0)))
        channel.basic_ack(method.delivery_tag)

    def on_term(*_: object) -> None:
        connection.add_callback_threadsafe(channel.stop_consuming)

    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt goes to all of a terminal's processes; the demo decides
    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    connection.close()


def main() -> None:
    """Arguments: the broker's host and port, the queue, the log to write."""
    host, port, queue, path = sys.argv[1:]
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    work(host, int(port), queue, log)


if __name__ == "__main__":
    main()
