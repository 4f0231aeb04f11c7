"""Converts JSON bodies to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.types import StructType

from forebay.core.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BODY: Final = "_body"
OWN_ERRORS: Final = ("forebay.core.errors.", "forebay.client.blocks.", "forebay.spark.reading.logs.")


def first_line(error: PySparkException) -> str:
    """Return Spark's error without plans and stack traces: the message of forebay's own error if there is one."""
    lines = str(error).strip().splitlines()
    own = [line for line in lines if line.startswith(OWN_ERRORS)]
    return own[-1].partition(": ")[2] if own else lines[0].rstrip("; ")


def body_schema(columns: str) -> StructType:
    """Parse the schema of bodies from text such as `carrier string, delay int`.

    Raises OptionError with Spark's message.
    """
    try:
        schema = StructType.fromDDL(columns)
    except ParseException as error:
        raise OptionError(f"columns: {columns!r}: {first_line(error)}") from None
    if not isinstance(schema, StructType):
        raise OptionError(f"columns: {columns!r} has no names: give them as in CREATE TABLE")
    return schema


def check_names(frame: DataFrame, names: Sequence[str]) -> None:
    """Raise OptionError if the frame already has a column with one of these names."""
    taken = {name.lower() for name in frame.columns}
    for name in names:
        if name.lower() in taken:
            raise OptionError(f"columns: {name!r} is a column of every queue: select it from the JSON by another way")


def with_body_columns(frame: DataFrame, columns: str) -> DataFrame:
    """Add fields of the JSON bodies as columns, NULL if a body lacks the field.

    columns  names and types, as in CREATE TABLE; empty adds nothing
    raises   OptionError for a name that is a column already
    """
    if not columns:
        return frame
    schema = body_schema(columns)
    check_names(frame, schema.fieldNames())
    parsed = frame.withColumn(BODY, F.from_json(F.col("value").cast("string"), schema))
    return parsed.select(*frame.columns, *(F.col(BODY)[name].alias(name) for name in schema.fieldNames()))
