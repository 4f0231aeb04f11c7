"""Parameters that programs and people have written down in the broker: of vhosts, and global ones.

Each is a name and a value of JSON. The broker itself goes by one, the global `cluster_name`; the others are for whoever
sets them, as RabbitMQ's plugins and tools do.
"""

from __future__ import annotations

import json
from typing import Final

from forebay.core.errors import INVALID, NOT_FOUND, RequestError, note_half_change
from forebay.core.stored.entry_kinds import BROKER
from forebay.directory.command import StateCommand
from forebay.log.store import Store
from forebay.routing.exchange import text

CLUSTER_NAME: Final = "cluster_name"
IMPORTED: Final = "imported_definition_hash_value"  # of the file that was taken in at the last start
NAME_CHARACTERS_MAX: Final = 255
VALUE_OCTETS_MAX: Final = 1 << 20


class ParameterCommand(StateCommand["Parameters"], frozen=True):
    """A change of parameters."""


class SetParameter(ParameterCommand, frozen=True, tag="parameter"):
    """Set a parameter of a vhost."""

    vhost: bytes
    component: str
    name: str
    value: object = None

    def check(self, parameters: Parameters) -> None:
        check_name("component", self.component)
        check_name("name", self.name)
        check_value(self.name, self.value)

    def apply(self, parameters: Parameters) -> None:
        parameters.of_vhosts[self.vhost, self.component, self.name] = self.value


class ClearParameter(ParameterCommand, frozen=True, tag="parameter-clear"):
    """Take a parameter of a vhost away."""

    vhost: bytes
    component: str
    name: str

    def check(self, parameters: Parameters) -> None:
        if (self.vhost, self.component, self.name) not in parameters.of_vhosts:
            where = f"of component '{self.component}' in vhost '{text(self.vhost)}'"
            raise RequestError(NOT_FOUND, f"name: there is no parameter '{self.name}' {where}")

    def apply(self, parameters: Parameters) -> None:
        del parameters.of_vhosts[self.vhost, self.component, self.name]


class SetGlobal(ParameterCommand, frozen=True, tag="global-parameter"):
    """Set a global parameter."""

    name: str
    value: object = None

    def check(self, parameters: Parameters) -> None:
        check_name("name", self.name)
        check_value(self.name, self.value)

    def apply(self, parameters: Parameters) -> None:
        parameters.values[self.name] = self.value


class ClearGlobal(ParameterCommand, frozen=True, tag="global-parameter-clear"):
    """Take a global parameter away."""

    name: str

    def check(self, parameters: Parameters) -> None:
        if self.name not in parameters.values:
            raise RequestError(NOT_FOUND, f"name: there is no global parameter '{self.name}'")

    def apply(self, parameters: Parameters) -> None:
        del parameters.values[self.name]


class Parameters:
    """All parameters of the broker.

    values     global ones by name
    of_vhosts  the others by vhost, component and name
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.values: dict[str, object] = {}
        self.of_vhosts: dict[tuple[bytes, str, str], object] = {}

    def set_global(self, name: str, value: object) -> bool:
        """Set a global parameter; whether it is new. RequestError(INVALID)."""
        is_new = name not in self.values
        self.execute(SetGlobal(name, value))
        return is_new

    def clear_global(self, name: str) -> None:
        """Take a global parameter away; RequestError(NOT_FOUND)."""
        self.execute(ClearGlobal(name))

    def set(self, vhost: bytes, component: str, name: str, value: object) -> bool:
        """Set a parameter of a vhost that there is; whether it is new. RequestError(INVALID)."""
        is_new = (vhost, component, name) not in self.of_vhosts
        self.execute(SetParameter(vhost, component, name, value))
        return is_new

    def clear(self, vhost: bytes, component: str, name: str) -> None:
        """Take a parameter of a vhost away; RequestError(NOT_FOUND)."""
        self.execute(ClearParameter(vhost, component, name))

    def listed(self, vhost: bytes | None = None, component: str | None = None) -> list[dict[str, object]]:
        """Return the vhost parameters, or those of one vhost or component, sorted by vhost, component and name."""
        return [
            {"vhost": text(where), "component": kind, "name": name, "value": self.of_vhosts[where, kind, name]}
            for where, kind, name in sorted(self.of_vhosts)
            if vhost in {None, where} and component in {None, kind}
        ]

    def forget_vhost(self, vhost: bytes) -> None:
        """Remove all parameters of a vhost that was deleted."""
        self.of_vhosts = {place: value for place, value in self.of_vhosts.items() if place[0] != vhost}

    # ---- the disk

    def execute(self, command: ParameterCommand) -> None:
        """Make a change; RequestError, with nothing changed, where it cannot be."""
        try:
            command.check(self)
            payload = command.encoded()
            self.store.note(BROKER, 0, 0, payload, True)
            command.apply(self)
        except Exception as error:
            note_half_change(error)
            raise

    def commands(self) -> list[ParameterCommand]:
        """All that recovery has to apply to come to this state."""
        commands: list[ParameterCommand] = [SetGlobal(name, value) for name, value in self.values.items()]
        return commands + [SetParameter(*place, value) for place, value in self.of_vhosts.items()]


def check_name(field: str, name: str) -> None:
    """RequestError(INVALID) unless a parameter, or its component, can have the name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RequestError(INVALID, f"{field}: {name!r} has half a character") from None
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise RequestError(INVALID, f"{field}: a name has 1 to {NAME_CHARACTERS_MAX} characters, '{name[:80]}' has not")


def check_value(name: str, value: object) -> None:
    """RequestError(INVALID) where the value, which is of JSON, is too long."""
    octets = len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    if octets > VALUE_OCTETS_MAX:
        raise RequestError(INVALID, f"value: of parameter '{name}' has {octets} octets, more than {VALUE_OCTETS_MAX}")
