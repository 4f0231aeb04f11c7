"""Instructions of a message through a broker that is held in one process, counted by callgrind.

A busy machine changes nothing of them, so that two builds can be told apart by a percent while others work beside.

    python bench/instructions.py                          # this tree, with the build in build/compiled
    python bench/instructions.py --beside ../before       # and another tree with its own, and the ratio

It wants valgrind. What the rig around the node costs is in the figures, the same for both.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
LOAD = TREE / "bench" / "held_load.py"
CASES = {
    "amqp-64": "AMQP, 64 B, confirms and acknowledgements",
    "amqp-1024": "AMQP, 1 KiB, confirms and acknowledgements",
    "amqp-shared-25": "AMQP, 64 B, to 10 consumers, 25 messages a turn",
    "amqp-shared-100": "AMQP, 64 B, to 10 consumers, 100 messages a turn",
    "amqp-shared-500": "AMQP, 64 B, to 10 consumers, 500 messages a turn",
    "amqp-backlog": "AMQP, 64 B, a backlog to 10 consumers",
    "amqp-stream": "AMQP, 64 B, confirms, to a stream",
    "amqp-views-10": "AMQP, 64 B, confirms, to a stream with 10 views",
    "amqp-views-10-filtered": "AMQP, 64 B, confirms, to a stream with 10 views that have filters",
    "mqtt-qos0-64": "MQTT, 64 B, QoS 0",
    "mqtt-qos1-64": "MQTT, 64 B, QoS 1",
}
FEW, MANY = 1_000, 3_000  # their difference is what is quoted: starting and warming up go out of it


def counted(tree: Path, case: str, count: int) -> int:
    """Instructions of a whole run of so many messages on the build of a tree."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        sys.executable,
        str(LOAD),
        case,
        str(count),
    ]
    environment = {
        "PYTHONPATH": f"{tree / 'build' / 'compiled'}:{tree}",
        "PYTHONHASHSEED": "0",
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        sys.exit(done.stderr[-3000:])
    return int(found[1])


def per_message(tree: Path, case: str) -> float:
    """Instructions of one message more."""
    return (counted(tree, case, MANY) - counted(tree, case, FEW)) / (MANY - FEW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="another tree, with a build in its build/compiled")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not there")
    for case, told in CASES.items():
        here = per_message(TREE, case)
        line = f"{told}: {here:,.0f} instructions a message"
        if given.beside:
            there = per_message(given.beside.resolve(), case)
            line += f", {there:,.0f} beside, ratio {here / there:.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
