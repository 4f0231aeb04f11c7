"""A program with one streaming query, to be killed: what is in the stream `in` goes to the queue `out`.

python sink_driver.py SERVER CHECKPOINT
"""

from __future__ import annotations

import sys

from forebay.spark import session

ROWS_A_BATCH = 150


def main(server: str, checkpoint: str) -> None:
    config = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    # Four attempts for a task, as on a cluster: the workers are killed too.
    spark = session(master="local[2,4]", app_name="sink", config=config)
    source = spark.readStream.format("forebay").option("forebay.servers", server).option("subscribe", "in")
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ROWS_A_BATCH)
    writer = source.load().select("value").writeStream.format("forebay").option("forebay.servers", server)
    # Many small blocks: a task is to be found while it stages.
    writer = writer.option("topic", "out").option("batchRows", 5).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
