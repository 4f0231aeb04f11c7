"""Clients that connect to any node that takes them, and come again when they are cut off, as libraries do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError

from tests.cluster.nodes import ClusterNode
from tests.waiting import until

Cut = (AMQPError, AMQPConnectorException, OSError)


def channel_to(nodes: Sequence[ClusterNode]) -> BlockingChannel:
    """A confirming channel by the first node that serves, as soon as one does."""

    def connect() -> BlockingChannel | None:
        for node in nodes:
            if node.is_running():
                parameters = pika.ConnectionParameters("127.0.0.1", node.amqp_port, socket_timeout=2, heartbeat=2)
                parameters.stack_timeout = parameters.blocked_connection_timeout = 2
                try:
                    channel = pika.BlockingConnection(parameters).channel()
                    channel.confirm_delivery()
                except Cut:
                    continue
                return channel
        return None

    return until(connect, "a node that serves")


class Publisher:
    """Publishes numbers to a durable queue, each until it is confirmed.

    confirmed  how many are
    """

    def __init__(self, nodes: Sequence[ClusterNode], queue: str) -> None:
        self.nodes = nodes
        self.queue = queue
        self.confirmed = 0
        self.channel = channel_to(nodes)
        self.declare()

    def declare(self) -> None:
        self.channel.queue_declare(self.queue, durable=True)

    def publish(self, count: int) -> None:
        """The next numbers."""
        end = self.confirmed + count
        while self.confirmed < end:
            try:
                self.channel.basic_publish("", self.queue, b"%d" % self.confirmed)
            except Cut:
                self.channel = channel_to(self.nodes)
            else:
                self.confirmed += 1

    def close(self) -> None:
        """End the connection, which may have been cut while nobody served its heartbeats."""
        with suppress(*Cut):
            self.channel.connection.close()


def drained(nodes: Sequence[ClusterNode], queue: str) -> list[int]:
    """All numbers in a queue, in order, which is empty then; from the beginning where the connection was cut."""
    while True:
        channel = channel_to(nodes)
        try:
            return drained_by(channel, queue)
        except Cut:
            continue


def drained_by(channel: BlockingChannel, queue: str) -> list[int]:
    found: list[int] = []
    while True:
        method, _, body = channel.basic_get(queue)
        if method is None or body is None:
            break
        found.append(int(body))
    channel.basic_ack(0, multiple=True)
    channel.connection.close()
    return found
