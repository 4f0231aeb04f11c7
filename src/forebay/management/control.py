"""The table of operations that may be asked of a running broker, and what they are given.

An operation has a name (`noun.verb`), parameters whose types are checked before it runs, a need, which says who may
run it, and a function. What carries requests (the block protocol's session, the HTTP APIs) calls `Control.run` or
`Control.perform` and needs to know nothing else; docs/reference/control.md is made of the table.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.audit import Administration, Origin
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import INVALID, NOT_FOUND, REFUSED, RequestError
from forebay.core.reading.json_text import fault_of
from forebay.directory.logins.authorizer import Principal
from forebay.directory.permissions import Rights
from forebay.management.arguments import PAGE_OCTETS_MAX, Arguments, check_bounds, has_type
from forebay.management.needs import ADMINISTER, MONITORS, Gate, Need
from forebay.management.parameters import PARAMETERS, Parameter
from forebay.routing.exchange import text
from forebay.wire.blocks.frames import shown


class Connections(ABC):
    """The broker's connections, which only the server knows."""

    @abstractmethod
    def listed(self) -> list[dict[str, object]]:
        """The fields of each: at least `id`, `peer`, `vhost`, `user`, `protocol`; by id."""

    @abstractmethod
    def find(self, id: int) -> dict[str, object] | None:
        """The same of one connection; None if there is none of this id."""

    @abstractmethod
    def channels(self) -> list[dict[str, object]]:
        """The channels of all connections that have some, each with its `connection`, whose `vhost` and `user`."""

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
        """The broker's clock, in microseconds since 1970."""

    @abstractmethod
    def fields(self) -> dict[str, object]:
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
        """Webhooks, each with its `url`, what it was sent, and how that went."""


class Cluster(ABC):
    """The cluster that the broker leads, which only the server knows.

    name  the cluster's
    node  this node's
    """

    name: str
    node: str

    @abstractmethod
    def status(self) -> dict[str, object]:
        """Name, epoch, leader, `min_in_sync`, and `members`: each with its `node`, `role`, and how far it is behind."""

    @abstractmethod
    def transfer(self, node: str) -> None:
        """Have a member lead that is in sync; RequestError says why it cannot."""

    @abstractmethod
    def remove(self, node: str) -> None:
        """Take a member out; RequestError says why it cannot be."""

    @abstractmethod
    def drain(self, node: str) -> None:
        """Have a member lead no more and serve no clients; RequestError says why it cannot be."""

    @abstractmethod
    def undrain(self, node: str) -> None:
        """Have it serve clients again; RequestError says why it cannot be."""


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
            self.vhosts.common.audit.note(origin, name, values, error.text)
            raise
        return self.perform(origin, name, values)

    def perform(
        self, origin: Origin, name: str, values: dict[str, object], as_client: bool = False
    ) -> dict[str, object]:
        """Run an operation for everybody whom it lets; changes, done and refused, are noted in the audit log.

        as_client  administrators, too, may do only what their permissions let their clients do
        raises     Undecided besides, before anything has changed
        """
        operation = operation_named(name)
        try:
            answer = operation.run(self, self.permitted(origin.principal, operation, values, as_client))
        except RequestError as error:
            if operation.changes:
                self.vhosts.common.audit.note(origin, name, values, error.text)
            raise
        if operation.changes:
            self.vhosts.common.audit.note(origin, name, values)
        return answer

    def permitted(
        self, principal: Principal, operation: Operation, values: dict[str, object], as_client: bool = False
    ) -> Arguments:
        """The arguments of somebody who may run an operation with them; RequestError, Undecided."""
        operation.need.check_tags(principal.user, self.tags_of(principal))
        named = {**defaults(operation), **{name: value for name, value in values.items() if value is not None}}
        rights = operation.need.check(self, principal, Arguments(named), as_client)
        return Arguments(checked(operation, values), rights, principal.user)

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
        """True if somebody's clients could connect to a vhost; Undecided."""
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
    """One operation; one that changes something is noted.

    waits  what it changes is in the log: it is answered when that is on disk
    need   whom it lets run it over HTTP; by the block protocol it is administrators'
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    changes: bool
    waits: bool
    need: Need
    run: Run


OPERATIONS: Final[dict[str, Operation]] = {}


def operation(
    name: str, *, changes: bool = False, logged: bool = True, need: Need = ADMINISTER
) -> Callable[[Run], Run]:
    """Enter a function in the table; its docstring is the operation's description, `PARAMETERS` what it takes.

    logged  what it changes, if anything, is in the log
    """

    def enter(run: Run) -> Run:
        assert name not in OPERATIONS and run.__doc__, name
        OPERATIONS[name] = Operation(name, run.__doc__, PARAMETERS[name], changes, changes and logged, need, run)
        return run

    return enter


def operation_named(name: str) -> Operation:
    """The operation of that name; RequestError(NOT_FOUND)."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise RequestError(NOT_FOUND, f"do: {shown(name)} is no operation; known are {', '.join(sorted(OPERATIONS))}")
    return operation


def defaults(operation: Operation) -> dict[str, object]:
    return {parameter.name: parameter.default for parameter in operation.parameters}


def checked(operation: Operation, values: dict[str, object]) -> dict[str, object]:
    """The arguments with their defaults; RequestError(INVALID) names the one that is wrong."""
    known = {parameter.name: parameter for parameter in operation.parameters}
    for name in values:
        if name not in known:
            raise RequestError(
                INVALID, f"{operation.name}: {shown(name)} is no argument; known are {', '.join(known) or 'none'}"
            )
    result = defaults(operation)
    for parameter in operation.parameters:
        value = values.get(parameter.name)
        if value is None:
            if parameter.required:
                raise RequestError(INVALID, f"{operation.name}: {parameter.name} is missing: {parameter.doc}")
            continue
        if not has_type(value, parameter.type):
            raise RequestError(
                INVALID, f"{operation.name}: {parameter.name}: {shown(value)} is not what it must be: {parameter.type}"
            )
        fault = fault_of(value, parameter.name)
        if fault:
            raise RequestError(INVALID, f"{operation.name}: {fault}")
        check_bounds(parameter, value)
        result[parameter.name] = value
    return result


def page(given: Arguments, items: Sequence[Callable[[], dict[str, object]]]) -> dict[str, object]:
    """The part of a list that was asked for, made only now: `items`, `total`, and where it goes on if it does."""
    first = given.whole("from")
    limit = given.whole("limit")
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
