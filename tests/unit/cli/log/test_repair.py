"""`forebay log repair`: whatever is damaged or gone, a broker starts again, and nothing whole is lost or untold."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from forebay.cli.commands import command_line
from forebay.cli.log.folder import ReadingDisk, Recovered
from forebay.core.errors import CorruptFile, StorageError
from forebay.server.system.disk import LOCK
from tests.stores import copied
from tests.vhosts import OneVhost

RUNNER = CliRunner()
QUEUES = (b"one", b"two", b"three")
FILL = b" " * 150


def bodies_in(folder: Path) -> dict[bytes, list[int]]:
    """The numbers of the messages that a broker finds in each queue."""
    opened = OneVhost(folder)
    try:
        return {name: [int(body.split()[0]) for body in opened.kept(name)] for name in opened.vhost.catalog.queues}
    finally:
        opened.stop()


@pytest.fixture(params=["stopped", "killed"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A data folder with segments and several WAL files; every message has a number of its own."""
    path = tmp_path / "data"
    opened = OneVhost(path)
    for name in QUEUES:
        opened.declare(name)
    number = 0
    for round in range(60):
        for name in QUEUES:
            for _ in range(3):
                opened.publish(b"", name, b"%d" % number + FILL)
                number += 1
        opened.settle()
        if round % 3 == 0:
            lease = opened.taken(b"one")
            opened.vhost.settling.ack(lease, lease.first, lease.count)
            opened.settle()
        opened.flush()
        if round < 40:
            opened.housekeep()
    opened.checkpoint()  # so that the last file, of which the manifest does not know yet, has no message of its own
    if request.param == "stopped":
        opened.stop()
    else:
        opened.close()
    assert len(list(path.glob("wal/*.wal"))) > 2
    assert len(list(path.glob("queues/*/*.seg"))) > 3
    return path


def repair(folder: Path, *options: str) -> dict[str, list[object]]:
    """Steps and losses; none where the checkpoint of the oldest file is gone, which no other file repeats."""
    done = RUNNER.invoke(command_line("log"), ["log", "repair", str(folder), "--yes", "--json", *options])
    if "its first frame is lost" in str(done.exception) or "nothing is left of it" in str(done.exception):
        return {}
    assert done.exception is None, (done.exception, done.output)
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def losses(found: dict[str, list[object]]) -> str:
    return json.dumps([found["steps"], found["lost"]])


def flip(path: Path, at: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[at] ^= 0x20
    path.write_bytes(octets)


def data_files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("wal/*.wal"), *folder.glob("queues/*/*.seg")])


def octets_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != LOCK}


def check(folder: Path, whole: dict[bytes, list[int]], found: dict[str, list[object]]) -> None:
    """A broker starts, all that it has was there before, in its order, and what is gone was told of."""
    assert RUNNER.invoke(command_line("log"), ["log", "verify", str(folder)]).exit_code == 0
    after = bodies_in(folder)
    for at, name in enumerate(QUEUES):
        kept = after.get(name, [])
        assert sorted(set(kept)) == kept
        lost = set(whole[name]) - set(kept)
        if lost:
            words = losses(found)
            assert f"queue {at + 1}, " in words or "frames" in words or "everything after" in words, (name, lost, words)


def test_a_sound_folder_is_left_alone(folder: Path) -> None:
    before = octets_of(folder)
    found = repair(folder)
    assert (found["steps"], found["lost"], found["set_aside"]) == ([], [], [])
    assert octets_of(folder) == before
    assert "nothing has to be mended" in RUNNER.invoke(command_line("log"), ["log", "repair", str(folder)]).stdout


def test_a_folder_that_was_looked_at_is_left_with_no_file_open(folder: Path) -> None:
    RUNNER.invoke(command_line("log"), ["log", "verify", str(folder)])
    repair(folder)
    opened = [os.path.realpath(each.path) for each in os.scandir("/proc/self/fd")]
    assert [path for path in opened if path.startswith(str(folder))] == []


def test_any_file_that_is_gone(folder: Path, tmp_path: Path) -> None:
    whole = bodies_in(copied(folder, tmp_path / "whole"))
    for path in [*data_files(folder), folder / "MANIFEST"]:
        copy = copied(folder, tmp_path / "copy")
        (copy / path.relative_to(folder)).unlink()
        disk = ReadingDisk(str(copy))
        try:
            Recovered(disk)
        except CorruptFile:
            found = repair(copy)
            assert found["steps"], path
            check(copy, whole, found)
        else:  # all that it has is elsewhere, too
            assert bodies_in(copy) == whole, path
        disk.close_all()
        shutil.rmtree(copy)


def test_any_octet_that_is_changed(folder: Path, tmp_path: Path) -> None:
    """All that is lost is the block, or the frame."""
    chance = random.Random(5)
    whole = bodies_in(copied(folder, tmp_path / "whole"))
    total = sum(map(len, whole.values()))
    mended = 0
    for _ in range(25):
        copy = copied(folder, tmp_path / "copy")
        path = copy / chance.choice(data_files(folder)).relative_to(folder)
        flip(path, chance.randrange(len(path.read_bytes().rstrip(b"\0"))))
        found = repair(copy)
        if found:
            check(copy, whole, found)
            left = sum(map(len, bodies_in(copy).values()))
            assert left > total - 250, (path, found)
        mended += bool(found)
        shutil.rmtree(copy)
    assert mended > 15


