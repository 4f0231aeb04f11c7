"""The interface of a body format, and the executor's code that makes a column of bodies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

ERROR_CHARACTERS_MAX: Final = 200

Fields = dict[str, Any]
Read = Callable[[bytes], Fields]


class BadBody(Exception):
    """A body cannot be read; the text gives the reason, for people."""


class BodyFormat(ABC):
    """A format of bodies with its schema. It can be pickled, as Spark sends it to executors."""

    @abstractmethod
    def columns(self) -> StructType:
        """Return the columns that a body is decoded to; every one may be NULL."""

    @abstractmethod
    def reader(self) -> Read:
        """Return a function that decodes one body. Called once per task.

        Whatever exception that function raises means that the body is bad.
        """


class BodyReading:
    """Adds decoded bodies and decoding errors as columns to the rows of one task. Runs on executors.

    skip   bytes to skip at the start of each body
    value  index of the column of bodies
    """

    def __init__(self, bodies: BodyFormat, skip: int, value: int, body: str, error: str) -> None:
        self.bodies = bodies
        self.skip = skip
        self.value = value
        self.names = (body, error)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = self.bodies.reader()
        kind = to_arrow_type(self.bodies.columns(), timezone="UTC")
        for batch in batches:
            found: list[Fields | None] = []
            errors: list[str | None] = []
            for octets in batch.column(self.value).to_pylist():
                fields, error = self.read(read, octets)
                found.append(fields)
                errors.append(error)
            column = column_of(found, errors, kind)
            columns = [*batch.columns, column, pa.array(errors, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, *self.names])

    def read(self, read: Read, octets: bytes | str | None) -> tuple[Fields | None, str | None]:
        """Decode a body, and return its fields and None, or None and an error text."""
        if octets is None:
            return None, "there is no body"
        if isinstance(octets, str):
            octets = octets.encode()
        if len(octets) < self.skip:
            return None, f"it has {len(octets)} octets, and {self.skip} of them were to be skipped"
        try:
            return read(octets[self.skip :] if self.skip else octets), None
        except Exception as error:  # noqa: BLE001  libraries raise whatever their input makes them
            return None, words_of(error)


def column_of(found: list[Fields | None], errors: list[str | None], kind: pa.DataType) -> pa.Array:
    """Return decoded bodies as a column.

    A body that does not fit the type becomes NULL, and is recorded in `errors`.
    """
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass  # the error does not say which body is bad: try each
    for index, fields in enumerate(found):
        try:
            pa.array([fields], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            found[index], errors[index] = None, words_of(error)
    return pa.array(found, kind)


def words_of(error: Exception) -> str:
    """Return an error as one line of text."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    if not isinstance(error, BadBody):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:ERROR_CHARACTERS_MAX]
