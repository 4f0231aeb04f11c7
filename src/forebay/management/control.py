"""The table of operations that may be asked of a running broker, and what they are given.

An operation has a name (`noun.verb`), a request, whose fields are checked before it runs, a need, which says who may
run it, and a function, which declares the answer. What carries requests (the block protocol's session, the HTTP APIs)
calls `Control.run` or `Control.perform` and needs to know nothing else; docs/reference/control.md is made of the table.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Protocol, TypeVar, cast, get_type_hints

from forebay.broker.audit import Administration, Origin
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.directory.permissions import Rights
from forebay.management.arguments import PAGE_OCTETS_MAX, GivenArguments, octets, read_request
from forebay.management.needs import ADMINISTER, MONITORS, Gate, Need
from forebay.management.parameters import Parameter, read_parameters
from forebay.management.requests.broker import ServerFields
from forebay.management.requests.fields import Item, ListPage, OperationRequest
from forebay.management.requests.table import REQUESTS
from forebay.routing.exchange import text
from forebay.wire.blocks.frames import shown


class Connections(ABC):
    """The broker's connections, which only the server knows."""

    @abstractmethod
    def listed(self) -> list[dict[str, object]]:
        """Return the fields of each connection, at least `id`, `peer`, `vhost`, `user`, `protocol`, sorted by id."""

    @abstractmethod
    def find(self, id: int) -> dict[str, object] | None:
        """Return the fields of one connection, as `listed` does. Returns None if no connection has this id."""

    @abstractmethod
    def channels(self) -> list[dict[str, object]]:
        """Return the channels of all connections, each with its `connection`, `vhost` and `user`."""

    @abstractmethod
    def holds(self, id: int) -> list[dict[str, object]]:
        """Return why a connection is not read, or sent nothing: `reason`, `since_ms`, `until_ms`, `text` of each hold.

        A hold has the `queue`, or the `client_id` of the MQTT session, on whose behalf the connection is held.
        """

    @abstractmethod
    def close(self, id: int, text: str) -> bool:
        """End a connection and tell its client why; False if there is none of this id."""


class ServerStatus(ABC):
    """The state of the broker's process, which only the server knows."""

    @abstractmethod
    def now_us(self) -> int:
        """Return the time of the broker's clock, in microseconds since 1970."""

    @abstractmethod
    def fields(self) -> ServerFields:
        """Return the state of process, listeners, alarms, connections, memory and disk."""


class Configuration(ABC):
    """The options in force and where they came from, which only the server knows."""

    @abstractmethod
    def shown(self) -> list[dict[str, object]]:
        """Return every option: `name`, `value` without secrets, `origin`, `reloadable`."""

    @abstractmethod
    def reload(self) -> dict[str, object]:
        """Read the configuration again and put in force what can be: `applied`, `restart`, `unchanged`.

        raises  RequestError(INVALID): something in it is wrong, and nothing was changed
        """


class Webhooks(ABC):
    """The webhooks of the broker, which only the server knows."""

    @abstractmethod
    def listed(self) -> list[dict[str, object]]:
        """Return the webhooks, each with its `url`, the events sent to it, and their results."""


class Cluster(ABC):
    """The cluster that the broker leads, which only the server knows.

    name  the cluster's
    node  this node's
    """

    name: str
    node: str

    @abstractmethod
    def status(self) -> dict[str, object]:
        """Return name, epoch, leader, `min_in_sync` and `members`, each with `node`, `role` and its lag."""

    @abstractmethod
    def transfer(self, node: str) -> None:
        """Make an in-sync member the leader. Raises RequestError if it cannot lead."""

    @abstractmethod
    def remove(self, node: str) -> None:
        """Remove a member from the cluster. Raises RequestError if that cannot be done."""

    @abstractmethod
    def drain(self, node: str) -> None:
        """Drain a member, so that it neither leads nor serves clients. Raises RequestError if it cannot."""

    @abstractmethod
    def undrain(self, node: str) -> None:
        """Let a drained member serve clients again. Raises RequestError if it cannot."""


