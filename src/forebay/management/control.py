"""The table of operations that administrators may ask of a running broker, and what they are given.

An operation has a name (`noun.verb`), parameters whose types are checked before it runs, and a function. Whoever
carries requests (the block protocol's session, an HTTP API) calls `Control.run` and needs to know nothing else;
docs/control.md is made of the table.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.administration import Administration
from forebay.broker.audit import Origin
from forebay.broker.auth.authorizer import Principal
from forebay.broker.auth.permissions import Rights
from forebay.broker.auth.users import ADMINISTRATOR
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import INVALID, NOT_FOUND, REFUSED, RequestError
from forebay.wire.blocks.frames import is_unicode, shown

TEXT: Final = "text"
WHOLE: Final = "whole number"
FLAG: Final = "true or false"
TABLE: Final = "object"
TEXTS: Final = "list of texts"
RANGES: Final = "list of offsets and of pairs [first, end]"
TYPES: Final[dict[str, type]] = {TEXT: str, WHOLE: int, FLAG: bool, TABLE: dict, TEXTS: list, RANGES: list}

INTEGER_MAX: Final = (1 << 63) - 1
RANGES_MAX: Final = 10_000
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
PAGE_OCTETS_MAX: Final = 1 << 20  # a page ends before it if one item is in it


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an operation; `default` is what it is where nobody says, and None makes it optional."""

    name: str
    type: str
    doc: str
    required: bool = True
    default: object = None


VHOST: Final = Parameter("vhost", TEXT, "the vhost", False, "/")
FROM: Final = Parameter("from", WHOLE, "how many to pass over: `next` of the page before", False, 0)
LIMIT: Final = Parameter("limit", WHOLE, f"how many at most, up to {LIMIT_MAX}", False, LIMIT_DEFAULT)
PAGE: Final = (FROM, LIMIT)


class Arguments:
    """The checked arguments of one request.

    rights  what the caller may do in the vhost; None for administrators, who may do everything
    """

    def __init__(self, values: dict[str, object], rights: Rights | None = None) -> None:
        self._values = values
        self.rights = rights

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        """An argument that is text; empty where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, str) else ""

    def octets(self, name: str) -> bytes:
        """The same as the broker has names: in UTF-8."""
        return self.text(name).encode()

    def whole(self, name: str) -> int:
        """An argument that is a whole number; 0 where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, int) else 0

    def flag(self, name: str) -> bool:
        """An argument that is true or false; false where it was left out."""
        return self._values.get(name) is True

    def table(self, name: str) -> dict[str, object]:
        """An argument that is an object; empty where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, dict) else {}

    def texts(self, name: str) -> list[str]:
        """An argument that is a list of texts; empty where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, list) else []

    def ranges(self, name: str) -> list[tuple[int, int]] | None:
        """An argument that is a list of offsets, as ranges [first, end) that ascend; None where it was left out."""
        if name not in self:
            return None
        value = self._values[name]
        assert isinstance(value, list)
        pairs = sorted((each[0], each[1]) if isinstance(each, list) else (each, each + 1) for each in value)
        merged: list[tuple[int, int]] = []
        for first, end in pairs:
            if merged and first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((first, end))
        return merged

    def only(self, names: Sequence[str]) -> dict[str, object]:
        """Those of these arguments that were given."""
        return {name: self._values[name] for name in names if name in self}


class Connections(ABC):
    """The broker's connections, which only the server knows."""

    @abstractmethod
    def listed(self) -> list[dict[str, object]]:
        """The facts of each: at least `id`, `peer`, `vhost`, `user`, `protocol`; by id."""

    @abstractmethod
    def find(self, id: int) -> dict[str, object] | None:
        """The same of one connection; None if there is none of this id."""

    @abstractmethod
    def channels(self) -> list[dict[str, object]]:
        """The channels of all connections that have some, each with its `connection`, whose `vhost` and `user`."""

    @abstractmethod
    def close(self, id: int, text: str) -> bool:
        """End a connection and tell its client why; False if there is none of this id."""


class ServerFacts(ABC):
    """The state of the broker's process, which only the server knows."""

    @abstractmethod
    def now_us(self) -> int:
        """Its clock, in microseconds since 1970."""

    @abstractmethod
    def facts(self) -> dict[str, object]:
        """Process, listeners, alarms, connections, memory and disk."""


class Configuration(ABC):
    """The options in force and where they came from, which only the server knows."""

    @abstractmethod
    def shown(self) -> list[dict[str, object]]:
        """Every option: `name`, `value` without secrets, `origin`, `reloadable`."""

    @abstractmethod
    def reload(self) -> dict[str, object]:
        """Read the configuration again and put in force what can be: `applied`, `restart`, `unchanged`.

        raises  RequestError(INVALID): something in it is wrong, and nothing was changed
        """


class Webhooks(ABC):
    """The webhooks of the broker, which only the server knows."""

    @abstractmethod
    def listed(self) -> list[dict[str, object]]:
        """Each with its `url`, what it was sent, and how that went."""


