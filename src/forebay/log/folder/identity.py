"""The identity of a store: which disk this is, for the others of its group, and what it has promised them.

The file `store.json` of the data folder, one JSON object and a line feed:

     version   1
     store     16 octets of chance as hex, made with the folder: a folder that was emptied or repaired is another store
     promised  the store acts for no leader of a lower epoch than this
     group     16 octets of chance as hex, made when the group was founded that the store is of; empty for none.
               Versions that know nothing of it leave it out
     copying   true while the folder is being filled from another store: what else is in it then counts for nothing
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

    store     its id, 32 hex digits
    promised  the epoch
    copying   the folder is being filled from another store
    group     that the store is of; "" for none
    """

    store: str
    promised: int = 0
    copying: bool = False
    group: str = ""


class UnfinishedCopy(StorageError):
    """The folder was being filled from another store: nothing in it can be used."""


def new_identity(random: Random) -> StoreIdentity:
    """The identity of a store that was never there before."""
    return StoreIdentity(random.octets(ID_OCTETS).hex())


def own_identity(disk: Disk, random: Random) -> StoreIdentity:
    """The identity of the folder's store, made where there is none; CorruptFile if it is not as it was written."""
    identity = read_identity(disk)
    if identity is None:
        identity = new_identity(random)
        write_identity(disk, identity)
    return identity


def alone_identity(disk: Disk, random: Random) -> StoreIdentity:
    """The identity of a node that stands alone from here on: what was of a group is another store now.

    It may write frames that the group never gets, under numbers that the group gives to others.
    """
    identity = own_identity(disk, random)
    if identity.copying or not (identity.group or identity.promised):
        return identity
    alone = new_identity(random)
    write_identity(disk, alone)
    return alone


def join_group(disk: Disk, identity: StoreIdentity, group: str) -> StoreIdentity:
    """Have the store be of a group; on return that is on the disk."""
    if identity.group == group:
        return identity
    joined = replace(identity, group=group)
    write_identity(disk, joined)
    return joined


def promise(disk: Disk, identity: StoreIdentity, epoch: int) -> StoreIdentity:
    """Have the store promise an epoch; on return it is on the disk."""
    assert epoch >= identity.promised, f"epoch {epoch} is below the promised {identity.promised}"
    if epoch == identity.promised:
        return identity
    promised = replace(identity, promised=epoch)
    write_identity(disk, promised)
    keep_room(disk)
    return promised


def read_identity(disk: Disk) -> StoreIdentity | None:
    """The identity of the folder's store; None where there is none. CorruptFile if it is not as it was written."""
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
    """Put this identity in the place of any other; on return it is durable."""
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
    """Have room for the next identity, if there is any: with that a full disk takes promises, too."""
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
    """UnfinishedCopy if the folder was being filled from another store when its process ended."""
    identity = read_identity(disk)
    if identity is not None and identity.copying:
        text = "this folder was being filled from another node of its cluster, and that did not end"
        raise UnfinishedCopy(f"{disk.path(NAME)}: {text}; as a node of the cluster it starts anew")