class Control(Administration, Gate):
    """All that operations work on, and the way in to them.

    server  None where there is none, in tests of what lies below it
    """

    def __init__(self, vhosts: Vhosts, connections: Connections) -> None:
        self.vhosts = vhosts
        self.connections = connections
        self.server: ServerStatus | None = None
        self.configuration: Configuration | None = None
        self.webhooks: Webhooks | None = None
        self.cluster: Cluster | None = None  # where the broker stands alone

    def run(self, origin: Origin, name: str, values: dict[str, object]) -> dict[str, object]:
        try:
            ADMINISTER.check_tags(origin.principal.user, self.tags_of(origin.principal))
        except RequestError as error:
            self.vhosts.shared.audit.note(origin, name, values, error.text)
            raise
        return self.perform(origin, name, values)

    def perform(
        self, origin: Origin, name: str, values: dict[str, object], as_client: bool = False
    ) -> dict[str, object]:
        """Run an operation if the caller is permitted. The audit log records changes, both done and refused.

        as_client  administrators, too, may do only what their permissions let their clients do
        raises     Undecided besides, before anything has changed
        """
        operation = operation_named(name)
        try:
            given, rights = self.permitted(origin.principal, operation, values, as_client)
            answer = operation.run(self, given, OperationCaller(origin.principal.user, rights))
        except RequestError as error:
            if operation.changes:
                self.vhosts.shared.audit.note(origin, name, values, error.text)
            raise
        if operation.changes:
            self.vhosts.shared.audit.note(origin, name, values)
        return cast("dict[str, object]", answer)  # of the shape that the operation declares

    def permitted(
        self, principal: Principal, operation: Operation, values: dict[str, object], as_client: bool = False
    ) -> tuple[OperationRequest, Rights | None]:
        """Return the checked request and the rights of a permitted caller. Raises RequestError, Undecided."""
        operation.need.check_tags(principal.user, self.tags_of(principal))
        named = {**defaults(operation), **{name: value for name, value in values.items() if value is not None}}
        rights = operation.need.check(self, principal, GivenArguments(named), as_client)
        return read_request(operation.name, operation.request, values), rights

    def changes(self, name: str) -> bool:
        operation = OPERATIONS.get(name)
        return operation is not None and operation.changes

    def waits(self, name: str) -> bool:
        operation = OPERATIONS.get(name)
        return operation is not None and operation.waits

    # ---- who may do what

    def tags_of(self, principal: Principal) -> frozenset[str]:
        return frozenset(self.vhosts.directory.users.tags_of(principal))

    def may_enter(self, principal: Principal, vhost: bytes) -> bool:
        """Return whether clients of a principal may connect to a vhost. Raises Undecided."""
        if principal.authorizer is not None:
            return principal.authorizer.may_enter(text(vhost))
        return self.vhosts.directory.users.granted(principal.user, vhost, principal.vouched).permission is not None

    def visible(self, principal: Principal, vhost: str) -> Vhost:
        found = self.vhosts.by_name.get(vhost.encode())
        if found is None:
            raise RequestError(NOT_FOUND, f"vhost: {shown(vhost)} does not exist")
        if not self.tags_of(principal) & MONITORS and not self.may_enter(principal, found.name):
            raise RequestError(REFUSED, f"user '{principal.user}' may not enter vhost '{text(found.name)}'")
        return found

    def rights(self, principal: Principal, vhost: Vhost) -> Rights:
        return self.vhosts.directory.users.rights(principal, vhost.name)

    def owner(self, connection: int) -> str:
        found = self.connections.find(connection)
        return "" if found is None else str(found.get("user", ""))

    def vhost(self, given: InVhost) -> Vhost:
        """Return the vhost that a request names; RequestError(NOT_FOUND)."""
        return self.vhost_named(given.vhost)

    def vhost_named(self, name: str) -> Vhost:
        """Return the vhost of that name; RequestError(NOT_FOUND)."""
        vhost = self.vhosts.by_name.get(octets(name))
        if vhost is None:
            raise RequestError(NOT_FOUND, f"vhost: {shown(name)} does not exist")
        vhost.touch()
        return vhost


