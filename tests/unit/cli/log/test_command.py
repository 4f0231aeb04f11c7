"""`forebay log`: data folders are read without a broker, and every octet that was changed is found."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pika
from typer.testing import CliRunner

from forebay.cli.commands import command_line
from tests.broker_process import BrokerProcess
from tests.stores import SMALL, Everything, Opened
from tests.unit.cli.commands import Forebay

RUNNER = CliRunner()


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and what is printed by a command, in this process."""
    done = RUNNER.invoke(command_line("log"), ["log", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def verified(folder: Path) -> tuple[int, dict[str, object]]:
    code, printed = run("verify", str(folder), "--json")
    found: dict[str, object] = json.loads(printed)
    return code, found


def test_a_sound_folder_is_verified_and_left_as_it_is(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, found = verified(folder)
    assert (code, found["damages"], found["failure"]) == (0, [], None)
    assert found["records"] == 60 * 6
    assert run("verify", str(folder))[1].endswith("every checksum is right\n")
    assert run("inspect", str(folder))[0] == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_each_changed_octet_is_found_with_file_and_position(folder: Path, tmp_path: Path) -> None:
    chance = random.Random(1)
    used = {each["path"]: each["used"] for each in json.loads(run("inspect", str(folder), "--json")[1])["files"]}
    last = max(name for name in used if name.endswith(".wal"))
    names = [name for name in used if name != last and used[name]]
    for round in range(25):
        copy = tmp_path / f"copy{round}"
        shutil.copytree(folder, copy)
        name = chance.choice(names)
        file = copy / name
        octets = bytearray(file.read_bytes())
        at = chance.randrange(used[name])
        octets[at] ^= 1 << chance.randrange(8)
        file.write_bytes(octets)
        code, found = verified(copy)
        damages = found["damages"]
        assert isinstance(damages, list)
        assert code == 1, (name, at)
        assert damages, (name, at, found)
        assert {each["file"] for each in damages} == {str(file)}, (name, at, damages)
        assert any(each["position"] <= at for each in damages), (name, at, damages)
        shutil.rmtree(copy)


def test_damage_in_a_block_names_its_queue_and_offsets(folder: Path) -> None:
    segment = min((folder / "queues" / "1").glob("*.seg"))
    octets = bytearray(segment.read_bytes())
    octets[60 + 40] ^= 1
    segment.write_bytes(octets)
    code, said = run("verify", str(folder))
    assert code == 1
    assert f"damaged: {segment}: at octet 40: queue 1, offsets 0 to " in said


def test_a_torn_tail_is_no_damage_and_said(folder: Path) -> None:
    last = max((folder / "wal").glob("*.wal"))
    used = {each["path"]: each["used"] for each in json.loads(run("inspect", str(folder), "--json")[1])["files"]}
    octets = bytearray(last.read_bytes())
    octets[used[f"wal/{last.name}"] - 9] ^= 1  # within the last frame
    last.write_bytes(octets)
    code, found = verified(folder)
    assert (code, found["damages"], found["failure"]) == (0, [], None)
    assert found["unconfirmed_octets"]
    assert "of no whole frame: a write that was never confirmed, unless the disk" in run("verify", str(folder))[1]
    said = run("inspect", str(folder))[1]
    assert "a broker that starts would say: " in said
    assert f"a broker that starts would cut wal/{last.name} to its " in said


def test_a_file_whose_head_is_damaged_keeps_a_broker_from_starting(folder: Path) -> None:
    last = max((folder / "wal").glob("*.wal"))
    octets = last.read_bytes()
    last.write_bytes(octets[:31] + b"\x7f" + octets[32:])
    code, said = run("inspect", str(folder))
    assert code == 1
    assert f"a broker cannot start on it: {last}: at octet 0: checksum of the file's head does not match" in said


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    forebay_error = RUNNER.invoke(command_line("log"), ["log", "verify", str(tmp_path)]).exception
    assert "is no data folder of a broker" in str(forebay_error)


def test_a_folder_is_read_beside_its_broker_and_after(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    forebay = Forebay(broker)
    forebay("queue", "declare", "orders")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(5):
            channel.basic_publish("", "orders", b"order %d" % number)
    data = str(broker.data)
    done = forebay.run("log", "inspect", data, "--queue", "orders", "--json")
    assert f"is in use by the process {broker.pid}" in done.stderr
    assert sum(each["count"] for each in json.loads(done.stdout)["blocks"]) == 5
    broker.stop()
    found = forebay.json("log", "inspect", data)
    (queue,) = [each for each in found["queues"] if each["queue"] == "orders"]
    assert (queue["ready"], queue["start"], queue["end"]) == (5, 0, 5)
    assert found["files"][-1]["clean"]
    messages = forebay.json("log", "inspect", data, "--queue", "orders", "--offset", "3", "--body")
    assert [(each["offset"], each["body"]) for each in messages] == [(3, "order 3"), (4, "order 4")]
    assert "there is no queue 'nowhere'" in forebay.fails(2, "log", "inspect", data, "--queue", "nowhere")
    assert forebay("log", "verify", data).endswith("every checksum is right\n")
    broker.start()


def test_a_folder_is_sound_while_its_broker_works(tmp_path: Path) -> None:
    """Frames are written, and files come, are merged and go, between any two reads."""
    opened = Opened(tmp_path, [1, 2, 3], replace(SMALL, wal_octets_max=256 << 10, segment_octets_max=1 << 20))
    wanted = Everything()
    ends = threading.Event()

    def work() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            queue = 1 + number % 3
            opened.publish(queue, *(b"%d" % number * 50 for _ in range(20)))
            opened.sync()
            log = opened.logs[queue]
            log.truncate(log.end - 400)
            if opened.store.checkpoint_due():
                opened.store.rotate([])
            opened.housekeep(wanted)

    with ThreadPoolExecutor(1) as worker:
        writer = worker.submit(work)
        try:
            for _ in range(30):
                for what in ("verify", "inspect"):
                    done = RUNNER.invoke(command_line("log"), ["log", what, str(tmp_path), "--json"])
                    assert done.exit_code == 0, (done.output, done.exception)
                    found = json.loads(done.stdout)
                    assert found["used_by"] == str(os.getpid())
        finally:
            ends.set()
            writer.result()
    opened.close()
    assert verified(tmp_path)[0] == 0
