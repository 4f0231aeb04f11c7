"""One Spark session for all tests of this folder: starting the JVM costs more than all of them."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from forebay.client.blocks import BlockClient
from forebay.spark import session
from forebay.spark.directory.files import ReadOnlyDisk
from forebay.spark.directory.look import queue_names
from forebay.spark.home import find_home
from tests.broker_process import BrokerProcess
from tests.jvm import prepare_jvms, share_classes
from tests.waiting import until

TEST_S_MAX = 600
prepare_jvms()
# For every process of Python that Spark starts, under whatever master: it need not compile PySpark first.
os.environ.setdefault("SPARK_HOME", find_home(os.environ))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark on a busy machine takes its time."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S_MAX))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture: some start a JVM."""
    share_classes()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, a small heap, no UI."""
    config = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse"),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    made = session(master="local[2]", app_name="tests", config=config)
    yield made
    made.stop()


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """An environment like this one, where every command is found but `java`."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for path in Path(place).glob("*"):
            if path.name != "java" and not (folder / path.name).is_symlink():
                (folder / path.name).symlink_to(path)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(folder), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYSPARK_PYTHON": sys.executable}
    assert shutil.which("java", path=str(folder)) is None
    return environment


@pytest.fixture
def connect_port() -> Iterator[None]:
    """Waits until nobody else among these tests runs spark-pipelines: its server has one port on a machine, 15002."""
    with Path(tempfile.gettempdir(), "forebay-tests-15002.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Feed:
    """A publisher to one broker, and Spark's view of it."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess) -> None:
        self.spark = spark
        self.broker = broker
        # No heartbeats: nobody sends them while Spark works.
        parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
        self.connection = pika.BlockingConnection(parameters)
        self.channel: BlockingChannel = self.connection.channel()
        self.server = f"127.0.0.1:{broker.amqp_port}"

    def close(self) -> None:
        """End its connection, if that is not over."""
        if self.connection.is_open:
            self.connection.close()

    def client(self) -> BlockClient:
        return BlockClient.connect(self.server, "guest", "guest")

    def stream(self, name: str, **arguments: object) -> None:
        """Declare a stream."""
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", **named})

    def publish(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Publish, and wait until all is on the disk."""
        with self.client() as client:
            end = client.describe(queue).end + len(bodies)
            for body in bodies:
                self.channel.basic_publish("", queue, body)
            serve = partial(self.connection.process_data_events, 0.01)
            until(lambda: client.describe(queue).end >= end, f"{end} records in {queue}", meanwhile=serve)

    def reader(self, queue: str, **options: object) -> DataFrameReader:
        """A reader over the network."""
        made = self.spark.read.format("forebay").option("forebay.servers", self.server).option("subscribe", queue)
        for name, value in options.items():
            made = made.option(name, str(value))
        return made

    def read(self, queue: str, **options: object) -> DataFrame:
        return self.reader(queue, **options).load()

    def growing(self, queue: str, **options: object) -> DataFrame:
        """A stream over the network, from the start of the queue unless the options say otherwise."""
        return self.stream_reader(subscribe=queue, **{"startingOffsets": "earliest", **options}).load()

    def stream_reader(self, **options: object) -> DataStreamReader:
        made = self.spark.readStream.format("forebay").option("forebay.servers", self.server)
        for name, value in options.items():
            made = made.option(name, str(value))
        return made

    def wait_named(self, queue: str) -> None:
        """Wait until the queue's files say whose they are, which housekeeping writes."""
        until(
            lambda: queue in queue_names(ReadOnlyDisk(str(self.broker.data))),
            f"a name of {queue} in the data directory",
        )

    def read_files(self, queue: str, **options: object) -> DataFrame:
        """The same from the data directory."""
        made = self.spark.read.format("forebay").option("forebay.data", str(self.broker.data))
        for name, value in {"subscribe": queue, **options}.items():
            made = made.option(name, str(value))
        return made.load()


@pytest.fixture
def feed(spark: SparkSession, broker: BrokerProcess) -> Iterator[Feed]:
    """A running broker, ready to be published to and read."""
    made = Feed(spark, broker)
    yield made
    made.close()


@pytest.fixture
def start_feed(spark: SparkSession, start_broker: Callable[..., BrokerProcess]) -> Iterator[Callable[..., Feed]]:
    """The same with options of the broker."""
    made: list[Feed] = []

    def start(**options: object) -> Feed:
        made.append(Feed(spark, start_broker(**options)))
        return made[-1]

    yield start
    for each in made:
        each.close()
