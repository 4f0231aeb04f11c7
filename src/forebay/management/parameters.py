"""The parameters of operations, read of the structs of their requests, for the command line, OpenAPI and pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from forebay.management.requests.fields import (
    INTEGER_MAX,
    METAVAR,
    OperationRequest,
    PageRequest,
    Ranges,
    VhostPageRequest,
)
from forebay.management.requests.table import REQUESTS

TEXT: Final = "text"
WHOLE: Final = "whole number"
FLAG: Final = "true or false"
TABLE: Final = "object"
TEXTS: Final = "list of texts"
RANGES: Final = "list of offsets and of pairs [first, end]"
ANY: Final = "any value"
TYPES: Final[dict[Any, str]] = {
    str: TEXT,
    int: WHOLE,
    bool: FLAG,
    dict[str, Any]: TABLE,
    list[str]: TEXTS,
    get_args(Ranges)[0]: RANGES,
    Any: ANY,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an operation.

    default      what it is where nobody says; None makes it optional
    least, most  of a whole number; None: no bound but what 64 bits hold
    metavar      what stands for its value on the command line; where it is empty, its type or else its name says it
    """

    name: str
    type: str
    doc: str
    required: bool = True
    default: object = None
    least: int | None = None
    most: int | None = None
    metavar: str = ""

    def sentence(self) -> str:
        """Return the description, without the full stop."""
        return self.doc[:1].upper() + self.doc[1:]


def parameters_of(operation: str) -> tuple[Parameter, ...]:
    """Return the parameters of the operation of that name, in their order."""
    return read_parameters(REQUESTS[operation])


@cache
def read_parameters(request: type[OperationRequest]) -> tuple[Parameter, ...]:
    """Return the parameters that the fields of a request are."""
    hints = get_type_hints(request, include_extras=True)
    return tuple(parameter_of(each, hints[each.name]) for each in msgspec.structs.fields(request))


def parameter_of(field: msgspec.structs.FieldInfo, hint: Any) -> Parameter:
    """Return the parameter that a field of a request is."""
    kind, *metas = get_args(without_none(hint))
    if get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        metas = [*inner, *metas]
    doc, word = "", ""
    least: int | None = None
    most: int | None = None
    for each in metas:
        doc = each.description or doc
        word = (each.extra or {}).get(METAVAR, word)
        least = bound_of(each.ge, least)
        most = bound_of(each.le, most)
    required = field.default is msgspec.NODEFAULT
    default = None if required else field.default
    return Parameter(field.encode_name, TYPES[kind], doc, required, default, least, most, word)


def bound_of(value: float | None, other: int | None) -> int | None:
    """Return a bound that a field has; `other` where it has none, or but that of all integers."""
    return other if value is None or abs(value) >= INTEGER_MAX else int(value)


def without_none(hint: Any) -> Any:
    """Return the type of a field that may be left out."""
    if get_origin(hint) in {Union, UnionType}:
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return hint


VHOST, *_ = read_parameters(VhostPageRequest)
PAGE: Final = read_parameters(PageRequest)
