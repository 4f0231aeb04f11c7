"""Clients over AMQP under load, by pika: they are cut off, and come again by another node."""

from __future__ import annotations

import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError

from tests.cluster.faults.ledger import Line, Offsets, OrderOfOne
from tests.waiting import pause

Cut = (AMQPError, AMQPConnectorException, OSError)
PORT = 5672
WINDOW = 40  # messages under way of one publisher
PREFETCH = 60
BATCH = 15  # deliveries that are settled together
HUNG_S = 3.0  # without any answer or delivery: another node may serve
DIAL_S = 1.0
STEP_S = 0.04
AGAIN_S = 0.02
BODY_MAX, LONG_BODY_MAX = 600, 40_000
LONG_SHARE = 0.1
REREAD = 300  # offsets of a stream that are read again by a new connection
RECEIPTS = {"x-max-length": 10}


def connection_to(host: str) -> BlockingConnection:
    parameters = pika.ConnectionParameters(host, PORT, socket_timeout=DIAL_S, heartbeat=4, connection_attempts=1)
    parameters.stack_timeout = 2 * DIAL_S
    parameters.blocked_connection_timeout = None
    return pika.BlockingConnection(parameters)


def cut_off(connection: BlockingConnection) -> None:
    """Have whoever waits on a connection see its end."""
    with suppress(Exception):  # pika's own parts may be gone in any order
        connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)


def drop(connection: BlockingConnection) -> None:
    """End a connection without waiting for anybody."""
    cut_off(connection)
    with suppress(Exception):
        connection.close()


@contextmanager
def limited(connection: BlockingConnection) -> Iterator[None]:
    """Calls that wait for an answer: one that does not come is the end of the connection."""
    timer = connection._impl._adapter_call_later(HUNG_S, lambda: cut_off(connection))
    yield
    connection._impl._adapter_remove_timeout(timer)


class Reconnecting(ABC, threading.Thread):
    """A client that goes on until it is told to stop, on one connection after the other."""

    def __init__(self, name: str, hosts: list[str], seed: int) -> None:
        threading.Thread.__init__(self, name=name, daemon=True)
        self.hosts = hosts
        self.chance = Random(f"{name} {seed}")
        self.stopping = threading.Event()
        self.alive_at = 0.0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.live(self.chance.choice(self.hosts))
                pause(AGAIN_S)
        except BaseException as error:
            self.error = error
            raise

    def is_hung(self) -> bool:
        return time.monotonic() - self.alive_at > HUNG_S

    @abstractmethod
    def live(self, host: str) -> None:
        """One connection, from its begin to its end."""


class Client(Reconnecting):
    """A client over AMQP."""

    def live(self, host: str) -> None:
        try:
            connection = connection_to(host)
        except Cut:
            return
        try:
            self.alive_at = time.monotonic()
            with limited(connection):
                channel = connection.channel()
            self.use(connection, channel)
        except Cut:
            pass
        finally:
            drop(connection)

    @abstractmethod
    def use(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        """Work on a new connection, as long as it goes."""


class Confirms:
    """The confirms of one channel: which numbers wait for one."""

    def __init__(self, channel: BlockingChannel, line: Line | None) -> None:
        self.line = line
        self.tag = 0
        self.waiting: OrderedDict[int, int] = OrderedDict()
        self.refused = 0
        self.changes = 0
        channel._impl.confirm_delivery(self.answered, lambda frame: None)

    def answered(self, frame: pika.frame.Method) -> None:
        """A confirm or a refusal of one message, or of all up to it."""
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self.waiting if tag <= method.delivery_tag]
        for tag in tags:
            number = self.waiting.pop(tag)
            if method.NAME == "Basic.Nack":
                self.refused += 1
            elif self.line is not None:
                self.line.confirm(number)
        self.changes += 1

    def publish(self, channel: BlockingChannel, queue: str, number: int, body: bytes) -> None:
        self.tag += 1
        self.waiting[self.tag] = number
        channel._impl.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))


def body_of(number: int, chance: Random) -> bytes:
    most = LONG_BODY_MAX if chance.random() < LONG_SHARE else BODY_MAX
    return b"%d " % number + bytes(chance.randrange(most))


def number_of(body: bytes) -> int:
    return int(body.split(b" ", 1)[0])


