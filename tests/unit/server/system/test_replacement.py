"""A signal to stop is not lost where a process runs the same command again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

PROGRAM = """
import os, sys, threading, time
from forebay.server.system.replacement import Replacement, heed_signals

mark = sys.argv[1]
if os.path.exists(mark + ".first"):
    open(mark + ".second", "w").close()
    heed_signals()
    time.sleep(1)
    sys.exit(3)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
replacement = Replacement()
replacement.prepare()
open(mark + ".first", "w").close()
while not os.path.exists(mark + ".go"):
    time.sleep(0.01)
replacement.begin(False)
"""


def started(mark: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(mark)])
    until(Path(f"{mark}.first").exists)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_another_thread_has_taken_ends_the_process(tmp_path: Path, number: int) -> None:
    mark = tmp_path / "mark"
    process = started(mark)
    os.kill(process.pid, number)
    Path(f"{mark}.go").touch()
    assert process.wait(60) == 0
    assert not Path(f"{mark}.second").exists()


def test_without_a_signal_the_command_runs_again(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    process = started(mark)
    Path(f"{mark}.go").touch()
    assert process.wait(60) == 3
    assert Path(f"{mark}.second").exists()
