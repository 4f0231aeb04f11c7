"""The same command in the place of this process, without losing a signal that tells it to stop.

A signal is for the whole process: while the main thread holds it back, any other thread takes it, and the loop hears of
it in its next turn, which may not come any more. So a handler of Python's notes it, which runs without the loop.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final, NoReturn

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class Replacement:
    """The next process of this command.

    is_told_to_stop  a signal has come since `prepare`
    """

    def __init__(self) -> None:
        self.is_told_to_stop = False

    def prepare(self) -> None:
        """Note signals from now on; one that no other thread takes waits for the next process."""
        for number in STOPPING:
            signal.signal(number, self.note)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)

    def note(self, number: int, frame: object) -> None:
        """A signal has come."""
        self.is_told_to_stop = True

    def begin(self, is_told_to_stop: bool) -> NoReturn:
        """Run the command again, or end where a signal has come, by then or before."""
        for number in STOPPING:
            signal.signal(
                number, signal.SIG_DFL
            )  # runs the handlers that are due; one that comes later ends the process
        if is_told_to_stop or self.is_told_to_stop:
            os._exit(0)  # nothing is lost by that: what counts is on the disk
        os.execv(sys.executable, sys.orig_argv)


def heed_signals() -> None:
    """Take the signals that a process before this one has left: its handlers are there by now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
