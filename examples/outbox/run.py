"""Rows of a table are published once each, though the program dies between publishing and noting it."""

from __future__ import annotations

import argparse
import sqlite3

import pika
from pika.adapters.blocking_connection import BlockingChannel


def publish_outbox(database: sqlite3.Connection, channel: BlockingChannel, note: bool = True) -> int:
    """Publish every row that is not noted as sent; how many there were.

    note  False dies before anything is noted
    """
    rows = database.execute("SELECT id, body FROM outbox WHERE NOT sent ORDER BY id").fetchall()
    for key, body in rows:
        headers = {"x-deduplication-key": f"outbox-{key}"}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        channel.basic_publish("", "invoices", body.encode(), properties, mandatory=True)
        if note:
            database.execute("UPDATE outbox SET sent = 1 WHERE id = ?", (key,))
    database.commit()
    return len(rows)


def main(argv: list[str] | None = None) -> None:
    """Fill an outbox, publish it twice, and count what arrived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5672, help="the broker's AMQP port")
    given = parser.parse_args(argv)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY, body TEXT, sent INTEGER DEFAULT 0)")
    database.executemany("INSERT INTO outbox (body) VALUES (?)", [("invoice 1",), ("invoice 2",), ("invoice 3",)])

    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", given.port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("invoices", durable=True)
    print("published", publish_outbox(database, channel, note=False), "and died before noting it")
    print("published", publish_outbox(database, channel), "again")
    print("left to publish", publish_outbox(database, channel))
    print("in the queue", channel.queue_declare("invoices", passive=True).method.message_count)
    connection.close()
    database.close()


if __name__ == "__main__":
    main()
