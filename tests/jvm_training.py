"""A session of Spark that does a bit of what tests do, and writes an archive of the classes that were loaded.

python -m tests.jvm_training ARCHIVE
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from forebay.spark import session


class Two(DataSource, DataSourceReader):
    """A source of two rows."""

    @classmethod
    def name(cls) -> str:
        return "two"

    def reader(self, schema: StructType) -> DataSourceReader:
        return self

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [0, 1]})


def work(batch: DataFrame, number: int) -> None:
    batch.groupBy("value").count().orderBy("value").collect()


def main() -> None:
    config = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={sys.argv[1]}",
        "spark.log.level": "ERROR",
    }
    spark = session("local[2]", "training", config)
    spark.dataSource.register(Two)
    rows = spark.read.format("two").schema("id long").load()
    rows.selectExpr("id", "cast(id AS string) key", "current_timestamp() at").groupBy("key").count().collect()
    rows.mapInArrow(lambda batches: batches, "id long").toPandas()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    with tempfile.TemporaryDirectory() as folder:
        rows.write.parquet(f"{folder}/table")
        spark.read.parquet(f"{folder}/table").where("id > 0").collect()
        writer = stream.writeStream.foreachBatch(work).option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.trigger(once=True).start()
        query.awaitTermination()
        jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        # The JVM ends when this process does, but writes its archive only then: wait for it.
        jvm.stdin.close()
        jvm.wait()


if __name__ == "__main__":
    main()
