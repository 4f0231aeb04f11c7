"""The garbage collector: off while a process starts, and on again whether or not the node leads."""

from __future__ import annotations

import gc
import subprocess
import sys


def test_the_collector_goes_on_after_a_start_and_leaves_out_what_that_has_made() -> None:
    program = """
import gc
from forebay.server.system.heap import pause_collector, resume_collector, tune_collector
pause_collector()
made = [[] for _ in range(1000)]
print(gc.isenabled(), gc.get_freeze_count() > 0)
resume_collector()
print(gc.isenabled(), gc.get_freeze_count() > 1000)
pause_collector()
tune_collector()
print(gc.isenabled(), gc.get_freeze_count() > 1000)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "True True", "True True"]
    assert gc.isenabled()  # of this process
