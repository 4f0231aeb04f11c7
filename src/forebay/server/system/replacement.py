"""The same command in the place of this process, without losing a signal that tells it to stop.

A signal is for the whole process: while the main thread holds it back, any other thread takes it, and the loop hears of
it in its next turn, which may not come any more. So it is noted in a pipe of its own, which any thread writes to.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Final, NoReturn

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
TAKEN_S: Final = 0.02  # in which a thread that has taken a signal gets to note it


class Replacement:
    """The next process of this command."""

    def __init__(self) -> None:
        self.noted = -1  # reading end of the pipe of signals

    def prepare(self) -> None:
        """Note signals from now on. A signal that no other thread takes waits for the next process."""
        self.noted, end = os.pipe()
        os.set_blocking(self.noted, False)
        os.set_blocking(end, False)
        for number in STOPPING:
            signal.signal(number, heard)
        signal.set_wakeup_fd(end)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)

    def begin(self, is_told_to_stop: bool) -> NoReturn:
        """Run the command again, or end the process if a signal has told it to stop."""
        for number in STOPPING:
            signal.signal(number, signal.SIG_DFL)  # one that another thread takes from here on ends the process
        time.sleep(TAKEN_S)
        if is_told_to_stop or self.is_noted():
            os._exit(0)  # nothing is lost by that: what counts is on the disk
        os.execv(sys.executable, sys.orig_argv)

    def is_noted(self) -> bool:
        """Return whether a signal has come since `prepare`."""
        try:
            numbers = os.read(self.noted, 4096)
        except BlockingIOError:
            return False
        return any(number in numbers for number in STOPPING)


def heard(number: int, frame: object) -> None:
    """Do nothing about a signal, which is already noted in the pipe."""


def heed_signals() -> None:
    """Unblock the signals that the previous process has left pending. Install their handlers before."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
