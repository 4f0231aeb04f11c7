"""The data source `forebay` as PySpark sees it.

Imports nothing but PySpark here: pickled by reference, it is loaded in every Python worker.
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
    """Queues of a forebay broker as tables."""

    @plainly()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Checked here already: so that a bad option fails at load(), not when the first row is asked for. Spark does
        # not say whether the options are those of a source or of a sink, where neither of these has a place.
        if any(name.lower() in {SUBSCRIBE.lower(), PATTERN.lower()} for name in options):
            parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "forebay"

    @plainly()
    def schema(self) -> StructType:
        """The columns of Spark's Kafka source; a schema given by the user replaces them."""
        from forebay.spark.schema import default_schema

        return default_schema(parse_options(self.options).headers)

    # PySpark looks for the parameter by its name, `schema`.
    @plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of `schema` only."""
        from forebay.spark.reading.reader import ForebayReader
        from forebay.spark.schema import check_schema

        check_schema(schema)
        options = parse_options(self.options)
        check_batch(options)
        return ForebayReader(options, schema)

    # Not `plainly`: PySpark fails once more where there is no reader, and the traceback alone has the first error then.
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  PySpark's name
        """The same of a stream."""
        from forebay.spark.reading.stream import ForebayStreamReader
        from forebay.spark.schema import check_schema

        check_schema(schema)
        options = parse_options(self.options)
        check_stream(options)
        return ForebayStreamReader(options, schema)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Publishes the rows, all of them or none."""
        from forebay.core.errors import OptionError
        from forebay.spark.sink.options import parse_sink, sink_columns
        from forebay.spark.sink.writer import ForebayWriter

        if overwrite:
            raise OptionError("mode: 'overwrite' cannot be: messages are only ever added to a queue; use 'append'")
        options = parse_sink(self.options)
        writer = ForebayWriter(options, sink_columns(schema, options))
        writer.stager.check(writer.query)
        return writer

    # PySpark's name. `overwrite` is what the output mode `complete` asks for: rows are added all the same.
    @plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """The same of each micro-batch."""
        from forebay.spark.sink.options import check_stream_sink, parse_sink, sink_columns
        from forebay.spark.sink.writer import ForebayStreamWriter

        options = parse_sink(self.options)
        check_stream_sink(options)
        writer = ForebayStreamWriter(options, sink_columns(schema, options))
        writer.stager.check()
        return writer


def register(spark: SparkSession) -> None:
    """Make `format("forebay")` known to a session, and to the source how many tasks run at once.

    Needed only where the package is not found by itself, or `session` has not made the session.

    raises  OptionError where the workers' Python cannot import the package: which it is, and what to set
    """
    from pyspark.sql import is_remote

    if not is_remote():
        from forebay.spark.setup.parallelism import ADDRESS, driver_answers
        from forebay.spark.setup.workers import check_workers

        check_workers(spark)
        spark.sparkContext.environment[ADDRESS] = driver_answers().path
    spark.dataSource.register(ForebaySource)
