"""The clients of `forebay bench`: each is a process that publishes or consumes until the time is over."""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import MutableSequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from threading import BrokenBarrierError
from typing import Final

from mypy_extensions import u8

from forebay.cli.access import LoginOptions
from forebay.client.amqp import AmqpClient
from forebay.client.mqtt import MqttClient
from forebay.client.staging import StagingClient
from forebay.core.errors import ForebayError
from forebay.core.message import Properties
from forebay.log.block import HEAD_OCTETS, BlockWriter, block_octets, head_octets, trusted_block
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.wire.amqp091.properties import encode_properties

AMQP, MQTT, BLOCKS = PROTOCOLS = ("amqp", "mqtt", "blocks")
STAMP_OCTETS: Final = 8  # at the start of each body: its time of publishing, in ns of the monotonic clock
UNCONFIRMED_MAX: Final = 1000
PREFETCH: Final = 2000
ACK_AFTER: Final = 200
ROWS: Final = 1000  # in a batch of the block protocol
POLL_S: Final = 0.2
LOOK_AFTER: Final = 64  # messages after which a publisher checks whether its time is over
STEP: Final = math.log(1.02)  # width of a histogram bucket, on a logarithmic scale


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """The work of each client.

    place  name of the queue, or the topic
    size   bytes of a message's body
    rate   limit on the messages a second of this client; 0 for no limit
    """

    protocol: str
    login: LoginOptions
    place: str
    size: int
    rate: float
    transient: bool


class Latencies:
    """The latencies of messages, counted in steps of 2 %."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.most_us = 0.0

    def add(self, body: bytes, now_ns: int) -> None:
        """Add the latency of a message received at `now_ns`, whose body begins with its time of publishing."""
        us = max((now_ns - int.from_bytes(body[:STAMP_OCTETS], "little")) / 1000, 1.0)
        self.most_us = max(us, self.most_us)
        step = int(math.log(us) / STEP)
        self.counts[step] = self.counts.get(step, 0) + 1

    def merge(self, other: Latencies) -> None:
        """Add the latencies that another process has counted."""
        self.most_us = max(other.most_us, self.most_us)
        for step, count in other.counts.items():
            self.counts[step] = self.counts.get(step, 0) + count

    def quantile_ms(self, part: float) -> float | None:
        """Return the latency in ms that the fraction `part` of the messages did not exceed. None without messages."""
        left = part * sum(self.counts.values())
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return round(math.exp((step + 1) * STEP) / 1000, 3)
        return None


@dataclass(slots=True)
class Done:
    """The result of one client: messages in `seconds`, the CPU time `cpu_s` for them, and the `error` if it failed."""

    publishes: bool
    messages: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    latencies: Latencies | None = None
    error: str = ""


class BenchPublisher(ABC):
    """A connection that publishes messages for the benchmark."""

    @abstractmethod
    def __init__(self, plan: BenchPlan) -> None: ...

    @abstractmethod
    def publish(self, body: bytes) -> None:
        """Publish a message. Waits while too many messages are unconfirmed."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all published messages are confirmed."""


