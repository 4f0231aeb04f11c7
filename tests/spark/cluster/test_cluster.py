"""A cluster of workers that lack forebay, and get it from the driver: nothing is lost or doubled, whatever is killed.

The executors are processes of their own in environments of their own, and know nothing of the broker but its address.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import pika
import pytest

from forebay.client.blocks import BlockClient
from forebay.spark.setup.archive import build
from tests.broker_process import BrokerProcess, free_port
from tests.spark.cluster.standalone import SPARK_CLASS, Cluster
from tests.waiting import until

ROWS = 12_000
LETTERS = 3_000
CONNECT_ROWS = 3_000
RUN_S_MAX = 900  # a guard against a hang
HERE = Path(__file__).parent
STREAM = {"x-queue-type": "stream"}
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as the executors get it: what `make spark-zip` builds."""
    path = tmp_path_factory.mktemp("archive") / "forebay-spark.zip"
    build(path)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster") / "standalone", 2)
    try:
        yield made
    finally:
        made.stop()


class Numbers:
    """Publishes numbers into queues."""

    def __init__(self, broker: BrokerProcess, *streams: str) -> None:
        self.server = f"127.0.0.1:{broker.amqp_port}"
        self.client = BlockClient.connect(self.server, "guest", "guest")
        # Without heartbeats: nobody answers them while the test waits for the driver.
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0))
        self.channel = self.connection.channel()
        for queue in streams:
            self.channel.queue_declare(queue, durable=True, arguments=STREAM)

    def publish(self, queue: str, first: int, end: int) -> None:
        for number in range(first, end):
            self.channel.basic_publish("", queue, b"%08d" % number, pika.BasicProperties(delivery_mode=2))
        self.wait(queue, end)

    def end(self, queue: str) -> int:
        return self.client.describe(queue).end

    def wait(self, queue: str, end: int, program: Program | None = None) -> None:
        """Until the queue has so many records, by a program that runs."""

        def is_there() -> bool:
            assert program is None or program.is_running(), program.told()
            return self.end(queue) >= end

        serve = partial(self.connection.process_data_events, 0.02)
        until(is_there, f"{end} records in {queue}", meanwhile=serve, seconds=RUN_S_MAX)

    def taken(self, queue: str) -> list[int]:
        """All that a queue has, out of it."""
        found: list[int] = []
        while (got := self.channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(int(got[2]))
        return found

    def close(self) -> None:
        self.client.close()
        self.connection.close()


class Program:
    """A program of Spark in a process of its own, with its JVM."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def said(self, step: str) -> dict[str, Any]:
        """Its next line."""
        stdout: IO[str] | None = self.process.stdout
        assert stdout is not None
        facts = json.loads(stdout.readline() or "null")
        assert facts, self.told()
        assert facts["step"] == step, facts
        return dict(facts)

    def is_running(self) -> bool:
        return self.process.poll() is None

    def told(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-6000:]

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(log: Path, command: list[str]) -> Iterator[Program]:
    """The program, killed at the end with all that it has started."""
    # Python by its name: the workers' is that of their own environments.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": "python3"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=out, text=True, env=environment, start_new_session=True
        )
    program = Program(process, log)
    try:
        yield program
    finally:
        if program.is_running():
            program.kill()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.timeout(2 * RUN_S_MAX)
def test_source_sink_tables_and_redrive_are_exactly_once_whatever_is_killed(
    broker: BrokerProcess, cluster: Cluster, archive: Path, tmp_path: Path
) -> None:
    numbers = Numbers(broker, "in", "out")
    for queue in ("dead", "orders"):
        numbers.channel.queue_declare(queue, durable=True)
    numbers.publish("dead", 0, LETTERS)
    numbers.publish("in", 0, ROWS // 3)
    command = [sys.executable, str(HERE / "driver.py"), cluster.master, numbers.server, str(archive), str(tmp_path)]
    with running(tmp_path / "first.log", [*command, "first"]) as driver:
        read = driver.said("read")
        assert read["total"] == [ROWS // 3, ROWS // 3, sum(range(ROWS // 3))]
        # The tasks of both workers read the broker, with the package that was sent to them.
        assert sum(task["rows"] for task in read["tasks"]) == ROWS // 3
        assert {task["folder"].split("/")[-4] for task in read["tasks"]} == {"worker-0", "worker-1"}
        assert all(task["package"].startswith(str(cluster.folder.resolve())) for task in read["tasks"]), read
        assert all(archive.name in task["package"] and not task["loaded"] for task in read["tasks"]), read
        driver.said("started")
        numbers.wait("out", ROWS // 6, driver)
        until(lambda: numbers.end("orders"), "a letter that went back", seconds=RUN_S_MAX)
        os.kill(cluster.wait_for_executors(2)[0], signal.SIGKILL)
        numbers.publish("in", ROWS // 3, ROWS * 2 // 3)
        numbers.wait("out", ROWS // 2, driver)
        cluster.kill_worker("worker-1")
        cluster.add_worker()
        numbers.wait("out", ROWS * 2 // 3, driver)
        numbers.publish("in", ROWS * 2 // 3, ROWS)
        driver.kill()
    assert numbers.end("out") < ROWS
    with running(tmp_path / "last.log", [*command, "last"]) as driver:
        done = driver.said("finished")
    total = [ROWS, ROWS, sum(range(ROWS))]
    assert done == {"step": "finished", "out": total, "delta": total, "iceberg": total}
    assert sorted(numbers.taken("orders")) == list(range(LETTERS))
    assert numbers.taken("dead") == []
    numbers.close()


def connect_server(cluster: Cluster, archive: Path, port: int) -> list[str]:
    """The command of a server of Spark Connect that has the cluster for its tasks."""
    command = ["env", f"PYTHONPATH={archive}", f"JAVA_HOME={cluster.java}", str(SPARK_CLASS)]
    command += ["org.apache.spark.deploy.SparkSubmit", "--class", CONNECT, "--master", cluster.master]
    # Not as an artifact of a session: streams, which have a session of their own, would go without it.
    sent = {"spark.files": archive, "spark.executorEnv.PYTHONPATH": archive.name}
    for name, value in {**SMALL, **sent, "spark.connect.grpc.binding.port": port}.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "spark-internal"]


@pytest.mark.timeout(2 * RUN_S_MAX)
def test_spark_connect_is_exactly_once_whatever_is_killed(
    broker: BrokerProcess, cluster: Cluster, archive: Path, tmp_path: Path, no_java: dict[str, str]
) -> None:
    numbers = Numbers(broker, "in", "batch", "stream", "each")
    numbers.publish("in", 0, CONNECT_ROWS // 3)
    port = free_port()
    # The client has no Java, and needs none.
    client = ["env", "-i", *[f"{name}={value}" for name, value in no_java.items()]]
    client += [sys.executable, str(HERE / "connect_client.py"), f"sc://127.0.0.1:{port}", numbers.server]
    client += [str(tmp_path), str(CONNECT_ROWS)]

    def wait_for(server: Program) -> None:
        def is_started() -> bool:
            assert server.is_running(), server.told()
            return "Spark Connect server started" in server.log.read_text(errors="replace")

        until(is_started, server.told, seconds=RUN_S_MAX)

    with running(tmp_path / "server.log", connect_server(cluster, archive, port)) as server:
        wait_for(server)
        with running(tmp_path / "client.log", [*client, "first"]) as program:
            assert program.said("batch")["rows"] == CONNECT_ROWS // 3
            program.said("started")
            for queue in ("stream", "each"):
                numbers.wait(queue, CONNECT_ROWS // 6, program)
            os.kill(cluster.wait_for_executors(2)[0], signal.SIGKILL)
            numbers.publish("in", CONNECT_ROWS // 3, CONNECT_ROWS * 2 // 3)
            for queue in ("stream", "each"):
                numbers.wait(queue, CONNECT_ROWS // 2, program)
            cluster.kill_worker("worker-0")
            cluster.add_worker()
            for queue in ("stream", "each"):
                numbers.wait(queue, CONNECT_ROWS * 2 // 3, program)
            numbers.publish("in", CONNECT_ROWS * 2 // 3, CONNECT_ROWS)
            server.kill()
    with running(tmp_path / "server-2.log", connect_server(cluster, archive, port)) as server:
        wait_for(server)
        with running(tmp_path / "client-2.log", [*client, "last"]) as program:
            program.said("started")
            found = program.said("finished")
    some, all = CONNECT_ROWS // 3, CONNECT_ROWS
    assert found["wrote"] == [
        ["batch", some, some, sum(range(some))],
        ["each", all, all, sum(range(all))],
        ["stream", all, all, sum(range(all))],
    ]
    numbers.close()
