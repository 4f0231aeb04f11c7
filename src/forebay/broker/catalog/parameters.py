"""Parameters that programs and people have written down in the broker: of vhosts, and global ones.

Each is a name and a value of JSON. The broker itself goes by one, the global `cluster_name`; the others are for whoever
sets them, as RabbitMQ's plugins and tools do.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from forebay.broker.catalog.checked import octets
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.log.store import Store
from forebay.routing.exchange import text

BROKER: Final = 7  # kind of entry in the write-ahead log: what belongs to no vhost
CLUSTER_NAME: Final = "cluster_name"
IMPORTED: Final = "imported_definition_hash_value"  # of the file that was taken in at the last start
NAME_CHARACTERS_MAX: Final = 255
VALUE_OCTETS_MAX: Final = 1 << 20
SET: Final = "parameter"
CLEAR: Final = "parameter-clear"
SET_GLOBAL: Final = "global-parameter"
CLEAR_GLOBAL: Final = "global-parameter-clear"
OPS: Final = frozenset({SET, CLEAR, SET_GLOBAL, CLEAR_GLOBAL})


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
        check_name("name", name)
        check_value(name, value)
        is_new = name not in self.values
        self.values[name] = value
        self.note(global_fact(name, value))
        return is_new

    def clear_global(self, name: str) -> None:
        """Take a global parameter away; RequestError(NOT_FOUND)."""
        if name not in self.values:
            raise RequestError(NOT_FOUND, f"name: there is no global parameter '{name}'")
        del self.values[name]
        self.note({"op": CLEAR_GLOBAL, "name": name})

    def set(self, vhost: bytes, component: str, name: str, value: object) -> bool:
        """Set a parameter of a vhost that there is; whether it is new. RequestError(INVALID)."""
        check_name("component", component)
        check_name("name", name)
        check_value(name, value)
        place = (vhost, component, name)
        is_new = place not in self.of_vhosts
        self.of_vhosts[place] = value
        self.note(fact_of(place, value))
        return is_new

    def clear(self, vhost: bytes, component: str, name: str) -> None:
        """Take a parameter of a vhost away; RequestError(NOT_FOUND)."""
        if self.of_vhosts.pop((vhost, component, name), None) is None:
            where = f"of component '{component}' in vhost '{text(vhost)}'"
            raise RequestError(NOT_FOUND, f"name: there is no parameter '{name}' {where}")
        self.note({"op": CLEAR, "vhost": vhost, "component": component, "name": name})

    def listed(self, vhost: bytes | None = None, component: str | None = None) -> list[dict[str, object]]:
        """Those of vhosts, or of one vhost or component; by vhost, component and name."""
        return [
            {"vhost": text(where), "component": kind, "name": name, "value": self.of_vhosts[where, kind, name]}
            for where, kind, name in sorted(self.of_vhosts)
            if vhost in {None, where} and component in {None, kind}
        ]

    def forget_vhost(self, vhost: bytes) -> None:
        """A vhost is gone with all its parameters."""
        self.of_vhosts = {place: value for place, value in self.of_vhosts.items() if place[0] != vhost}

    # ---- the disk

    def note(self, fields: dict[str, object]) -> None:
        self.store.note(BROKER, 0, 0, msgspec.msgpack.encode(fields), True)

    def facts(self) -> list[dict[str, object]]:
        """All that `apply` needs to come to this state."""
        facts = [global_fact(name, value) for name, value in self.values.items()]
        return facts + [fact_of(place, value) for place, value in self.of_vhosts.items()]

    def apply(self, fields: dict[str, object]) -> None:
        """One fact or command whose `op` is of OPS, in recovery."""
        op, name = fields["op"], str(fields["name"])
        if op == SET_GLOBAL:
            self.values[name] = fields["value"]
        elif op == CLEAR_GLOBAL:
            self.values.pop(name, None)
        else:
            place = (octets(fields["vhost"]), str(fields["component"]), name)
            if op == SET:
                self.of_vhosts[place] = fields["value"]
            else:
                self.of_vhosts.pop(place, None)


def global_fact(name: str, value: object) -> dict[str, object]:
    return {"op": SET_GLOBAL, "name": name, "value": value}


def fact_of(place: tuple[bytes, str, str], value: object) -> dict[str, object]:
    return {"op": SET, "vhost": place[0], "component": place[1], "name": place[2], "value": value}


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
