"""The register: one small record outside the group that says which node leads the group and which stores are in sync.

It changes only by compare-and-set on its revision. Its value is one JSON object in UTF-8:

    {"version": 1, "cluster": name, "epoch": n, "leader": node,
     "in_sync": {node: store id, …}, "members": {node: {"peer": address, "clients": {listener: address, …}}, …},
     "min_in_sync": n, "why": reason, "by": node or "", "group": id}

`group` is a random id made with the first record, and every store of the group carries it. A folder of another group
with the same name is not part of this one. A record of a version that knew no `group` has none.

An entry of `in_sync` is one store. A folder with another store id is another store, though its node has the same name.
`why` and `by` name the reason and the node of the last change: TAKE_OVER, TRANSFER, FORCED, IN_SYNC, OPERATOR.
"""

from __future__ import annotations

from typing import Final, final

import msgspec
from mypy_extensions import i64

from forebay.core.errors import ForebayError

VERSION: Final = 1
MEMBERS_MAX: Final = 7
NAME_OCTETS_MAX: Final = 255
ADDRESS_OCTETS_MAX: Final = 1024
EPOCH_MAX: Final = 1 << 62
STORE_ID_DIGITS: Final = 32
HEX_DIGITS: Final = "0123456789abcdef"

# Reasons of changes of the register.
TAKE_OVER: Final = "take-over"
TRANSFER: Final = "transfer"
FORCED: Final = "forced"
IN_SYNC: Final = "in-sync"
OPERATOR: Final = "operator"
WHYS: Final = (TAKE_OVER, TRANSFER, FORCED, IN_SYNC, OPERATOR)

KEYS: Final = ("version", "cluster", "epoch", "leader", "in_sync", "members", "min_in_sync", "why", "by", "group")


class RegisterError(ForebayError):
    """A register content that no node wrote. The text names the field and the value."""


@final
class MemberAddresses:
    """The addresses of a member: `peer` for other nodes, `clients` for each kind of client listener."""

    def __init__(self, peer: str, clients: dict[str, str]) -> None:
        self.peer = peer
        self.clients = clients

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemberAddresses) and self.peer == other.peer and self.clients == other.clients

    def __hash__(self) -> int:
        return hash(self.peer)


@final
class RegisterValue:
    """The content of the register. Never change a value that was handed on: `copy` it.

    epoch        increases with every change of leader
    in_sync      store id of each in-sync node: each of these stores holds all that is committed
    members      addresses of each node in the group; members that are not in sync are catching up
    min_in_sync  the least number of in-sync members that may commit
    """

    def __init__(
        self,
        cluster: str,
        epoch: i64,
        leader: str,
        in_sync: dict[str, str],
        members: dict[str, MemberAddresses],
        min_in_sync: int,
        why: str,
        by: str,
        group: str = "",
    ) -> None:
        self.cluster = cluster
        self.epoch: i64 = epoch
        self.leader = leader
        self.in_sync = in_sync
        self.members = members
        self.min_in_sync = min_in_sync
        self.why = why
        self.by = by
        self.group = group

    def copy(self, why: str, by: str) -> RegisterValue:
        """Return a copy to be changed, with a reason and an author of its own."""
        return RegisterValue(
            self.cluster,
            self.epoch,
            self.leader,
            dict(self.in_sync),
            dict(self.members),
            self.min_in_sync,
            why,
            by,
            self.group,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegisterValue) and encode_register(self) == encode_register(other)

    def __hash__(self) -> int:
        return hash(encode_register(self))

    def __repr__(self) -> str:
        return encode_register(self).decode()


@final
class View:
    """A view of the register: its value at a revision."""

    def __init__(self, revision: i64, value: RegisterValue) -> None:
        self.revision: i64 = revision
        self.value = value

    def __repr__(self) -> str:
        return f"{self.revision}: {self.value!r}"


def founding(
    cluster: str, node: str, store_id: str, addresses: MemberAddresses, min_in_sync: int, group: str
) -> RegisterValue:
    """Return the first value of the register: a group whose only store is that of `node`, which leads it."""
    return RegisterValue(cluster, 1, node, {node: store_id}, {node: addresses}, min_in_sync, OPERATOR, node, group)


def encode_register(value: RegisterValue) -> bytes:
    """Return the record as stored in the register. Equal values give the same bytes."""
    in_sync: dict[str, str] = {}
    for node in sorted(value.in_sync):
        in_sync[node] = value.in_sync[node]
    members: dict[str, object] = {}
    for node in sorted(value.members):
        addresses = value.members[node]
        clients: dict[str, str] = {}
        for listener in sorted(addresses.clients):
            clients[listener] = addresses.clients[listener]
        members[node] = {"peer": addresses.peer, "clients": clients}
    fields: dict[str, object] = {
        "version": VERSION,
        "cluster": value.cluster,
        "epoch": int(value.epoch),
        "leader": value.leader,
        "in_sync": in_sync,
        "members": members,
        "min_in_sync": value.min_in_sync,
        "why": value.why,
        "by": value.by,
    }
    if value.group:
        fields["group"] = value.group  # older versions know no `group`, and go on reading records without it
    return msgspec.json.encode(fields)