class AmqpPublisher(BenchPublisher):
    """A publisher over AMQP 0.9.1 to a queue, with confirms."""

    def __init__(self, plan: BenchPlan) -> None:
        properties = Properties()
        properties.durable = not plan.transient
        self.properties = encode_properties(properties)
        self.queue = plan.place
        self.client: AmqpClient = plan.login.amqp()
        self.client.select_confirms()

    def publish(self, body: bytes) -> None:
        self.client.publish("", self.queue, self.properties, body)
        if self.client.unconfirmed >= UNCONFIRMED_MAX:
            self.client.settle(UNCONFIRMED_MAX // 2)

    def finish(self) -> None:
        self.client.settle(0)


class MqttPublisher(BenchPublisher):
    """A publisher over MQTT to a topic, at QoS 1."""

    def __init__(self, plan: BenchPlan) -> None:
        self.client = mqtt_client(plan, "p")
        self.topic = plan.place.encode()

    def publish(self, body: bytes) -> None:
        self.client.publish(self.topic, body)
        if self.client.unconfirmed >= UNCONFIRMED_MAX:
            self.client.settle(UNCONFIRMED_MAX // 2)

    def finish(self) -> None:
        self.client.settle(0)


class BlocksPublisher(BenchPublisher):
    """A publisher over the block protocol to a queue, in transactions of many rows."""

    def __init__(self, plan: BenchPlan) -> None:
        login = plan.login
        self.client = StagingClient.connect(
            login.server, login.user, login.password, vhost=login.vhost or "/", tls=login.tls
        )
        self.queue = plan.place.encode()
        self.query = f"{plan.place}-{os.getpid()}"
        self.properties = encode_properties(Properties())
        self.writer = BlockWriter()
        self.rows = 0
        self.batch = 0

    def publish(self, body: bytes) -> None:
        self.writer.append(u8(EXCHANGE_FORMAT.number), b"", self.queue, self.properties, body)
        self.rows += 1
        if self.rows >= ROWS:
            self.finish()

    def finish(self) -> None:
        if self.rows:
            block = self.writer.seal(0, 0, True)
            self.client.stage(self.query, self.batch, "0", [block.head, *block.parts()])
            self.client.commit(self.query, self.batch, {"0": self.rows})
            self.batch += 1
            self.rows = 0


class BenchConsumer(ABC):
    """A connection that consumes messages for the benchmark."""

    @abstractmethod
    def __init__(self, plan: BenchPlan) -> None: ...

    @abstractmethod
    def take(self, latencies: Latencies) -> int:
        """Receive and settle the messages that have arrived. Return their number, 0 if none came within POLL_S."""


class AmqpConsumer(BenchConsumer):
    """A consumer over AMQP 0.9.1 from a queue, with acknowledgements."""

    def __init__(self, plan: BenchPlan) -> None:
        self.client: AmqpClient = plan.login.amqp()
        self.client.consume(plan.place, PREFETCH, False, {})

    def take(self, latencies: Latencies) -> int:
        message = self.client.next(POLL_S)
        taken = 0
        while message is not None:
            latencies.add(message.body, time.monotonic_ns())
            taken += 1
            tag = message.tag
            message = self.client.next(0) if self.client.has_next and taken < ACK_AFTER else None
        if taken:
            self.client.ack(tag)
        return taken


class MqttConsumer(BenchConsumer):
    """A consumer over MQTT. All consumers share one subscription."""

    def __init__(self, plan: BenchPlan) -> None:
        self.client = mqtt_client(plan, "c")
        self.client.subscribe(f"$share/bench/{plan.place}")

    def take(self, latencies: Latencies) -> int:
        body = self.client.next(POLL_S)
        if body is None:
            return 0
        latencies.add(body, time.monotonic_ns())
        return 1


class BlocksConsumer(BenchConsumer):
    """A consumer over the block protocol. Reads the queue's log, and settles nothing."""

    def __init__(self, plan: BenchPlan) -> None:
        login = plan.login
        self.client = StagingClient.connect(
            login.server, login.user, login.password, vhost=login.vhost or "/", tls=login.tls
        )
        self.queue = plan.place
        self.next = 0

    def take(self, latencies: Latencies) -> int:
        end = self.client.ends({self.queue: self.next}, POLL_S)[self.queue].end
        taken = 0
        for fetched in self.client.fetch(self.queue, self.next, end):
            now_ns = time.monotonic_ns()
            at = 0
            while at < len(fetched.blocks):
                octets = block_octets(fetched.blocks[at : at + HEAD_OCTETS])
                start = at + head_octets(fetched.blocks[at : at + HEAD_OCTETS])
                block = trusted_block(fetched.blocks[at:start], fetched.blocks[start : at + octets])
                for index in range(max(self.next - int(block.base), 0), int(block.count)):
                    latencies.add(block.body(index), now_ns)
                    taken += 1
                at += octets
            self.next = fetched.next
        return taken


PUBLISHERS: Final[dict[str, type[BenchPublisher]]] = {AMQP: AmqpPublisher, MQTT: MqttPublisher, BLOCKS: BlocksPublisher}
CONSUMERS: Final[dict[str, type[BenchConsumer]]] = {AMQP: AmqpConsumer, MQTT: MqttConsumer, BLOCKS: BlocksConsumer}


def mqtt_client(plan: BenchPlan, role: str) -> MqttClient:
    login = plan.login
    return MqttClient.connect(
        login.server, login.user, login.password, f"{plan.place}-{role}{os.getpid()}".replace("/", "-"), tls=login.tls
    )


def publish_all(
    plan: BenchPlan, ready: Barrier, over: Event, stop: Event, counts: MutableSequence[int], place: int, out: Connection
) -> None:
    """Run the process of one publisher. Publishes until `over` is set and every message is confirmed."""
    done = Done(True)
    try:
        publisher = PUBLISHERS[plan.protocol](plan)
        ready.wait()
        began = time.monotonic()
        rest = bytes(plan.size - STAMP_OCTETS)
        while done.messages % LOOK_AFTER or not over.is_set():
            if plan.rate:
                wait_s = began + done.messages / plan.rate - time.monotonic()
                if wait_s > 0:
                    publisher.finish()
                    if over.wait(wait_s):
                        break
            publisher.publish(time.monotonic_ns().to_bytes(STAMP_OCTETS, "little") + rest)
            done.messages += 1
            counts[place] = done.messages
        publisher.finish()
        done.seconds = time.monotonic() - began
    except BrokenBarrierError:
        done.error = "another client could not begin"
    except ForebayError as error:
        done.error = str(error)
        ready.abort()
    done.cpu_s = time.process_time()
    out.send(done)


def consume_all(
    plan: BenchPlan, ready: Barrier, over: Event, stop: Event, counts: MutableSequence[int], place: int, out: Connection
) -> None:
    """Run the process of one consumer. Consumes until `over` is set and no more messages come, or `stop` is set."""
    done = Done(False)
    try:
        consumer = CONSUMERS[plan.protocol](plan)
        ready.wait()
        began = last = time.monotonic()
        latencies = Latencies()
        while True:
            taken = consumer.take(latencies)
            done.messages += taken
            counts[place] = done.messages
            if taken:
                last = time.monotonic()
            if stop.is_set() or (over.is_set() and not taken):
                break
        done.seconds = last - began
        done.latencies = latencies
    except BrokenBarrierError:
        done.error = "another client could not begin"
    except ForebayError as error:
        done.error = str(error)
        ready.abort()
    done.cpu_s = time.process_time()
    out.send(done)
