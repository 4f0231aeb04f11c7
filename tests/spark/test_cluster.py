"""A cluster of two workers: executors that are processes of their own, lack forebay, and get it from the driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

import forebay
from forebay.client.blocks import BlockClient
from tests.broker_process import BrokerProcess
from tests.spark.cluster import Cluster

ROWS = 24_000
RUN_S_MAX = 900  # a guard against a hang
DRIVER = Path(__file__).with_name("cluster_driver.py")
STREAM = {"x-queue-type": "stream"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as the executors get it."""
    source = Path(str(forebay.__file__)).parent
    path = tmp_path_factory.mktemp("archive") / "packages.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as made:
        for package in (source, source.parent / "pyspark_forebay"):
            made.add(package, package.name, filter=lambda each: None if each.name.endswith("__pycache__") else each)
        for shared in source.parent.glob("forebay__mypyc*"):  # what the compiled modules share
            made.add(shared, shared.name)
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "JAVA_HOME"}}
    made = Cluster(tmp_path / "cluster", 2, environment)
    try:
        yield made
    finally:
        made.stop()


class Numbers:
    """Publishes numbers into the stream `in`; `out` is another one."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.client = BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")
        # Without heartbeats: nobody answers them while the test waits for the driver.
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0))
        self.channel = self.connection.channel()
        for queue in ("in", "out"):
            self.channel.queue_declare(queue, durable=True, arguments=STREAM)

    def publish(self, first: int, end: int) -> None:
        for number in range(first, end):
            self.channel.basic_publish("", "in", b"%08d" % number)
        self.wait("in", end)

    def wait(self, queue: str, end: int) -> None:
        """Until the queue has so many records."""
        deadline = time.monotonic() + RUN_S_MAX
        while self.client.describe(queue).end < end:
            assert time.monotonic() < deadline, f"{queue} does not reach {end}"
            self.connection.process_data_events(0.02)

    def close(self) -> None:
        self.client.close()
        self.connection.close()


@pytest.mark.timeout(2 * RUN_S_MAX)
def test_every_row_is_copied_once_although_executors_are_killed(
    broker: BrokerProcess, cluster: Cluster, archive: Path, tmp_path: Path
) -> None:
    numbers = Numbers(broker)
    numbers.publish(0, ROWS // 2)
    command = [sys.executable, str(DRIVER), cluster.master, f"127.0.0.1:{broker.amqp_port}", str(archive)]
    command += [str(tmp_path), str(ROWS)]
    log = (tmp_path / "driver.log").open("wb")
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as driver:
        assert driver.stdout is not None
        try:
            said = json.loads(driver.stdout.readline() or "null")
            assert said, (tmp_path / "driver.log").read_text()[-5000:]
            assert said["total"] == [ROWS // 2, sum(range(ROWS // 2)), 8 * ROWS // 2]
            # The tasks of both workers read the broker, with the package that was sent to them.
            assert {task["folder"].split("/")[-3] for task in said["tasks"]} == {"worker-0", "worker-1"}
            assert sum(task["rows"] for task in said["tasks"]) == ROWS // 2
            here = os.path.realpath(cluster.folder)
            assert all(task["package"].startswith(here) for task in said["tasks"])
            assert json.loads(driver.stdout.readline())["step"] == "started"
            numbers.wait("out", ROWS // 6)
            os.kill(cluster.wait_for_executors(2)[0], signal.SIGKILL)
            numbers.publish(ROWS // 2, ROWS)
            numbers.wait("out", ROWS * 2 // 3)
            cluster.kill_worker(1)
            said = json.loads(driver.stdout.readline() or "null")
            assert said, (tmp_path / "driver.log").read_text()[-5000:]
            assert said["total"] == [ROWS, ROWS, sum(range(ROWS))]
            assert driver.wait(RUN_S_MAX) == 0
        finally:
            driver.kill()
            numbers.close()
