"""A follower's disk that is full is asked for room more and more seldom."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from forebay.node.back_pressure.disk_room import LOOK_US, LOOK_US_MAX, TRIAL, DiskRoom
from tests.replicated import Following
from tests.stores import NO_LIMIT


def fits(room: DiskRoom) -> bool:
    trial = room.trial_to_lead()
    trial.run()
    return trial.fits


def test_a_full_disk_is_asked_again_until_it_has_room(tmp_path: Path) -> None:
    following = Following(tmp_path)
    disk = following.disk
    room = DiskRoom(disk, following.store)
    assert fits(room) and not room.comes(0)
    disk.octets_max = disk.used() + 1000
    assert not fits(room)
    room.lack(2000, 0)
    looks = [now for now in range(0, 20_000_000, 10_000) if asks(room, now)]
    assert looks[0] == LOOK_US
    assert [later - earlier for earlier, later in pairwise(looks)][-1] == LOOK_US_MAX
    disk.octets_max = NO_LIMIT
    assert room.comes(30_000_000) and not room.comes(60_000_000)
    assert not (tmp_path / TRIAL).exists()
    room.taken()
    room.lack(2000, 0)
    assert room.wait_us == LOOK_US
    following.crash()


def asks(room: DiskRoom, now: int) -> bool:
    """It has asked the disk just then, which had no room."""
    before = room.look_us
    assert not room.comes(now)
    return room.look_us != before
