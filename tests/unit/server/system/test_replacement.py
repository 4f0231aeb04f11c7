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
import os, sys, threading
from forebay.server.system.replacement import Replacement, heed_signals

mark = sys.argv[1]
if os.path.exists(mark):
    heed_signals()
    sys.exit(3)
threading.Thread(target=threading.Event().wait, daemon=True).start()
replacement = Replacement()
replacement.prepare()
open(mark, "w").close()
os.read(0, 1)
replacement.begin(False)
"""


def prepared(mark: Path) -> subprocess.Popen[bytes]:
    """A process that runs its command again, which then ends with 3, once its input ends."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(mark)], stdin=subprocess.PIPE)
    until(mark.exists)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_before_or_after(tmp_path: Path, number: int) -> None:
    process = prepared(tmp_path / "mark")
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    # Noted by the other thread; or on its way to it as the command began again, which finds it then.
    assert process.returncode in (0, -number)


def test_without_a_signal_the_command_runs_again(tmp_path: Path) -> None:
    process = prepared(tmp_path / "mark")
    process.communicate(timeout=60)
    assert process.returncode == 3
