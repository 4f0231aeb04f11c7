"""Spark where no Java is installed: a server of Spark Connect on the Java of PyPI, and a client that needs none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pyspark
import pytest

from forebay.client.blocks import BlockClient
from tests.broker_process import BrokerProcess, free_port
from tests.waiting import until

ROWS = 500
RUN_S_MAX = 900  # a guard against a hang
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = Path(__file__).with_name("connect_client.py")
SESSION = """
from forebay.spark import session

spark = session("local[1]", config={"spark.ui.enabled": "false"})
version = spark._jvm.java.lang.System.getProperty("java.version")
print("Java", version, "counted", spark.sql("SELECT count(*) FROM range(7)").first()[0])
spark.stop()
"""


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
def connect_server(no_java: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """URL of a server that has forebay in its Python."""
    port = free_port()
    found = subprocess.run(
        [sys.executable, "-m", "forebay.spark.java"], env=no_java, capture_output=True, text=True, check=True
    )
    command = [str(SPARK_CLASS), "org.apache.spark.deploy.SparkSubmit", "--class", SERVER, "--master", "local[2]"]
    for setting in (
        f"spark.connect.grpc.binding.port={port}",
        "spark.driver.memory=1g",
        "spark.ui.enabled=false",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.driver.host=127.0.0.1",
        f"spark.sql.warehouse.dir={tmp_path / 'warehouse'}",
    ):
        command += ["--conf", setting]
    environment = {**no_java, "JAVA_HOME": found.stdout.strip()}
    log = tmp_path / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen([*command, "spark-internal"], stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:

        def is_started() -> bool:
            text = log.read_text(errors="replace")
            assert server.poll() is None, text
            return "Spark Connect server started" in text

        until(is_started, lambda: log.read_text(errors="replace"), seconds=RUN_S_MAX)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def start(broker: BrokerProcess) -> None:
    """Numbers in `in`, and the queues that are written to."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    for queue in ("in", "batch", "stream", "each"):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for number in range(ROWS):
        channel.basic_publish("", "in", b"%03d" % number)
    connection.close()


@pytest.mark.timeout(2 * RUN_S_MAX)
def test_source_sink_and_foreach_batch(
    broker: BrokerProcess, connect_server: str, no_java: dict[str, str], tmp_path: Path
) -> None:
    start(broker)
    command = [sys.executable, str(CLIENT), connect_server, f"127.0.0.1:{broker.amqp_port}", str(tmp_path)]
    done = subprocess.run(command, env=no_java, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    assert done.returncode == 0, (done.stderr + (tmp_path / "server.log").read_text(errors="replace"))[-8000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["read"] == ROWS
    assert said["wrote"] == [["batch", ROWS, ROWS, "000"], ["each", ROWS, ROWS, "0:000"], ["stream", ROWS, ROWS, "000"]]
    with BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as client:
        assert client.describe("each").end == ROWS


@pytest.mark.timeout(RUN_S_MAX)
def test_a_session_on_the_java_of_pypi(no_java: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", SESSION], env=no_java, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert said[2:] == ["counted", "7"]
    assert int(said[1].split(".")[0]) >= 17
    assert any(Path(no_java["XDG_CACHE_HOME"]).glob("forebay/java-*/bin/java"))
