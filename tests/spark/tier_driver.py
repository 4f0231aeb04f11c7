"""A driver that tiers one queue into a table of each format, and dies by SIGKILL with JVM and workers at one place.

usage: tier_driver.py SERVER QUEUE FOLDER before|between

It dies when all jobs are at their second micro-batch: before the tables' commits, or between them and Spark's own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from forebay.spark import session, tier
from forebay.spark.jobs.tier import Tiered
from forebay.spark.tables.layout import DataFile
from forebay.spark.tables.table import LakeTable

FORMATS = ("parquet", "delta", "iceberg")
LAST_BATCH = 1
OFFSETS_A_BATCH = 50


def main() -> None:
    server, queue, folder, place = sys.argv[1:]
    arrived = threading.Semaphore(0)
    everybody = threading.Event()
    commit = LakeTable.commit

    def commit_and_die(self: LakeTable, app_id: str, batch: int, files: Sequence[DataFile]) -> bool:
        if batch < LAST_BATCH:
            return commit(self, app_id, batch, files)
        if place == "between":
            commit(self, app_id, batch, files)
        arrived.release()
        everybody.wait()
        raise AssertionError("it goes on after its death")

    LakeTable.commit = commit_and_die  # type: ignore[method-assign]
    config = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.warehouse.dir": folder}
    spark = session("local[2]", "driver", config)
    options = {"forebay.servers": server, "maxOffsetsPerTrigger": str(OFFSETS_A_BATCH)}
    for format in FORMATS:
        query = tier(spark, queue, options, str(Path(folder) / format), format)
        assert not isinstance(query, Tiered)
        while not arrived.acquire(timeout=0.1):
            assert query.isActive, query.exception()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
