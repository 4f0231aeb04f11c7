"""JSON bodies as columns, and rows as JSON bodies."""

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
    """Spark's error without plans and stack traces; where a Python source or task of ours says it, that."""
    lines = str(error).strip().splitlines()
    own = [line for line in lines if line.startswith(OWN_ERRORS)]
    return own[-1].partition(": ")[2] if own else lines[0].rstrip("; ")


def body_schema(columns: str) -> StructType:
    """The schema of bodies, out of text such as `carrier string, delay int`; OptionError with Spark's words."""
    try:
        schema = StructType.fromDDL(columns)
    except ParseException as error:
        raise OptionError(f"columns: {columns!r}: {first_line(error)}") from None
    if not isinstance(schema, StructType):
        raise OptionError(f"columns: {columns!r} has no names: give them as in CREATE TABLE")
    return schema


def check_names(frame: DataFrame, names: Sequence[str]) -> None:
    """OptionError if one of these is a column already."""
    taken = {name.lower() for name in frame.columns}
    for name in names:
        if name.lower() in taken:
            raise OptionError(f"columns: {name!r} is a column of every queue: select it from the JSON by another way")


def with_body_columns(frame: DataFrame, columns: str) -> DataFrame:
    """The rows with these fields of their JSON bodies as further columns; NULL where a body has none such.

    columns  names and types, as in CREATE TABLE; empty adds nothing
    raises   OptionError for a name that is a column already
    """
    if not columns:
        return frame
    schema = body_schema(columns)
    check_names(frame, schema.fieldNames())
    parsed = frame.withColumn(BODY, F.from_json(F.col("value").cast("string"), schema))
    return parsed.select(*frame.columns, *(F.col(BODY)[name].alias(name) for name in schema.fieldNames()))
