"""The project that `template.init` makes, run by spark-pipelines as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pika
import pyarrow.parquet as pq
import pytest

from forebay.client.blocks import BlockClient
from forebay.spark.arrow.batches import BatchMaker, Buffer
from forebay.spark.schema import default_schema
from forebay.spark.template import init
from tests.broker_process import BrokerProcess
from tests.jvm import as_users_have_it

RUN_S_MAX = 900  # a guard against a hang


def publish(broker: BrokerProcess, first: int, end: int) -> None:
    """Messages with three routing keys."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    for queue in ("in", "out"):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("in", "amq.topic", "k.#")
    for number in range(first, end):
        channel.basic_publish("amq.topic", f"k.{number % 3}", b"%d" % number)
    connection.close()


def run(project: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [str(project / "run.sh")]
    environment = {**as_users_have_it(), "PATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]


def offsets_of(table: Path) -> list[int]:
    """What the committed files of a streaming table hold: its folder says which these are."""
    names: set[str] = set()
    for log in (table / "_spark_metadata").glob("[0-9]*"):
        names |= {Path(json.loads(line)["path"]).name for line in log.read_text().splitlines()[1:]}
    return sorted(row for name in names for row in pq.read_table(table / name)["offset"].to_pylist())


def bodies(broker: BrokerProcess, queue: str) -> list[dict[str, object]]:
    maker = BatchMaker(default_schema(False), queue)
    with BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as client:
        end = client.describe(queue).end
        blocks = [block for fetched in client.fetch(queue, 0, end) for block in Buffer(fetched.blocks, queue).blocks()]
    return [json.loads(body) for batch in maker.batches(blocks, 0, end) for body in batch["value"].to_pylist()]


@pytest.mark.timeout(2 * RUN_S_MAX)
@pytest.mark.usefixtures("connect_port")
def test_each_run_adds_what_is_new(broker: BrokerProcess, tmp_path: Path) -> None:
    project = tmp_path / "project"
    init(str(project), f"127.0.0.1:{broker.amqp_port}", "in", "out")
    publish(broker, 0, 90)
    run(project)
    assert offsets_of(project / "tables" / "messages") == list(range(90))
    assert len(bodies(broker, "out")) == 90
    publish(broker, 90, 120)
    run(project)
    assert offsets_of(project / "tables" / "messages") == list(range(120))
    counted = pq.read_table(project / "tables" / "by_minute").group_by("routing_key").aggregate([("messages", "sum")])
    assert dict(zip(counted["routing_key"].to_pylist(), counted["messages_sum"].to_pylist(), strict=True)) == {
        "k.0": 40,
        "k.1": 40,
        "k.2": 40,
    }
    results = sorted(bodies(broker, "out"), key=lambda each: int(str(each["offset"])))
    assert [each["offset"] for each in results] == list(range(120))
    assert results[100] == {"offset": 100, "routing_key": "k.1", "octets": 3}