class InVhost(Protocol):
    """A request that names a vhost."""

    @property
    def vhost(self) -> str: ...


class Paged(Protocol):
    """A request for a page of a list."""

    @property
    def first(self) -> int: ...

    @property
    def limit(self) -> int: ...


@dataclass(frozen=True, slots=True)
class OperationCaller:
    """The caller of an operation.

    rights  what the caller may do in the vhost; None for administrators, who may do everything
    """

    user: str
    rights: Rights | None


Answer = Mapping[str, object]
Run = Callable[[Control, Any, OperationCaller], Answer]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; one that changes something is noted.

    request  the struct of its arguments
    performed  the function that runs it; `run` gives it the caller only if it wants to know it
    waits    what it changes is in the log: it is answered when that is on disk
    need     whom it lets run it over HTTP; by the block protocol it is administrators'
    """

    name: str
    doc: str
    request: type[OperationRequest]
    performed: Callable[..., Answer]
    changes: bool
    waits: bool
    need: Need
    run: Run

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The fields of the request."""
        return read_parameters(self.request)

    def answer(self) -> Any:
        """Return the shape of the answer, as the function that runs the operation declares it."""
        return shape_of(self.performed)


OPERATIONS: Final[dict[str, Operation]] = {}


Performed = TypeVar("Performed", bound=Callable[..., Answer])


def operation(
    name: str, *, changes: bool = False, logged: bool = True, need: Need = ADMINISTER
) -> Callable[[Performed], Performed]:
    """Enter a function in the table; its docstring is the operation's description, and its result the answer's shape.

    The function takes the broker, the request of this name (`REQUESTS`), and the caller if it wants to know it.
    logged  what it changes, if anything, is in the log
    """

    def enter(performed: Performed) -> Performed:
        assert name not in OPERATIONS and performed.__doc__, name
        wants_caller = performed.__code__.co_argcount > 2

        def run(control: Control, given: OperationRequest, caller: OperationCaller) -> Answer:
            return performed(control, given, caller) if wants_caller else performed(control, given)

        waits = changes and logged
        OPERATIONS[name] = Operation(name, performed.__doc__, REQUESTS[name], performed, changes, waits, need, run)
        return performed

    return enter


@cache
def shape_of(performed: Callable[..., Answer]) -> Any:
    """Return the type of an operation's answer."""
    return get_type_hints(performed, include_extras=True)["return"]


def operation_named(name: str) -> Operation:
    """Return the operation of that name. Raises RequestError(NOT_FOUND) if there is none."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise RequestError(NOT_FOUND, f"do: {shown(name)} is no operation; known are {', '.join(sorted(OPERATIONS))}")
    return operation


def defaults(operation: Operation) -> dict[str, object]:
    return {parameter.name: parameter.default for parameter in operation.parameters}


def made_already(fields: Mapping[str, object]) -> Callable[[], Any]:
    """Return a callable that makes a page item of fields that already have the shape of the answer."""
    return partial(dict, fields)


def page(given: Paged, items: Sequence[Callable[[], Item]]) -> ListPage[Item]:
    """Return the part of a list that was asked for; its items are made only now."""
    made: list[Item] = []
    written = 0
    for make in items[given.first : given.first + given.limit]:
        item = make()
        written += len(json.dumps(item))
        if made and written > PAGE_OCTETS_MAX:
            break
        made.append(item)
    answer: ListPage[Item] = {"items": made, "total": len(items)}
    if given.first + len(made) < len(items):
        answer["next"] = given.first + len(made)
    return answer
