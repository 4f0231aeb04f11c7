"""The files that a replicated store says must be there."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from forebay.core.errors import CorruptFile
from forebay.log.folder.inventory import Inventory, read_inventory, remove_inventory, write_inventory
from tests.stores import PowerCut, SmallDisk

SOME = Inventory(17, (3, 4, 9), ((1, 0, 10), (1, 10, 15), (2, 5, 1 << 40)))


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    return SmallDisk(str(tmp_path))


@pytest.mark.parametrize("inventory", [SOME, Inventory(0, (), ())])
def test_an_inventory_is_read_as_it_was_written(disk: SmallDisk, inventory: Inventory) -> None:
    assert read_inventory(disk) is None
    write_inventory(disk, SOME)
    write_inventory(disk, inventory)
    assert read_inventory(disk) == inventory
    remove_inventory(disk)
    assert read_inventory(disk) is None


def test_each_octet_of_an_inventory_counts(disk: SmallDisk, tmp_path: Path) -> None:
    write_inventory(disk, SOME)
    path = tmp_path / "INVENTORY"
    whole = path.read_bytes()
    for at in range(len(whole)):
        for octets in (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole[:at], whole + b"\0"):
            path.write_bytes(octets)
            with pytest.raises(CorruptFile) as damage:
                read_inventory(disk)
            assert damage.value.path == str(path)


def test_a_power_cut_leaves_the_old_inventory_or_the_new(tmp_path: Path) -> None:
    found = set()
    for changes in range(6):
        disk = SmallDisk(str(tmp_path / str(changes)))
        write_inventory(disk, SOME)
        disk.changes_max = changes
        with contextlib.suppress(PowerCut):
            write_inventory(disk, Inventory(18, (), ()))
        disk.changes_max = 1 << 60
        after = read_inventory(disk)
        assert after is not None
        found.add(after.floor)
    assert found == {17, 18}


def test_room_for_the_next_inventory_is_kept(disk: SmallDisk) -> None:
    write_inventory(disk, SOME)
    disk.octets_max = disk.used()
    changed = Inventory(18, (4, 9), ((1, 10, 15),))
    write_inventory(disk, changed)
    assert read_inventory(disk) == changed
