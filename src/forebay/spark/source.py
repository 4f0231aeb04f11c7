"""The data source `forebay` as PySpark sees it.

Imports nothing but PySpark here: pickled by reference, it is loaded in every Python worker.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from forebay.spark.options import parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ForebaySource(DataSource):
    """Queues of a forebay broker as tables."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Checked here already: so that a bad option fails at load(), not when the first row is asked for.
        parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "forebay"

    def schema(self) -> StructType:
        """All columns; a schema given by the user replaces them."""
        from forebay.spark.schema import full_schema

        return full_schema()

    # PySpark looks for the parameter by its name, `schema`.
    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of `schema` only."""
        from forebay.spark.reader import ForebayReader
        from forebay.spark.schema import check_schema

        check_schema(schema)
        return ForebayReader(parse_options(self.options), schema)


def register(spark: SparkSession) -> None:
    """Make `format("forebay")` known to a session; needed only where the package is not found by itself."""
    spark.dataSource.register(ForebaySource)