def encode_addresses(addresses: MemberAddresses) -> bytes:
    """Return the addresses as a node announces them."""
    return msgspec.json.encode({"peer": addresses.peer, "clients": addresses.clients})


def decode_addresses(node: str, octets: bytes) -> MemberAddresses:
    """Return the addresses of one node. Raise RegisterError unless a node of this version can have announced them."""
    try:
        given: object = msgspec.json.decode(octets)
    except msgspec.DecodeError as error:
        raise RegisterError(f"{node!r} says of itself what is no JSON: {error}") from error
    return addresses_of(node, given)


def decode_register(octets: bytes) -> RegisterValue:
    """Return the value of a record. Raise RegisterError unless a node of this version can have written it."""
    try:
        given: object = msgspec.json.decode(octets)
    except msgspec.DecodeError as error:
        raise RegisterError(f"the register holds no JSON: {error}") from error
    fields = table(given, "the register")
    if fields.get("version") != VERSION:
        raise RegisterError(
            f"version {fields.get('version')!r} of the register is unknown, this program knows {VERSION}"
        )
    for key in fields:
        if key not in KEYS:
            raise RegisterError(f"the register has a field {key!r}, which nobody knows")
    members: dict[str, MemberAddresses] = {}
    for node, each in table(fields.get("members"), "members").items():
        members[text(node, "a name of members", NAME_OCTETS_MAX)] = addresses_of(node, each)
    in_sync: dict[str, str] = {}
    for node, each in table(fields.get("in_sync"), "in_sync").items():
        in_sync[node] = store_id_of(each, f"in_sync of {node!r}")
    why = fields.get("why")
    if not isinstance(why, str) or why not in WHYS:
        raise RegisterError(f"why is {why!r}, which is no reason")
    by = fields.get("by")
    value = RegisterValue(
        text(fields.get("cluster"), "cluster", NAME_OCTETS_MAX),
        number(fields.get("epoch"), "epoch", 1, EPOCH_MAX),
        text(fields.get("leader"), "leader", NAME_OCTETS_MAX),
        in_sync,
        members,
        number(fields.get("min_in_sync"), "min_in_sync", 1, MEMBERS_MAX),
        why,
        "" if by == "" else text(by, "by", NAME_OCTETS_MAX),
        store_id_of(fields["group"], "group") if "group" in fields else "",
    )
    check_register(value)
    return value


def check_register(value: RegisterValue) -> None:
    """Raise RegisterError unless the fields are consistent with each other."""
    if len(value.members) > MEMBERS_MAX:
        raise RegisterError(f"members are {len(value.members)}, at most {MEMBERS_MAX} can be")
    for node in value.in_sync:
        if node not in value.members:
            raise RegisterError(f"in_sync names {node!r}, which is no member")
    if value.leader not in value.in_sync:
        raise RegisterError(f"leader is {value.leader!r}, which is not in sync")


def addresses_of(node: str, given: object) -> MemberAddresses:
    """Return the addresses of one member. Raise RegisterError if they are invalid."""
    fields = table(given, f"members of {node!r}")
    for key in fields:
        if key not in {"peer", "clients"}:
            raise RegisterError(f"members of {node!r} has a field {key!r}, which nobody knows")
    clients: dict[str, str] = {}
    for listener, address in table(fields.get("clients"), f"clients of {node!r}").items():
        clients[listener] = text(address, f"clients of {node!r}, {listener!r}", ADDRESS_OCTETS_MAX)
    return MemberAddresses(text(fields.get("peer"), f"peer of {node!r}", ADDRESS_OCTETS_MAX), clients)


def table(given: object, field: str) -> dict[str, object]:
    """Return a JSON object. Raise RegisterError if `given` is not one."""
    if not isinstance(given, dict):
        raise RegisterError(f"{field} is {given!r}, which is no object")
    fields: dict[str, object] = given
    return fields


def text(given: object, field: str, octets_max: int) -> str:
    """Return a non-empty text of at most `octets_max` bytes. Raise RegisterError if `given` is not one."""
    if not isinstance(given, str) or not given or len(given.encode()) > octets_max:
        raise RegisterError(f"{field} is {given!r}, which is no text of 1 to {octets_max} octets")
    return given


def number(given: object, field: str, least: int, most: int) -> int:
    """Return an integer from `least` to `most`. Raise RegisterError if `given` is not one."""
    if not isinstance(given, int) or isinstance(given, bool) or given < least or given > most:
        raise RegisterError(f"{field} is {given!r}, which is no number from {least} to {most}")
    return given


def store_id_of(given: object, field: str) -> str:
    """Return a store id, 32 hexadecimal digits. Raise RegisterError if `given` is not one."""
    if not is_store_id(given):
        raise RegisterError(f"{field} is {given!r}, which is no store id")
    assert isinstance(given, str)
    return given


def is_store_id(given: object) -> bool:
    """Return whether `given` is a store id: 32 hexadecimal digits, as in `store.json`."""
    if not isinstance(given, str) or len(given) != STORE_ID_DIGITS:
        return False
    for digit in given:  # noqa: SIM110  a generator is not of the compiled dialect
        if digit not in HEX_DIGITS:
            return False
    return True
