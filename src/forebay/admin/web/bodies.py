"""Bodies of requests: structs out of JSON, whatever their Content-Type says, as RabbitMQ takes them.

What `curl -d` sends says that it is a form, and many a tool says nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from forebay.admin.web.faults import MISSING, NO_OBJECT, InputFault, RefusedInput, fault_of
from forebay.admin.web.fields import UNIONS
from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.json_text import JsonError, read_json
from forebay.core.reading.nearest import hint, slip_among

BODY: Final = "body"
NULL: Final = "null"  # which msgspec takes for the absence of a value, where it is told to read texts


class Body(msgspec.Struct):
    """A body whose fields go by the names of RabbitMQ's API.

    Unknown fields say nothing, as with RabbitMQ, unless they are like one that is missing.
    """

    @classmethod
    def check_names(cls, given: dict[str, Any], path: str) -> None:
        """Refuse a field that is most likely misspelt: 'durabel' would make a queue that is not durable."""
        name, meant = slip_among(given, {each.encode_name for each in fields_of(cls)} | set(cls.__struct_fields__))
        if meant:
            raise RefusedInput([InputFault((BODY,), f"'{name}' is no field: did you mean {meant}?", given)])


class Exact(msgspec.Struct, forbid_unknown_fields=True):
    """A body that has these fields and no others."""

    @classmethod
    def check_names(cls, given: dict[str, Any], path: str) -> None:
        """RequestError(INVALID) names a field that is not known, and what was meant; `path` is that of the route."""
        known = names_of(cls)
        for name in given:
            if name not in known:
                raise unknown_field(path, name, known)


def unknown_field(path: str, name: str, known: frozenset[str]) -> RequestError:
    """Return the error for a field of the body that a route does not know."""
    return RequestError(INVALID, f"body: {name!r} is no field of what {path} takes: {hint(name, known)}")


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(kind)


@cache
def names_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names that fields have in JSON."""
    return frozenset(each.encode_name for each in fields_of(kind))


def read_body(octets: bytes, field: str = BODY) -> object:
    """Return the JSON value of a body; raise RequestError(INVALID), naming the field and the value, if it cannot be."""
    try:
        return read_json(octets, field)
    except JsonError as error:
        fault = str(error)
        raise RequestError(INVALID, fault if fault.startswith(field) else f"{field}: {fault}") from None


def read_struct(kind: type[msgspec.Struct], given: object, path: str) -> msgspec.Struct:
    """Return the struct of a body; raise RefusedInput, or RequestError(INVALID) for an unknown field.

    path  of the route, which errors name
    """
    if not isinstance(given, dict):
        raise RefusedInput([InputFault((BODY,), NO_OBJECT, given)])
    if issubclass(kind, Body | Exact):
        kind.check_names(given, path)
    faults: list[InputFault] = []
    values: dict[str, Any] = {}
    for field in fields_of(kind):
        try:
            read_field(field, given, values, issubclass(kind, Body))
        except msgspec.ValidationError as error:
            value = given.get(field.encode_name, given.get(field.name))
            faults.append(fault_of(field.type, value, (BODY, field.encode_name), error))
        except KeyError:
            faults.append(InputFault((BODY, field.encode_name), MISSING, given))
    if faults:
        raise RefusedInput(faults)
    return kind(**values)


def read_field(field: FieldInfo, given: Mapping[str, Any], values: dict[str, Any], is_lenient: bool) -> None:
    """Add the value of a field; raise KeyError if it is missing, and msgspec.ValidationError if it is wrong.

    A field that may be absent is absent where it is null. Leniently, an empty list is an empty table, for languages
    that have one word for both, and a number a text: RabbitMQ takes them.
    """
    value = given.get(field.encode_name, given.get(field.name))
    if value is None and (not field.required or not (field.encode_name in given or field.name in given)):
        if field.required:
            raise KeyError(field.name)
        return
    if is_lenient and value == [] and get_origin(plain(field.type)) is dict:
        value = {}
    elif is_lenient and isinstance(value, int | float) and not isinstance(value, bool) and is_text(field.type):
        value = str(value)
    values[field.name] = convert(value, field.type)


def convert(value: Any, kind: Any) -> Any:
    """Return a value as a type has it: texts stand for numbers and flags, as tools and the query send them."""
    return msgspec.convert(value, kind, strict=isinstance(value, str) and value.lower() == NULL)


def plain(kind: Any) -> Any:
    """Return a type without what is annotated to it."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_text(kind: Any) -> bool:
    """Return whether a field may be a text."""
    inner = plain(kind)
    return inner is str or (get_origin(inner) in UNIONS and str in get_args(inner))
