"""The identity of a store: which disk it is for the other nodes of its group, and what it has promised them.

The file `store.json` of the data folder, one JSON object and a line feed:

     version   1
     store     16 random octets as hex, made with the folder: a folder that was emptied or repaired is another store
     promised  the store follows no leader of a lower epoch than this
     group     16 random octets as hex, made when the store's group was founded; empty for none. Versions that do not
               know this field leave it out
     copying   true while the folder is being filled from another store: ignore whatever else is in it
     crc       CRC32C of the object without this field, keys sorted and no spaces
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from crc32c import crc32c

from forebay.core.errors import CorruptFile, DiskFull, StorageError
from forebay.core.ports import Disk, Random

NAME: Final = "store.json"
SPARE: Final = "store.json.tmp"
VERSION: Final = 1
ID_OCTETS: Final = 16
OCTETS_MAX: Final = 4096
ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The content of the file.

    store     id of the store, 32 hex digits
    promised  the promised epoch
    copying   the folder is being filled from another store
    group     id of the group that the store belongs to; "" for none
    """

    store: str
    promised: int = 0
    copying: bool = False
    group: str = ""


class UnfinishedCopy(StorageError):
    """A copy into the folder was not finished: nothing in it can be used."""


def new_identity(random: Random) -> StoreIdentity:
    """Return the identity of a new store, with a random id."""
    return StoreIdentity(random.octets(ID_OCTETS).hex())


def own_identity(disk: Disk, random: Random) -> StoreIdentity:
    """Return the folder's identity, and write a new one if there is none. Raises CorruptFile if it is damaged."""
    identity = read_identity(disk)
    if identity is None:
        identity = new_identity(random)
        write_identity(disk, identity)
    return identity


def alone_identity(disk: Disk, random: Random) -> StoreIdentity:
    """Return the identity for a node that runs alone from here on. A store that was in a group gets a new id.

    The node may write frames that the group never gets, with numbers that the group gives to other frames.
    """
    identity = own_identity(disk, random)
    if identity.copying or not (identity.group or identity.promised):
        return identity
    alone = new_identity(random)
    write_identity(disk, alone)
    return alone


def join_group(disk: Disk, identity: StoreIdentity, group: str) -> StoreIdentity:
    """Record durably that the store belongs to the group, and return the new identity."""
    if identity.group == group:
        return identity
    joined = replace(identity, group=group)
    write_identity(disk, joined)
    return joined


def promise(disk: Disk, identity: StoreIdentity, epoch: int) -> StoreIdentity:
    """Record durably that the store has promised the epoch, and return the new identity."""
    assert epoch >= identity.promised, f"epoch {epoch} is below the promised {identity.promised}"
    if epoch == identity.promised:
        return identity
    promised = replace(identity, promised=epoch)
    write_identity(disk, promised)
    keep_room(disk)
    return promised


def read_identity(disk: Disk) -> StoreIdentity | None:
    """Read the folder's identity, or return None if there is none. Raises CorruptFile if it is damaged."""
    if NAME not in disk.list(""):
        return None
    handle = disk.open(NAME, False)
    try:
        octets = disk.pread(handle, OCTETS_MAX, 0)
    finally:
        disk.close(handle)
    path = disk.path(NAME)
    try:
        fields = json.loads(octets)
    except ValueError as error:
        raise CorruptFile(path, 0, f"this is no store's identity: {error}") from error
    if not isinstance(fields, dict) or fields.get("crc") != checksum(fields):
        raise CorruptFile(path, 0, "checksum of the store's identity does not match")
    if fields.get("version") != VERSION:
        text = f"version {fields.get('version')} of the store's identity is unknown, this program knows {VERSION}"
        raise CorruptFile(path, 0, text)
    return parsed(path, fields)


def parsed(path: str, fields: dict[str, object]) -> StoreIdentity:
    store, promised, copying = fields.get("store"), fields.get("promised"), fields.get("copying")
    if not isinstance(store, str) or not ID.fullmatch(store):
        raise CorruptFile(path, 0, f"store: {store!r} is not {2 * ID_OCTETS} hex digits")
    if not isinstance(promised, int) or isinstance(promised, bool) or promised < 0:
        raise CorruptFile(path, 0, f"promised: {promised!r} is no epoch")
    if not isinstance(copying, bool):
        raise CorruptFile(path, 0, f"copying: {copying!r} is neither true nor false")
    group = fields.get("group", "")
    if not isinstance(group, str) or (group and not ID.fullmatch(group)):
        raise CorruptFile(path, 0, f"group: {group!r} is not {2 * ID_OCTETS} hex digits")
    return StoreIdentity(store, promised, copying, group)


def write_identity(disk: Disk, identity: StoreIdentity) -> None:
    """Replace the identity durably."""
    assert ID.fullmatch(identity.store), identity.store
    fields: dict[str, object] = {
        "version": VERSION,
        "store": identity.store,
        "promised": identity.promised,
        "copying": identity.copying,
        "group": identity.group,
    }
    fields["crc"] = checksum(fields)
    octets = json.dumps(fields).encode() + b"\n"
    handle = disk.open(SPARE, True)
    try:
        disk.pwrite(handle, [octets], 0)
        disk.truncate(handle, len(octets))
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(SPARE, NAME)


def keep_room(disk: Disk) -> None:
    """Reserve room for the next identity, if possible, so that even a full disk takes promises."""
    with suppress(DiskFull):
        handle = disk.open(SPARE, True)
        try:
            disk.reserve(handle, OCTETS_MAX)
        finally:
            disk.close(handle)


def checksum(fields: dict[str, object]) -> int:
    rest = {name: value for name, value in fields.items() if name != "crc"}
    return crc32c(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def check_whole(disk: Disk) -> None:
    """Raise UnfinishedCopy if a copy into the folder was not finished."""
    identity = read_identity(disk)
    if identity is not None and identity.copying:
        text = "this folder was being filled from another node of its cluster, and that did not end"
        raise UnfinishedCopy(f"{disk.path(NAME)}: {text}; as a node of the cluster it starts anew")
