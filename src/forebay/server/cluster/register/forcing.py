"""Having one node lead by force, from outside of it: the record in etcd says so from then on.

This is for a cluster that cannot help itself: too few nodes are left to confirm anything, or etcd has lost the record.
It needs etcd and the node's data folder, and the node must not run. A store that is in sync loses nothing that was
confirmed; any other may.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, TypeVar

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.options import Options
from forebay.core.ports import LOST, WON, RegisterListener
from forebay.log.folder.identity import StoreIdentity, read_identity
from forebay.replica.register import (
    FORCED,
    MemberAddresses,
    RegisterValue,
    decode_register,
    encode_register,
    founding,
)
from forebay.server.cluster.register.register import make_register
from forebay.server.cluster.settings import ClusterSettings, make_settings
from forebay.server.system.disk import DataDisk

ANSWER_S: Final = 10.0
T = TypeVar("T")


class Seen(RegisterListener):
    """The answers of the register."""

    def __init__(self) -> None:
        self.record: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self.made: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.why = ""

    def seen(self, revision: int, value: bytes) -> None:
        if not self.record.done():
            self.record.set_result((revision, value))

    def outcome(self, number: int, outcome: str, why: str) -> None:
        if not self.made.done():
            self.made.set_result(outcome)
        self.why = why

    def present(self, nodes: object) -> None:
        """Ignore the nodes that run, which do not matter here."""

    def reached(self, why: str) -> None:
        self.why = why


@dataclass(frozen=True, slots=True)
class Forced:
    """The result: the epoch in which the node leads alone, and those that are left behind."""

    node: str
    epoch: int
    left_behind: list[str]


def force(options: Options, may_lose: bool) -> Forced:
    """Make the node of these options lead alone.

    may_lose  also where its store is not in sync, or nobody knows

    raises  RequestError: it cannot be, and nothing was changed; OptionError, StorageError
    """
    settings = make_settings(options)
    disk = DataDisk(options.data)  # fails while the node runs, which holds the folder's lock
    try:
        identity = read_identity(disk)
    finally:
        disk.close_all()
    if identity is None or identity.copying:
        raise RequestError(PRECONDITION, f"{options.data} holds no whole store")
    return asyncio.run(forced(settings, identity, may_lose))


async def forced(settings: ClusterSettings, identity: StoreIdentity, may_lose: bool) -> Forced:
    """Make a node lead alone, as `force` does."""
    seen = Seen()
    register = make_register(settings, seen)
    try:
        register.read()
        revision, octets = await answer(seen.record, seen)
        before = decode_register(octets) if revision else None
        value = forced_record(settings, identity, before, may_lose)
        register.change(1, revision, encode_register(value))
        outcome = await answer(seen.made, seen)
    finally:
        await register.stop()
    if outcome != WON:
        why = "another change came first" if outcome == LOST else f"nobody knows whether it was made: {seen.why}"
        raise RequestError(PRECONDITION, f"the cluster's record was not changed: {why}; look at it and try again")
    left = [] if before is None else sorted(set(before.in_sync) - {settings.node})
    return Forced(settings.node, int(value.epoch), left)


async def answer(waiting: asyncio.Future[T], seen: Seen) -> T:
    """Return the answer of the register. Raises RequestError if none comes in time."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await waiting
    except TimeoutError:
        raise RequestError(PRECONDITION, f"etcd does not answer: {seen.why}") from None


def forced_record(
    settings: ClusterSettings, identity: StoreIdentity, before: RegisterValue | None, may_lose: bool
) -> RegisterValue:
    """Return the record with which a node leads alone. Raises RequestError if the node may not."""
    node, store_id = settings.node, identity.store
    if before is not None and before.group != identity.group:
        raise RequestError(PRECONDITION, f"the store of {node!r} is of another group than the cluster's record")
    in_sync = before is not None and before.in_sync.get(node) == store_id
    if not in_sync and not may_lose:
        why = "the cluster's record is gone, so nobody knows what it lacks" if before is None else "it is not in sync"
        raise RequestError(PRECONDITION, f"{node!r} may lack messages that were confirmed: {why}; see --may-lose")
    if before is None:
        addresses = MemberAddresses(settings.address(settings.options.listen), {})
        value = founding(settings.options.name, node, store_id, addresses, 1, identity.group)
        value.why = FORCED
    else:
        value = before.copy(FORCED, node)
    value.epoch = max(identity.promised, 0 if before is None else int(before.epoch)) + 1
    value.leader = node
    value.in_sync = {node: store_id}
    value.min_in_sync = 1
    return value
