"""One format of bodies, and how an executor makes a column of them."""

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
    """A body cannot be read; its text says why, for people."""


class BodyFormat(ABC):
    """A format with a schema. Spark sends it to executors, so it holds what can be pickled."""

    @abstractmethod
    def columns(self) -> StructType:
        """The columns that bodies become; every one may be NULL."""

    @abstractmethod
    def reader(self) -> Read:
        """The function that reads a body, made once a task; whatever it raises says that the body is bad."""


class BodyReading:
    """Adds what bodies say, and what is wrong with them, to the rows of one task; executor.

    skip   octets in front of each body that are no part of it
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
        """The fields of a body, or what is wrong with it."""
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
    """The column of these bodies. One that does not fit its type is bad, too, and is noted in `errors`."""
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass  # it does not say whose: each by itself
    for index, fields in enumerate(found):
        try:
            pa.array([fields], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            found[index], errors[index] = None, words_of(error)
    return pa.array(found, kind)


def words_of(error: Exception) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    if not isinstance(error, BadBody):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:ERROR_CHARACTERS_MAX]
