"""The data source `forebay` as PySpark sees it.

Imports nothing but PySpark here: this module is pickled by reference, so every Python worker loads it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from forebay.spark.options import PATTERN, check_batch, check_stream, parse_options
from forebay.spark.positions import SUBSCRIBE
from forebay.spark.setup.plain import plainly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ForebaySource(DataSource):
    """The Spark data source that reads and writes queues of a forebay broker as tables."""

    @plainly()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Checked here so that a bad option fails at load(), not when the first row is asked for. Spark does
        # not say whether the options are those of a source or of a sink; only a source has one of these two.
        if any(name.lower() in {SUBSCRIBE.lower(), PATTERN.lower()} for name in options):
            parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the name to use in `format(...)`."""
        return "forebay"

    @plainly()
    def schema(self) -> StructType:
        """Return the columns of a read without a user's schema: those of Spark's Kafka source."""
        from forebay.spark.schema import default_schema

        return default_schema(parse_options(self.options).headers)

    # PySpark looks for the parameter by its name, `schema`.
    @plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch read, which reads only the columns of `schema`."""
        from forebay.spark.reading.reader import ForebayReader
        from forebay.spark.schema import check_schema

        check_schema(schema)
        options = parse_options(self.options)
        check_batch(options)
        return ForebayReader(options, schema)

    # Not `plainly`: without a reader PySpark raises a second error, and only the traceback then shows the first.
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  PySpark's name
        """Return the reader of a streaming read, which reads only the columns of `schema`."""
        from forebay.spark.reading.stream import ForebayStreamReader
        from forebay.spark.schema import check_schema

        check_schema(schema)
        options = parse_options(self.options)
        check_stream(options)
        return ForebayStreamReader(options, schema)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch, which publishes all of the rows or none."""
        from forebay.core.errors import OptionError
        from forebay.spark.sink.options import parse_sink, sink_columns
        from forebay.spark.sink.writer import ForebayWriter

        if overwrite:
            raise OptionError("mode: 'overwrite' cannot be: messages are only ever added to a queue; use 'append'")
        options = parse_sink(self.options)
        writer = ForebayWriter(options, sink_columns(schema, options))
        writer.stager.check(writer.query)
        return writer

    # PySpark's name. `overwrite` is set for the output mode `complete`: rows are appended all the same.
    @plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return the writer of a stream, which publishes all rows of a micro-batch or none."""
        from forebay.spark.sink.options import check_stream_sink, parse_sink, sink_columns
        from forebay.spark.sink.writer import ForebayStreamWriter

        options = parse_sink(self.options)
        check_stream_sink(options)
        writer = ForebayStreamWriter(options, sink_columns(schema, options))
        writer.stager.check()
        return writer


def register(spark: SparkSession) -> None:
    """Register the data source with a session, so that `format("forebay")` works.

    Needed only if Spark does not find the package by itself, or `session` has not created the session. Also lets the
    source ask the driver how many tasks run at once.

    raises  OptionError if the workers' Python cannot import the package; the message names it and what to set
    """
    from pyspark.sql import is_remote

    if not is_remote():
        from forebay.spark.setup.parallelism import ADDRESS, driver_answers
        from forebay.spark.setup.workers import check_workers

        check_workers(spark)
        spark.sparkContext.environment[ADDRESS] = driver_answers().path
    spark.dataSource.register(ForebaySource)
