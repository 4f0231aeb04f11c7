"""The arguments of a handler: found out of its signature once, and read out of each request.

A parameter is a field of the request (`Annotated[int, Query(ge=1)]`), a body (a struct), something that a function
makes of the request (`Annotated[Caller, Provided(caller_of)]`), or the request itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request

from forebay.admin.web.bodies import BODY, convert, plain, read_body, read_struct
from forebay.admin.web.faults import MISSING, InputFault, RefusedInput, fault_of
from forebay.admin.web.fields import COOKIE, HEADER, PATH, UNIONS, InPath, Provided, RequestField, typed

REQUIRED: Final = inspect.Parameter.empty
RETURN: Final = "return"
FLAGS: Final = {"yes": True, "on": True, "y": True, "t": True, "no": False, "off": False, "n": False, "f": False}
Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class RequestArgument:
    """One field of requests.

    name     of the handler's parameter
    alias    of the field in the request
    kind     its type, with its bounds
    default  REQUIRED where it has to be given
    """

    name: str
    alias: str
    place: str
    kind: Any
    default: Any = REQUIRED


@dataclass(slots=True)
class Inputs:
    """All arguments of a handler.

    provided   arguments that functions make; one without a name is only checked
    body       struct that the body is read into; None for a handler that takes none
    body_name  of the parameter
    request    name of the parameter that is the request itself
    """

    function: Handler
    fields: list[RequestArgument] = field(default_factory=list)
    provided: list[tuple[str, Provided, Inputs]] = field(default_factory=list)
    body: type[msgspec.Struct] | None = None
    body_name: str = BODY
    body_default: Any = REQUIRED
    request: str = ""

    def all(self) -> Iterator[Inputs]:
        """Yield these, and those of whatever provides some of them."""
        yield self
        for _, _, inner in self.provided:
            yield from inner.all()

    def names(self, place: str) -> frozenset[str]:
        """Return the names of all fields that are read at a place."""
        return frozenset(each.alias for inputs in self.all() for each in inputs.fields if each.place == place)

    def needs(self) -> str | None:
        """Return the tag that the caller needs; None if nobody asks who it is."""
        tags = [provided.needs for inputs in self.all() for _, provided, _ in inputs.provided if provided.needs]
        return tags[0] if tags else None


def read_signature(function: Handler) -> Inputs:
    """Return the arguments that a handler's signature asks for."""
    found = Inputs(function)
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        source = source_of(kind)
        if isinstance(source, Provided):
            found.provided.append(provided_by(name, kind))
        elif source is not None:
            found.fields.append(input_of(name, kind, source, parameter.default))
        elif kind is Request:
            found.request = name
        elif is_body(kind):
            found.body, found.body_name, found.body_default = struct_of(kind), name, parameter.default
        else:
            found.fields.append(RequestArgument(name, name, PATH, kind))
    return found


def source_of(kind: Any) -> Any:
    """Return what an annotation says of where an argument comes from; None if it does not."""
    return next((each for each in get_args(kind)[1:] if isinstance(each, RequestField | Provided)), None)


def provided_by(name: str, kind: Any) -> tuple[str, Provided, Inputs]:
    """Return the argument of that name that an annotation has a function make."""
    source = source_of(kind)
    assert isinstance(source, Provided), kind
    return name, source, read_signature(source.function)


def input_of(name: str, kind: Any, source: RequestField, default: Any = REQUIRED) -> RequestArgument:
    """Return the field that an annotation asks for."""
    alias = source.alias or (name.replace("_", "-") if source.place == HEADER else name)
    given = REQUIRED if isinstance(source, InPath) else default
    return RequestArgument(name, alias, source.place, typed(plain(kind), source.meta), given)


def is_body(kind: Any) -> bool:
    return isinstance(struct_of(kind), type) and issubclass(struct_of(kind), msgspec.Struct)


def struct_of(kind: Any) -> Any:
    """Return the struct of a body that may be left out."""
    if get_origin(kind) in UNIONS:
        return next(each for each in get_args(kind) if each is not type(None))
    return kind


class ArgumentReader:
    """The arguments of one request, as far as they have been read.

    faults  fields that are wrong, in the order in which they are read
    """

    def __init__(self, request: Request, names: dict[str, Any], path: str) -> None:
        self.request = request
        self.names = names
        self.path = path
        self.faults: list[InputFault] = []
        self.made: dict[Handler, Any] = {}

    async def arguments(self, inputs: Inputs, given: object = None) -> dict[str, Any]:
        """Return the arguments of a handler, as far as there are no faults.

        given  value of the body
        """
        found: dict[str, Any] = {inputs.request: self.request} if inputs.request else {}
        for name, provided, inner in inputs.provided:
            if provided.function not in self.made:
                before = len(self.faults)
                values = await self.arguments(inner)
                if len(self.faults) > before:
                    continue
                self.made[provided.function] = await provided.function(**values)
            if name:
                found[name] = self.made[provided.function]
        for each in inputs.fields:
            self.read(each, found)
        if inputs.body is not None:
            self.read_into(inputs, given, found)
        return found

    def read(self, field: RequestArgument, found: dict[str, Any]) -> None:
        """Read one field of the request."""
        value = self.value_of(field)
        if value is None:
            if field.default is REQUIRED:
                self.faults.append(InputFault((field.place, field.alias), MISSING, None))
            else:
                found[field.name] = field.default
            return
        try:
            found[field.name] = convert(value, field.kind)
        except msgspec.ValidationError as error:
            self.faults.append(fault_of(field.kind, value, (field.place, field.alias), error))

    def value_of(self, field: RequestArgument) -> Any:
        """Return what the request has of a field; None if nothing."""
        if field.place == PATH:
            return self.names[field.alias]
        if field.place == HEADER:
            return self.request.headers.get(field.alias)
        if field.place == COOKIE:
            return self.request.cookies.get(field.alias)
        inner = plain(field.kind)
        if get_origin(inner) is Sequence:
            return self.request.query_params.getlist(field.alias) or None
        value = self.request.query_params.get(field.alias)
        return FLAGS.get(value.lower(), value) if inner is bool and value is not None else value

    def read_into(self, inputs: Inputs, given: object, found: dict[str, Any]) -> None:
        """Read the body."""
        assert inputs.body is not None
        if given is None:
            if inputs.body_default is REQUIRED:
                self.faults.append(InputFault((BODY,), MISSING, None))
            else:
                found[inputs.body_name] = inputs.body_default
            return
        try:
            found[inputs.body_name] = read_struct(inputs.body, given, self.path)
        except RefusedInput as error:
            self.faults += error.faults


async def body_of(request: Request, inputs: Inputs) -> object:
    """Return the JSON value of a request's body; None where the handler takes none, or there is none."""
    if inputs.body is None:
        return None
    octets = await request.body()
    return read_body(octets) if octets else None
