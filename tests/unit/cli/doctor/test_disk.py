"""What a disk is good for, by what it says and how fast it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.cli.doctor.diagnosis import ERROR, GOOD, NOTE, WARNING
from forebay.cli.doctor.disk import DiskTrial, assessed, measured, mount_of, room, sync_times

SSD = DiskTrial("/d", "ext4", ["rw", "relatime"], "nvme0n1", False, "write back", 200, 0.8, 2.0)


@pytest.mark.parametrize(
    ("changes", "level", "said"),
    [
        ({}, GOOD, "an fdatasync takes 0.8 ms (p99 2 ms), ext4 on nvme0n1"),
        ({"file_system": "tmpfs"}, ERROR, "in memory"),
        ({"options": ["rw", "nobarrier"]}, ERROR, "nobarrier: synced data may be lost"),
        ({"options": ["rw", "data=writeback"]}, ERROR, "data=writeback"),
        ({"rotational": True, "median_ms": 0.4}, WARNING, "a spinning disk cannot write so fast"),
        ({"rotational": True, "median_ms": 8.3}, GOOD, "8.3 ms"),
        ({"median_ms": 0.004}, WARNING, "no disk writes so fast"),
        ({"median_ms": 0.02, "cache": "write through"}, GOOD, "0.02 ms"),  # with a capacitor, as the kernel knows
        ({"median_ms": 45.0}, WARNING, "slow"),
        ({"file_system": "nfs4"}, NOTE, "over the network"),
    ],
)
def test_a_disk_that_lies_is_named(changes: dict[str, object], level: str, said: str) -> None:
    found = assessed(replace(SSD, **changes))  # type: ignore[arg-type]
    assert (found.level, said in found.text) == (level, True), found
    assert bool(found.remedy) == (level != GOOD)
    assert found.fields["syncs"] == 200


def test_a_real_disk_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    facts = measured(tmp_path)
    assert 0 < facts.median_ms <= facts.p99_ms
    assert 1 <= facts.syncs <= 200
    assert facts.file_system == mount_of(tmp_path)[1] != "unknown"
    assert list(tmp_path.iterdir()) == []
    assert all(each > 0 for each in sync_times(tmp_path))


def test_memory_is_told_from_a_disk() -> None:
    assert assessed(measured(Path("/dev/shm"))).level == ERROR


def test_a_folder_that_takes_nothing_is_an_error() -> None:
    with pytest.raises(OSError, match=r"No such file|not permitted|not supported"):
        sync_times(Path("/proc"))


def test_room_is_what_publishers_need(tmp_path: Path) -> None:
    found = room(tmp_path, 1)
    assert found.fields["free_min_octets"] == 1
    assert room(tmp_path, 1 << 60).level == ERROR
    free = found.fields["free_octets"]
    assert isinstance(free, int)
    assert room(tmp_path, free * 3 // 4).level == WARNING
