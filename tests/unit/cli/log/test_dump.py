"""`forebay log dump`: every frame, block and note of the files, in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from forebay.cli.commands import command_line
from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay

RUNNER = CliRunner()


def dumped(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and rows of a dump, in this process."""
    done = RUNNER.invoke(command_line("log"), ["log", "dump", *arguments, "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, [json.loads(line) for line in done.output.splitlines()]


def of(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["row"] == kind]


def test_every_octet_of_the_log_is_some_frame_and_every_record_in_some_block(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, rows = dumped(str(folder))
    assert code == 0
    at: dict[str, int] = {row["file"]: 32 for row in of(rows, "file")}
    lsns = []
    for frame in of(rows, "frame"):
        assert frame["position"] == at[frame["file"]]
        at[frame["file"]] += frame["octets"]
        lsns.append(frame["lsn"])
    assert lsns == list(range(lsns[0], lsns[0] + len(lsns)))
    blocks = [*of(rows, "block"), *(block for frame in of(rows, "frame") for block in frame["blocks"])]
    offsets = {(each["queue"], offset) for each in blocks for offset in range(each["first"], each["last"] + 1)}
    assert offsets == {(1, offset) for offset in range(300)} | {(2, offset) for offset in range(60)}
    assert any(row["kind"] == "segment" for row in of(rows, "file"))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_one_file_one_queue_and_some_frames(folder: Path) -> None:
    _, rows = dumped(str(folder))
    last = of(rows, "frame")[-1]
    assert of(dumped(str(folder), "--file", last["file"])[1], "file")[0]["file"] == last["file"]
    assert [row["lsn"] for row in of(dumped(str(folder), "--from", str(last["lsn"]))[1], "frame")] == [last["lsn"]]
    assert len([row for row in dumped(str(folder), "--limit", "3")[1] if row["row"] != "file"]) == 3
    done = RUNNER.invoke(command_line("log"), ["log", "dump", str(folder), "--file", "wal/none.wal"])
    assert "--file: 'wal/none.wal' is no log file" in str(done.exception)


def test_damage_is_shown_where_it_is_and_what_follows_too(folder: Path) -> None:
    _, rows = dumped(str(folder))
    *_, frame, _, _ = of(rows, "frame")
    path = folder / frame["file"]
    octets = bytearray(path.read_bytes())
    octets[frame["position"] + 40] ^= 1
    path.write_bytes(bytes(octets))
    code, found = dumped(str(folder))
    (damage,) = of(found, "damage")
    assert (code, damage["file"], damage["position"]) == (1, str(path), frame["position"])
    assert [row["lsn"] for row in of(found, "frame")] == [
        row["lsn"] for row in of(rows, "frame") if row["lsn"] != frame["lsn"]
    ]
    text = RUNNER.invoke(command_line("log"), ["log", "dump", str(folder)]).output
    assert f"DAMAGED  {path} at octet {frame['position']}" in text


def test_notes_are_in_words_and_have_no_hashes(broker: BrokerProcess) -> None:
    forebay = Forebay(broker)
    forebay("queue", "declare", "orders")
    forebay("publish", "-q", "orders", "--lines", stdin="1\n2\n3\n")
    forebay("consume", "-q", "orders", "-n", "2")
    forebay("user", "add", "ann", "--new-password", "a-password")
    done = forebay.run("log", "dump", str(broker.data))
    assert (done.returncode, f"in use by the process {broker.pid}" in done.stderr) == (0, True)
    assert "argon2" not in done.stdout
    broker.stop()
    code, rows = dumped(str(broker.data))
    notes = [note for frame in of(rows, "frame") for note in frame["notes"]]
    commands = [note["command"] for note in notes if "command" in note]
    assert code == 0
    assert {"op": "queue", "id": 1, "name": "orders", "user": "guest"} in commands
    assert {"op": "user", "name": "ann", "hash": "***"} in commands
    blocks = [block for frame in of(rows, "frame") for block in frame["blocks"] if block.get("name") == "orders"]
    assert [offset for block in blocks for offset in range(block["first"], block["last"] + 1)] == [0, 1, 2]
    settled = [span for note in notes if note["kind"] == "settled" for span in note["settled"]]
    assert max(last for _, last in settled) == 1
    assert of(rows, "frame")[-1]["clean"]
    _, about = dumped(str(broker.data), "--queue", "orders")
    assert {block["name"] for frame in of(about, "frame") for block in frame["blocks"]} == {"orders"}
    text = forebay("log", "dump", str(broker.data), "--queue", "orders")
    assert "    block  queue 1  vhost /  name orders  first 0  " in text
