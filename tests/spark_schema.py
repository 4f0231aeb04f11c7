"""The schema with all columns of the source."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

from forebay.spark.schema import TYPES


def full_schema() -> StructType:
    """All columns there are."""
    return StructType([StructField(name, type) for name, type in TYPES.items()])