def test_files_cut_anywhere(folder: Path, tmp_path: Path) -> None:
    chance = random.Random(6)
    whole = bodies_in(copied(folder, tmp_path / "whole"))
    for path in data_files(folder):
        copy = copied(folder, tmp_path / "copy")
        mine = copy / path.relative_to(folder)
        octets = mine.read_bytes().rstrip(b"\0")
        mine.write_bytes(octets[: chance.randrange(len(octets))])
        found = repair(copy)
        if found:
            check(copy, whole, found)
        shutil.rmtree(copy)


def test_what_was_there_is_kept_beside(folder: Path) -> None:
    path = data_files(folder)[0]
    flip(path, 60)
    damaged = path.read_bytes()
    found = repair(folder)
    assert found["set_aside"] == [f"{path}.damaged"]
    assert Path(f"{path}.damaged").read_bytes() == damaged
    assert not (folder / "repair.tmp").exists()
    flip(path, 60)
    assert repair(folder)["set_aside"] == [f"{path}.damaged.2"]


def test_nothing_is_done_before_somebody_says_yes(folder: Path) -> None:
    flip(data_files(folder)[0], 60)
    before = octets_of(folder)
    done = RUNNER.invoke(command_line("log"), ["log", "repair", str(folder)])
    assert "lost: queue 1, offsets" in done.stdout
    assert "add --yes to confirm" in str(done.exception)
    assert octets_of(folder) == before


def test_a_dry_run_says_what_is_kept_and_lost_and_changes_nothing(folder: Path) -> None:
    path = min(folder.glob("queues/3/*.seg"))
    flip(path, 60)
    before = octets_of(folder)
    done = RUNNER.invoke(command_line("log"), ["log", "repair", str(folder), "--dry-run"])
    assert done.exit_code == 0
    assert f"write anew: {path.relative_to(folder)}" in done.stdout
    assert re.search(r"  kept: \d+ messages\n  lost: queue 3, offsets \d+ to \d+\n", done.stdout)
    assert "queue 3 is 'three' of vhost '/'" in done.stdout
    assert "done" not in done.stdout
    found = json.loads(RUNNER.invoke(command_line("log"), ["log", "repair", str(folder), "--dry-run", "--json"]).stdout)
    assert (len(found["steps"]), found["set_aside"]) == (1, [])
    assert found["queues"]["3"] == {"vhost": "/", "name": "three"}
    assert octets_of(folder) == before


def test_one_bad_block_of_the_log_costs_that_block_only(folder: Path, tmp_path: Path) -> None:
    whole = bodies_in(copied(folder, tmp_path / "whole"))
    path = [each for each in sorted(folder.glob("wal/*.wal")) if FILL in each.read_bytes()][-1]
    at = path.read_bytes().rindex(FILL) + 10  # in the body of a message
    flip(path, at)
    found = repair(folder)
    (lost,) = [each["lost"] for each in found["steps"]]  # type: ignore[index]
    assert len(lost) == 1
    assert re.fullmatch(r"queue \d, offsets \d+ to \d+", lost[0])
    after = bodies_in(folder)
    assert sum(map(len, whole.values())) - sum(map(len, after.values())) == 3


def test_a_lost_checkpoint_is_made_from_what_came_before(folder: Path, tmp_path: Path) -> None:
    whole = bodies_in(copied(folder, tmp_path / "whole"))
    for path in sorted(folder.glob("wal/*.wal"))[1:]:
        copy = copied(folder, tmp_path / "copy")
        flip(copy / path.relative_to(folder), 50)
        check(copy, whole, repair(copy))
        assert bodies_in(copy) == whole
        shutil.rmtree(copy)


def test_a_head_is_made_anew(folder: Path, tmp_path: Path) -> None:
    whole = bodies_in(copied(folder, tmp_path / "whole"))
    for path in (*sorted(folder.glob("wal/*.wal"))[-3:], *sorted(folder.glob("queues/*/*.seg"))[:2]):
        for at in (0, 5, 9, 13, 17, 25):
            copy = copied(folder, tmp_path / "copy")
            flip(copy / path.relative_to(folder), at)
            found = repair(copy)
            assert [each["lost"] for each in found["steps"]] == [[]], (path, at)  # type: ignore[index]
            assert bodies_in(copy) == whole
            shutil.rmtree(copy)


def test_the_log_can_be_cut_where_it_is_damaged(folder: Path, tmp_path: Path) -> None:
    whole = bodies_in(copied(folder, tmp_path / "whole"))
    paths = sorted(folder.glob("wal/*.wal"))
    octets = paths[0].read_bytes().rstrip(b"\0")
    flip(paths[0], len(octets) // 2)
    found = repair(folder, "--cut")
    assert [Path(str(each)).name for each in found["set_aside"]] == [
        *(f"{path.name}.damaged" for path in paths),
        "MANIFEST.damaged",
    ]
    check(folder, whole, found)
    after = bodies_in(folder)
    assert all(after[name] == whole[name][: len(after[name])] for name in (b"two", b"three"))


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    opened = OneVhost(tmp_path)
    done = RUNNER.invoke(command_line("log"), ["log", "repair", str(tmp_path), "--yes"])
    assert isinstance(done.exception, StorageError)
    assert str(os.getpid()) in str(done.exception) or "stop the broker first" in str(done.exception)
    opened.close()
