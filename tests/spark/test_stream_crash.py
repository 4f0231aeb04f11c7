"""A driver that dies in the middle of a query: another one goes on, and no record is missing or there twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.conftest import Feed
from tests.spark.streams import WAIT_S
from tests.waiting import until

ROOT = Path(__file__).parents[2]
ROWS = 600
DRIVER = """
import sys
from forebay.spark import session
from tests.spark.test_stream_crash import query

server, folder = sys.argv[1:]
config = {"spark.driver.memory": "512m", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
query(session("local[2]", "driver", config), server, folder).start().awaitTermination()
"""


def query(spark: SparkSession, server: str, folder: str) -> DataStreamWriter:
    """A query whose sink writes a file for each batch; run again, a batch writes the same file again."""

    def write(frame: DataFrame, batch: int) -> None:
        path = Path(folder, f"batch-{batch}")
        path.with_suffix(".new").write_text(json.dumps([row["offset"] for row in frame.collect()]))
        path.with_suffix(".new").rename(path)

    frame = (
        spark.readStream.format("forebay")
        .option("forebay.servers", server)
        .option("subscribe", "s")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20)
        .schema("offset bigint")
        .load()
    )
    return frame.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")


@pytest.mark.timeout(300)
def test_a_driver_is_killed(feed: Feed, tmp_path: Path) -> None:
    feed.stream("s")
    feed.publish("s", [b"%d" % at for at in range(ROWS)])
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), feed.server, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with (tmp_path / "log").open("wb") as log:
        # A session of its own: the JVM and the Python workers die with it.
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    try:

        def has_come() -> bool:
            assert driver.poll() is None, (tmp_path / "log").read_text()
            return (tmp_path / "batch-4").exists()

        until(has_come, "the fifth batch of the driver", seconds=WAIT_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert len(list(tmp_path.glob("batch-*"))) < ROWS / 20
    going_on = query(feed.spark, feed.server, str(tmp_path)).trigger(availableNow=True).start()
    assert going_on.awaitTermination(3 * WAIT_S)
    batches = [json.loads(path.read_text()) for path in tmp_path.glob("batch-*") if not path.suffix]
    assert sorted(offset for batch in batches for offset in batch) == list(range(ROWS))
