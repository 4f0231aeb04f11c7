"""A stream source for tier jobs: its tasks read ranges of queues and write files, and Spark gets one row for each file.

So records go from the broker's blocks into Parquet within one Python process, in columns, and never through the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from forebay.spark.options import check_stream, parse_options
from forebay.spark.reading.stream import ForebayStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

    from forebay.spark.options import ReadOptions
    from forebay.spark.tables.layout import DataFile

TARGET: Final = "tier"  # the option that holds the target as JSON
FILE_SCHEMA: Final = StructType([StructField("file", StringType())])


@dataclass(frozen=True, slots=True)
class TierTarget:
    """The table that tasks write to, and how they write it.

    columns, partitions  of the table's layout
    octets               approximate size of a file, in bytes
    with_partitions      whether the files contain the partition columns too
    """

    folder: str
    columns: tuple[str, ...]
    partitions: tuple[str, ...]
    compression: str
    octets: int
    with_partitions: bool

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        return cls(**{**values, "columns": tuple(values["columns"]), "partitions": tuple(values["partitions"])})


class TierSource(DataSource):
    """The Spark data source of tier jobs. Its options are those of `forebay`, and a target."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format; only tier jobs load it."""
        return "forebay-tier"

    def schema(self) -> StructType:
        """Return the schema: one column, a file as JSON."""
        return FILE_SCHEMA

    def streamReader(self, schema: StructType) -> TierReader:  # noqa: N802  PySpark's name
        """Return the stream reader for the options."""
        options = parse_options({name: value for name, value in self.options.items() if name.lower() != TARGET})
        check_stream(options)
        return TierReader(options, schema, TierTarget.from_json(self.options[TARGET]))


class TierReader(ForebayStreamReader):
    """A stream reader that plans as the source does; its tasks write what they read to files."""

    def __init__(self, options: ReadOptions, schema: StructType, target: TierTarget) -> None:
        super().__init__(options, schema)
        self.target_files = target

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write a range to files, and yield these as rows. Runs on the executors."""
        from forebay.spark.reading.reader import RangePartition
        from forebay.spark.tables.layout import Layout
        from forebay.spark.tables.writing import PartitionWriter, WriteOptions

        assert isinstance(partition, RangePartition)
        if partition.range is None:
            return
        target = self.target_files
        layout = Layout(target.columns, target.partitions)
        options = WriteOptions(target.compression, target.octets, target.with_partitions)
        writer = PartitionWriter(target.folder, layout, partition.range.queue, options)
        self.schema = layout.source_schema()
        try:
            for batch in super().read(partition):
                writer.write(batch)
            files = writer.finish()
        except BaseException:
            writer.abandon()
            raise
        if files:
            yield file_rows(files)


def file_rows(files: list[DataFile]) -> pa.RecordBatch:
    """Return files as rows."""
    import numpy as np
    import pyarrow as pa

    texts = [file.to_json().encode() for file in files]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    # Not pa.array(): see spark/arrow/batches.py.
    column = pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])
    return pa.RecordBatch.from_arrays([column], schema=pa.schema([pa.field("file", pa.string())]))
