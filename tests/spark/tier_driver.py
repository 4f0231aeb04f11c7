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
    everybody = threading.Barrier(len(FORMATS))
    commit = LakeTable.commit

    def commit_and_die(self: LakeTable, app_id: str, batch: int, files: Sequence[DataFile]) -> bool:
        if batch < LAST_BATCH:
            return commit(self, app_id, batch, files)
        if place == "between":
            commit(self, app_id, batch, files)
        everybody.wait()
        os.killpg(0, signal.SIGKILL)
        raise AssertionError("unreachable")

    LakeTable.commit = commit_and_die  # type: ignore[method-assign]
    config = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.warehouse.dir": folder}
    spark = session("local[2]", "driver", config)
    options = {"forebay.servers": server, "maxOffsetsPerTrigger": str(OFFSETS_A_BATCH)}
    queries = [tier(spark, queue, options, str(Path(folder) / format), format) for format in FORMATS]
    for query in queries:
        assert not isinstance(query, Tiered)
        query.awaitTermination()


if __name__ == "__main__":
    main()