class Publisher(Client):
    """Publishes to one queue with confirms, many under way."""

    def __init__(self, line: Line, hosts: list[str], seed: int, rate: float) -> None:
        super().__init__(f"publisher of {line.name}", hosts, seed)
        self.line = line
        self.rate = rate
        self.refused = 0

    def use(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        confirms = Confirms(channel, self.line)
        number = self.line.connect()
        began, sent, changes = time.monotonic(), 0, 0
        while not self.stopping.is_set():
            due = int((time.monotonic() - began) * self.rate) - sent
            for _ in range(min(due, WINDOW - len(confirms.waiting))):
                message = self.line.send(number)
                confirms.publish(channel, self.line.name, message, body_of(message, self.chance))
                sent += 1
            if due > WINDOW:
                began, sent = time.monotonic(), 0
            connection.process_data_events(STEP_S)
            if confirms.changes != changes or not confirms.waiting:
                changes, self.alive_at = confirms.changes, time.monotonic()
            if self.is_hung():
                return


class TransactionPublisher(Client):
    """Publishes one message to each of two queues in a transaction."""

    def __init__(self, lines: list[Line], hosts: list[str], seed: int, rate: float) -> None:
        super().__init__("publisher of transactions", hosts, seed)
        self.lines = lines
        self.rate = rate

    def use(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        with limited(connection):
            channel.tx_select()
        connections = [line.connect() for line in self.lines]
        while not self.stopping.is_set():
            numbers = [line.send(number) for line, number in zip(self.lines, connections, strict=True)]
            for line, number in zip(self.lines, numbers, strict=True):
                channel.basic_publish("", line.name, body_of(number, self.chance))
            with limited(connection):
                channel.tx_commit()
            for line, number in zip(self.lines, numbers, strict=True):
                line.confirm(number)
            due = time.monotonic() + 1 / self.rate
            while (left := due - time.monotonic()) > 0:
                connection.process_data_events(left)


class Consumer(Client):
    """Takes messages of one queue, and settles them in batches.

    A settlement is answered by the confirm of a message that was published behind it on the same channel.
    """

    def __init__(self, line: Line, hosts: list[str], seed: int) -> None:
        super().__init__(f"consumer of {line.name}", hosts, seed)
        self.line = line
        self.batch: list[int] = []

    def use(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        order = OrderOfOne(self.line)
        confirms = Confirms(channel, None)
        self.batch = []
        asked: OrderedDict[int, list[int]] = OrderedDict()
        last_tag = 0

        def take(_: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
            nonlocal last_tag
            self.alive_at = time.monotonic()
            number = number_of(body)
            order.take(number, method.redelivered)
            self.batch.append(number)
            last_tag = method.delivery_tag

        with limited(connection):
            channel.basic_qos(prefetch_count=PREFETCH)
            channel.basic_consume(self.line.name, take)
        while not self.stopping.is_set() and not self.is_hung():
            connection.process_data_events(STEP_S)
            if len(self.batch) >= BATCH or (self.batch and not asked):
                channel.basic_ack(last_tag, multiple=True)
                confirms.publish(channel, "receipts", 0, b"settled")
                asked[confirms.tag], self.batch = self.batch, []
            while asked and next(iter(asked)) not in confirms.waiting:
                _, numbers = asked.popitem(last=False)
                if not confirms.refused:
                    self.line.settle(numbers)


class TransactionConsumer(Client):
    """Takes messages of one queue, and settles them in transactions."""

    def __init__(self, line: Line, hosts: list[str], seed: int) -> None:
        super().__init__(f"consumer of {line.name}", hosts, seed)
        self.line = line

    def use(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        order = OrderOfOne(self.line)
        batch: list[int] = []
        last_tag = 0

        def take(_: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
            nonlocal last_tag
            self.alive_at = time.monotonic()
            number = number_of(body)
            order.take(number, method.redelivered)
            batch.append(number)
            last_tag = method.delivery_tag

        with limited(connection):
            channel.tx_select()
            channel.basic_qos(prefetch_count=PREFETCH)
            channel.basic_consume(self.line.name, take)
        while not self.stopping.is_set() and not self.is_hung():
            connection.process_data_events(STEP_S)
            if not batch:
                continue
            numbers = list(batch)
            batch.clear()
            channel.basic_ack(last_tag, multiple=True)
            with limited(connection):
                channel.tx_commit()
            self.line.settle(numbers)


class StreamReader(Client):
    """Reads a stream, from a little before where it was."""

    def __init__(self, line: Line, hosts: list[str], seed: int) -> None:
        super().__init__(f"reader of {line.name}", hosts, seed)
        self.line = line
        self.offsets = Offsets(line)

    def use(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        self.read(connection, channel, max(0, self.offsets.last - REREAD))

    def read(self, connection: BlockingConnection, channel: BlockingChannel, begin: int, whole: bool = False) -> None:
        """Read from an offset on; `whole`: only up to where the last connection was."""
        at = begin

        def take(one: BlockingChannel, method: pika.spec.Basic.Deliver, given: object, body: bytes) -> None:
            nonlocal at
            self.alive_at = time.monotonic()
            assert isinstance(given, pika.BasicProperties)
            at = int(given.headers["x-stream-offset"])
            self.offsets.take(at, number_of(body))
            one.basic_ack(method.delivery_tag)

        end = self.offsets.last
        with limited(connection):
            channel.basic_qos(prefetch_count=PREFETCH)
            channel.basic_consume(self.line.name, take, arguments={"x-stream-offset": begin})
        while not self.stopping.is_set() and not self.is_hung() and not (whole and at >= end):
            connection.process_data_events(STEP_S)


def declare(host: str, queues: list[str], streams: list[str]) -> None:
    """Make what the clients use."""
    connection = connection_to(host)
    channel = connection.channel()
    for queue in queues:
        channel.queue_declare(queue, durable=True)
    for stream in streams:
        channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("receipts", durable=True, arguments=RECEIPTS)
    connection.close()