class Control(Administration):
    """All that operations work on, and the way in to them.

    server  None where there is none, in tests of what lies below it
    """

    def __init__(self, vhosts: Vhosts, connections: Connections) -> None:
        self.vhosts = vhosts
        self.connections = connections
        self.server: ServerFacts | None = None
        self.configuration: Configuration | None = None
        self.webhooks: Webhooks | None = None

    def run(self, origin: Origin, name: str, values: dict[str, object]) -> dict[str, object]:
        try:
            self.check_administrator(origin.principal)
        except RequestError as error:
            self.vhosts.common.audit.note(origin, name, values, error.text)
            raise
        return self.perform(origin, name, values)

    def perform(
        self, origin: Origin, name: str, values: dict[str, object], rights: Rights | None = None
    ) -> dict[str, object]:
        """As `run`, for a caller of whom it is known already that he may.

        rights  that hold also for what turns up on the way; None where he may do everything
        raises  Undecided besides, before anything has changed
        """
        operation = OPERATIONS.get(name)
        if operation is None:
            raise RequestError(
                NOT_FOUND, f"do: {shown(name)} is no operation; known are {', '.join(sorted(OPERATIONS))}"
            )
        if not operation.changes:
            return operation.run(self, checked(operation, values, rights))
        audit = self.vhosts.common.audit
        try:
            answer = operation.run(self, checked(operation, values, rights))
        except RequestError as error:
            audit.note(origin, name, values, error.text)
            raise
        audit.note(origin, name, values)
        return answer

    def changes(self, name: str) -> bool:
        operation = OPERATIONS.get(name)
        return operation is not None and operation.changes

    def check_administrator(self, principal: Principal) -> None:
        """RequestError(REFUSED) for everybody else."""
        if ADMINISTRATOR not in self.vhosts.users.tags_of(principal):
            raise RequestError(REFUSED, f"user '{principal.user}' lacks the tag administrator")

    def vhost(self, given: Arguments) -> Vhost:
        """The vhost that a request names; RequestError(NOT_FOUND)."""
        vhost = self.vhosts.by_name.get(given.octets("vhost"))
        if vhost is None:
            raise RequestError(NOT_FOUND, f"vhost: {shown(given.text('vhost'))} does not exist")
        vhost.touch()
        return vhost


Run = Callable[[Control, Arguments], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; one that changes something is answered when that is on disk."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    changes: bool
    run: Run


OPERATIONS: Final[dict[str, Operation]] = {}


def operation(name: str, *parameters: Parameter, changes: bool = False) -> Callable[[Run], Run]:
    """Enter a function in the table; its docstring is the operation's description."""

    def enter(run: Run) -> Run:
        assert name not in OPERATIONS and run.__doc__, name
        OPERATIONS[name] = Operation(name, run.__doc__, parameters, changes, run)
        return run

    return enter


def checked(operation: Operation, values: dict[str, object], rights: Rights | None = None) -> Arguments:
    """The arguments with their defaults; RequestError(INVALID) names the one that is wrong."""
    known = {parameter.name: parameter for parameter in operation.parameters}
    for name in values:
        if name not in known:
            raise RequestError(
                INVALID, f"{operation.name}: {shown(name)} is no argument; known are {', '.join(known) or 'none'}"
            )
    result: dict[str, object] = {}
    for parameter in operation.parameters:
        value = values.get(parameter.name)
        if value is None:
            if parameter.required:
                raise RequestError(INVALID, f"{operation.name}: {parameter.name} is missing: {parameter.doc}")
            value = parameter.default
        elif not has_type(value, parameter.type):
            raise RequestError(
                INVALID, f"{operation.name}: {parameter.name}: {shown(value)} is not what it must be: {parameter.type}"
            )
        result[parameter.name] = value
    return Arguments(result, rights)


def has_type(value: object, type: str) -> bool:
    """True if a value out of JSON is of this type, and within what the broker can hold."""
    if not isinstance(value, TYPES[type]):
        return False
    if type == TEXT:
        return isinstance(value, str) and is_unicode(value)
    if type == WHOLE:
        return not isinstance(value, bool) and isinstance(value, int) and -INTEGER_MAX <= value <= INTEGER_MAX
    if type == TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) and is_unicode(each) for each in value)
    if type == RANGES:
        return isinstance(value, list) and len(value) <= RANGES_MAX and all(is_range(each) for each in value)
    return True


def is_range(value: object) -> bool:
    """True if a value out of JSON is an offset, or two of them in order."""
    if not isinstance(value, list):
        return is_offset(value)
    return len(value) == 2 and is_offset(value[0]) and is_offset(value[1]) and value[0] <= value[1]


def is_offset(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and 0 <= value < INTEGER_MAX


def refuse(name: str, value: object, text: str) -> RequestError:
    """An error that names an argument and its value."""
    return RequestError(INVALID, f"{name}: {shown(value)} {text}")


def within(given: Arguments, name: str, least: int, most: int) -> int:
    """A whole number that must be within these bounds."""
    value = given.whole(name)
    if not least <= value <= most:
        raise refuse(name, value, f"is not within {least} .. {most}")
    return value


def page(given: Arguments, items: Sequence[Callable[[], dict[str, object]]]) -> dict[str, object]:
    """The part of a list that was asked for, made only now: `items`, `total`, and where it goes on if it does."""
    first = given.whole("from")
    limit = within(given, "limit", 1, LIMIT_MAX)
    if first < 0:
        raise refuse("from", first, "is below 0")
    made: list[dict[str, object]] = []
    octets = 0
    for make in items[first : first + limit]:
        item = make()
        octets += len(json.dumps(item))
        if made and octets > PAGE_OCTETS_MAX:
            break
        made.append(item)
    answer: dict[str, object] = {"items": made, "total": len(items)}
    if first + len(made) < len(items):
        answer["next"] = first + len(made)
    return answer
