"""Faults of the arguments of a request: each names the field, and the value where that is short."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import inspect

from forebay.core.errors import INVALID, RequestError

SHOWN_CHARACTERS_MAX: Final = 80  # of a value that was refused
MISSING: Final = "Field required"
NO_OBJECT: Final = "Input should be a valid dictionary or object to extract fields from"
NAMES: Final = {int: "integer", bool: "boolean"}
UNPARSED: Final = {int: "integer, unable to parse string as an integer", bool: "boolean, unable to interpret input"}
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class InputFault:
    """One argument that is wrong.

    place  where it is: `query` or `body`, and the names that lead to it
    """

    place: Place
    message: str
    value: object

    def text(self) -> str:
        """Return the fault in words."""
        field = ".".join(str(part) for part in self.place)
        value = repr(self.value)
        shown = f" {value}:" if len(value) <= SHOWN_CHARACTERS_MAX else ""
        return f"{field}:{shown} {self.message}"


class RefusedInput(RequestError):
    """Arguments of a request that are wrong; the text is that of the first."""

    def __init__(self, faults: Sequence[InputFault]) -> None:
        super().__init__(INVALID, faults[0].text())
        self.faults = faults


def fault_of(kind: Any, value: object, place: Place, error: msgspec.ValidationError) -> InputFault:
    """Return the fault of a value that could not be converted to a type: of the part of it that is wrong."""
    return next(faults_in(inspect.type_info(kind), value, place), InputFault(place, str(error), value))


def faults_in(type: inspect.Type, value: object, place: Place) -> Iterator[InputFault]:
    """Yield what is wrong with a value, and with what it contains."""
    while isinstance(type, inspect.Metadata):
        type = type.type
    if isinstance(type, inspect.UnionType):
        options = [each for each in type.types if not isinstance(each, inspect.NoneType)]
        found = [list(faults_in(each, value, place)) for each in options]
        yield from (found[0] if all(found) else ())
    elif isinstance(type, inspect.IntType):
        yield from faults_of_number(type, value, place)
    elif isinstance(type, inspect.BoolType):
        yield from faults_of_scalar(bool, value, place)
    elif isinstance(type, inspect.StrType):
        yield from faults_of_text(type, value, place)
    elif isinstance(type, inspect.LiteralType):
        if value not in type.values:
            *names, last = (repr(each) for each in type.values)
            yield InputFault(place, f"Input should be {', '.join(names)} or {last}", value)
    elif isinstance(type, inspect.ListType):
        yield from faults_of_list(type, value, place)
    elif isinstance(type, inspect.DictType):
        if not isinstance(value, dict):
            yield InputFault(place, "Input should be a valid dictionary", value)
    elif isinstance(type, inspect.TupleType) and (not isinstance(value, list) or len(value) != len(type.item_types)):
        yield InputFault(place, "Input should be a valid tuple", value)


def faults_of_scalar(type: type[int] | type[bool], value: object, place: Place) -> Iterator[InputFault]:
    try:
        msgspec.convert(value, type, strict=False)
    except msgspec.ValidationError:
        yield InputFault(
            place,
            f"Input should be a valid {UNPARSED[type] if isinstance(value, str) else NAMES[type]}",
            value,
        )


def faults_of_number(type: inspect.IntType, value: object, place: Place) -> Iterator[InputFault]:
    faults = list(faults_of_scalar(int, value, place))
    if faults:
        yield from faults
        return
    number = msgspec.convert(value, int, strict=False)
    if type.ge is not None and number < type.ge:
        yield InputFault(place, f"Input should be greater than or equal to {type.ge}", value)
    elif type.le is not None and number > type.le:
        yield InputFault(place, f"Input should be less than or equal to {type.le}", value)


def faults_of_text(type: inspect.StrType, value: object, place: Place) -> Iterator[InputFault]:
    if not isinstance(value, str):
        yield InputFault(place, "Input should be a valid string", value)
    elif type.min_length is not None and len(value) < type.min_length:
        yield InputFault(place, f"String should have at least {counted(type.min_length, 'character')}", value)
    elif type.max_length is not None and len(value) > type.max_length:
        yield InputFault(place, f"String should have at most {counted(type.max_length, 'character')}", value)
    elif type.pattern is not None and re.search(type.pattern, value) is None:
        yield InputFault(place, f"String should match pattern '{type.pattern}'", value)


def faults_of_list(type: inspect.ListType, value: object, place: Place) -> Iterator[InputFault]:
    if not isinstance(value, list):
        yield InputFault(place, "Input should be a valid list", value)
        return
    if type.max_length is not None and len(value) > type.max_length:
        most = f"List should have at most {counted(type.max_length, 'item')} after validation"
        yield InputFault(place, f"{most}, not {len(value)}", value)
        return
    for index, each in enumerate(value):
        yield from faults_in(type.item_type, each, (*place, index))


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
