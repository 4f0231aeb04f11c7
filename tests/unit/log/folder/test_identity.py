"""Who a store is, and what it has promised: written and read, and refused where it is not as it was written."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from forebay.core.errors import CorruptFile
from forebay.core.ports import Random
from forebay.log.folder.identity import (
    StoreIdentity,
    UnfinishedCopy,
    alone_identity,
    checksum,
    join_group,
    own_identity,
    promise,
    read_identity,
    write_identity,
)
from forebay.log.store import Store
from tests.stores import SMALL, Opened, PowerCut, SmallDisk, TestClock


class CountingRandom(Random):
    """Octets that count up."""

    def __init__(self) -> None:
        self.next = 0

    def octets(self, count: int) -> bytes:
        self.next += count
        return bytes(at % 256 for at in range(self.next - count, self.next))


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    return SmallDisk(str(tmp_path))


def test_an_identity_is_made_once(disk: SmallDisk) -> None:
    random = CountingRandom()
    assert read_identity(disk) is None
    made = own_identity(disk, random)
    assert made == StoreIdentity("000102030405060708090a0b0c0d0e0f", 0, False)
    assert own_identity(disk, random) == made == read_identity(disk)


def test_a_store_of_a_group_says_so(disk: SmallDisk) -> None:
    identity = own_identity(disk, CountingRandom())
    joined = join_group(disk, identity, "ab" * 16)
    assert (joined.group, joined.store) == ("ab" * 16, identity.store)
    assert read_identity(disk) == joined == join_group(disk, joined, "ab" * 16)
    assert promise(disk, joined, 3).group == "ab" * 16


def test_a_store_that_stands_alone_again_is_another_one(disk: SmallDisk) -> None:
    random = CountingRandom()
    made = alone_identity(disk, random)
    assert alone_identity(disk, random) == made, "it was of no group"
    promise(disk, join_group(disk, made, "ab" * 16), 3)
    alone = alone_identity(disk, random)
    assert (alone.group, alone.promised) == ("", 0)
    assert alone.store != made.store
    assert read_identity(disk) == alone
    copying = StoreIdentity(made.store, 3, True, "ab" * 16)
    write_identity(disk, copying)
    assert alone_identity(disk, random) == copying, "opening the folder says what is wrong with it"


def test_a_promise_is_on_the_disk_before_it_is_returned(disk: SmallDisk) -> None:
    identity = own_identity(disk, CountingRandom())
    assert promise(disk, identity, 0) is identity
    promised = promise(disk, identity, 7)
    assert promised.promised == 7
    assert promised.store == identity.store
    assert read_identity(disk) == promised
    with pytest.raises(AssertionError, match="epoch 6 is below the promised 7"):
        promise(disk, promised, 6)


def test_a_power_cut_leaves_the_old_promise_or_the_new(tmp_path: Path) -> None:
    found = set()
    for changes in range(6):
        disk = SmallDisk(str(tmp_path / str(changes)))
        identity = promise(disk, own_identity(disk, CountingRandom()), 3)
        disk.changes_max = changes
        with contextlib.suppress(PowerCut):
            promise(disk, identity, 4)
        disk.changes_max = 1 << 60
        after = read_identity(disk)
        assert after is not None
        found.add(after.promised)
    assert found == {3, 4}


def test_each_octet_of_an_identity_counts(disk: SmallDisk, tmp_path: Path) -> None:
    write_identity(disk, StoreIdentity("ab" * 16, 12))
    path = tmp_path / "store.json"
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        for flip in (1, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                # Space of the text may be other space.
                assert read_identity(disk) == StoreIdentity("ab" * 16, 12)
            except CorruptFile as error:
                assert error.path == str(path)  # noqa: PT017
        path.write_bytes(whole[:at])
        with pytest.raises(CorruptFile):
            read_identity(disk)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("version", 2, "version 2 of the store's identity is unknown"),
        ("store", "xyz", "store: 'xyz' is not 32 hex digits"),
        ("store", None, "store: None is not 32 hex digits"),
        ("promised", -1, "promised: -1 is no epoch"),
        ("promised", True, "promised: True is no epoch"),
        ("copying", 0, "copying: 0 is neither true nor false"),
    ],
)
def test_a_field_that_cannot_be_is_named(disk: SmallDisk, tmp_path: Path, field: str, value: object, said: str) -> None:
    fields: dict[str, object] = {"version": 1, "store": "ab" * 16, "promised": 0, "copying": False, field: value}
    fields["crc"] = checksum(fields)
    (tmp_path / "store.json").write_text(json.dumps(fields))
    with pytest.raises(CorruptFile, match=said):
        read_identity(disk)


def test_a_folder_that_was_being_filled_is_not_opened(tmp_path: Path) -> None:
    Opened(tmp_path, [1]).close()
    disk = SmallDisk(str(tmp_path))
    write_identity(disk, StoreIdentity("ab" * 16, 0, True))
    with pytest.raises(UnfinishedCopy, match=r"store\.json: this folder was being filled from another node"):
        Store(disk, TestClock(), SMALL).open()
