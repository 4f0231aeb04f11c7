#!/usr/bin/env python3
"""Resident memory and restart time of a broker with many queued messages.

usage: bench/memory.py [--messages 1000000] [--size 1024] [--one-a-block]

Prints resident memory before and after publishing, octets of state a message beyond the block cache's budget, and the
time from the start of the process to its ready line. `--one-a-block` publishes in lock-step from many connections'
worth of turns, the worst case: every message is a block of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE_OCTETS = 32 << 20


def resident(pid: int) -> int:
    """Octets of a process's resident memory."""
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


def start(data: Path) -> tuple[subprocess.Popen[str], dict[str, str], float]:
    config = data.parent / "options.yaml"
    config.write_text(f"cache_octets_max: {CACHE_OCTETS}\nmqtt_websocket: ''\nhttp: ''\n", encoding="utf-8")
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "forebay", "serve", "--config", str(config), "--data", str(data)]
        + ["--amqp", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline().removeprefix("ready "))
    return process, ready, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--one-a-block", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-memory-"))
    load = folder / "amqp091_load"
    subprocess.run(["cc", "-O2", "-o", str(load), str(HERE / "load" / "amqp091_load.c")], check=True)
    process, ready, _ = start(folder / "data")
    try:
        before = resident(process.pid)
        window = "1" if options.one_a_block else "2000"
        command = [str(load), "--port", ready["amqp"].rpartition(":")[2], "--subs", "0", "--keep", "--idle", "60"]
        command += ["--count", str(options.messages), "--size", str(options.size), "--window", window]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        time.sleep(12)  # the write-ahead log's full files are rewritten in the background
        after = resident(process.pid)
        process.kill()
        process.wait()
        process, ready, seconds = start(folder / "data")
        restarted = resident(process.pid)
        beyond = max(0, after - before - CACHE_OCTETS)
        print(f"messages {options.messages} x {options.size} octets, cache budget {CACHE_OCTETS >> 20} MiB")
        print(f"resident: {before >> 20} MiB empty, {after >> 20} MiB full, {restarted >> 20} MiB after a restart")
        print(f"state beyond the cache budget: {beyond / options.messages:.1f} octets a message")
        print(f"restart after kill -9: ready in {seconds:.2f} s")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
