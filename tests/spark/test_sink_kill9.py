"""kill -9 of driver, workers and broker while a stream is written to a queue: every row is there in the end, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess
from tests.spark.conftest import Feed
from tests.spark.sink_driver import ROWS_A_BATCH
from tests.waiting import pause

ROOT = Path(__file__).parent.parent.parent
ROWS = 1050
WAIT_S = 180  # guards against a hang
DRIVER_KILLS = 2
WORKER_KILLS = 2
BROKER_KILLS = 3


def fill(broker: BrokerProcess) -> None:
    """The stream `in` with all rows, and the queue `out`."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.queue_declare("in", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("out", durable=True)
    channel.tx_select()
    for number in range(ROWS):
        channel.basic_publish("", "in", b"%d" % number)
    channel.tx_commit()
    connection.close()


def drained(broker: BrokerProcess) -> Counter[int]:
    """All that is in the queue `out`."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    count = channel.queue_declare("out", passive=True).method.message_count
    found: Counter[int] = Counter()
    if count:
        for _, _, body in channel.consume("out", auto_ack=True, inactivity_timeout=WAIT_S):
            assert body is not None, "no message in time"
            found[int(body)] += 1
            if found.total() == count:
                break
    connection.close()
    return found


class Watch:
    """What the broker says of the one transaction."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.server = f"127.0.0.1:{broker.amqp_port}"
        self.client = ControlClient.connect(self.server, "guest", "guest")

    def look(self) -> tuple[int, int]:
        """The last batch that is committed, and the rows that are staged."""
        for each in self.client.items("transaction.list"):
            staged = each["staged"]
            assert isinstance(staged, list)
            assert isinstance(each["batch"], int)
            return each["batch"], sum(of["rows"] for of in staged)
        return -1, 0

    def wait(self, after: int, in_batch: bool, goes_on: Callable[[], bool]) -> bool:
        """Until a batch after this one is committed, and then until rows are staged; False where the query has ended.

        in_batch  whether rows have to be staged
        """
        deadline = time.monotonic() + WAIT_S
        while True:
            last, staged = self.look()
            if last > after and (staged > 0 or not in_batch):
                return True
            if not goes_on():
                return False
            assert time.monotonic() < deadline, f"batch {last}, {staged} rows staged"
            pause(0.002)

    def close(self) -> None:
        self.client.close()


class Driver:
    """The program with the query, in processes of its own."""

    def __init__(self, broker: BrokerProcess, checkpoint: Path, log: Path) -> None:
        command = [sys.executable, str(ROOT / "tests/spark/sink_driver.py")]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, f"127.0.0.1:{broker.amqp_port}", str(checkpoint)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def goes_on(self) -> bool:
        return self.process.poll() is None

    def kill9(self) -> None:
        """Driver, JVM and all."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def workers(self) -> list[int]:
        """The Python processes that run tasks: children of Spark's daemon."""
        parents = {int(each.name): parent_of(each) for each in Path("/proc").iterdir() if each.name.isdigit()}
        below = {pid for pid in parents if self.process.pid in ancestors(pid, parents)}
        daemons = {pid for pid in below if b"pyspark.daemon" in command_of(pid)}
        return sorted(pid for pid in daemons if parents[pid] in daemons)


def parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it is gone
        return 0


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while parents.get(pid):
        pid = parents[pid]
        yield pid


@pytest.mark.timeout(600)
def test_kill9_of_the_driver_and_of_its_workers(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    chance = random.Random(20_26)
    broker = start_broker()
    fill(broker)
    watch = Watch(broker)
    log = tmp_path / "driver.log"
    batch = -1
    for kill in range(DRIVER_KILLS):
        driver = Driver(broker, tmp_path / "checkpoint", log)
        try:
            if kill % 2 == 0:  # while a batch is staged, and not the first of this driver
                seen = watch.wait(batch, True, driver.goes_on)
            else:  # about when it is committed here, and perhaps not yet in the checkpoint
                seen = watch.wait(batch + 1, False, driver.goes_on)
                pause(chance.uniform(0, 0.05))
            assert seen, log.read_text(errors="replace")
        finally:
            driver.kill9()
        batch = watch.look()[0]
    driver = Driver(broker, tmp_path / "checkpoint", log)
    killed = 0
    try:
        while killed < WORKER_KILLS and watch.wait(batch, True, driver.goes_on):
            batch = watch.look()[0]
            for pid in driver.workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        assert killed, log.read_text(errors="replace")
        assert driver.process.wait(WAIT_S * 2) == 0, log.read_text(errors="replace")
    finally:
        if driver.goes_on():
            driver.kill9()
        watch.close()
    assert drained(broker) == Counter(range(ROWS))


def is_active(query: StreamingQuery) -> Callable[[], bool]:
    return lambda: query.isActive


@pytest.mark.timeout(600)
def test_kill9_of_the_broker(start_feed: Callable[..., Feed], tmp_path: Path) -> None:
    chance = random.Random(20_26)
    # Small files, so that transactions lie at their ends too.
    feed = start_feed(wal_octets_max=1 << 20, wal_chunk_octets=1 << 18)
    feed.connection.close()
    broker = feed.broker
    fill(broker)
    source = feed.spark.readStream.format("forebay").option("forebay.servers", feed.server).option("subscribe", "in")
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ROWS_A_BATCH)
    writer = source.load().select("value").writeStream.format("forebay").option("forebay.servers", feed.server)
    writer = writer.option("topic", "out").option("batchRows", 5).option("checkpointLocation", str(tmp_path / "c"))
    batch = -1
    failures = 0
    query = writer.trigger(availableNow=True).start()
    for kill in range(BROKER_KILLS):
        watch = Watch(broker)
        if kill % 2 == 0:
            watch.wait(batch, True, is_active(query))
        else:
            watch.wait(batch, False, is_active(query))
            pause(chance.uniform(0, 0.02))
        batch = watch.look()[0]
        watch.close()
        broker.kill9()
        broker.start()
        if not query.isActive:
            query = writer.trigger(availableNow=True).start()
    deadline = time.monotonic() + WAIT_S * 2
    while True:
        assert time.monotonic() < deadline
        try:
            if query.awaitTermination(WAIT_S):
                break
        except PySparkException:  # a task could not go on without its broker
            failures += 1
            query = writer.trigger(availableNow=True).start()
    assert failures <= BROKER_KILLS
    assert drained(broker) == Counter(range(ROWS))
