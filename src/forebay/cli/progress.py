"""Progress bars: on a terminal alone, and only for what takes longer than a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER_S: Final = 1.0
OCTETS: Final = "octets"  # what is counted so is shown as sizes


@contextmanager
def progress_bar(what: str, total: float | None, shown: bool = True) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, where that is a terminal; give the function what is done more.

    total  None: nobody knows, and it shows the time alone
    """
    if not shown or not sys.stderr.isatty():
        yield lambda done: None
        return
    bar = ProgressBar(what, total)
    timer = threading.Timer(AFTER_S, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        bar.end()


class ProgressBar:
    """The work done so far, and the bar that tells of it from some time on."""

    def __init__(self, what: str, total: float | None) -> None:
        self._what = what
        self._total = total
        self._done = 0.0
        self._progress: Progress | None = None
        self._ended = False
        self._lock = threading.Lock()

    def advance(self, done: float) -> None:
        """So much more is done."""
        with self._lock:
            self._done += done
            if self._progress is not None:
                self._progress.update(self._progress.task_ids[0], completed=self._done)

    def show(self) -> None:
        """Begin to show it, unless it has ended."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        with self._lock:
            if self._ended:
                return
            counted = DownloadColumn(binary_units=True) if self._what == OCTETS else MofNCompleteColumn()
            text, bar = TextColumn("{task.description}"), BarColumn()
            columns = (
                (text, bar, TimeElapsedColumn()) if self._total is None and not self._done else (text, bar, counted)
            )
            rest = () if self._total is None else (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
            console = Console(stderr=True)
            progress = Progress(*columns, *rest, console=console, transient=True, redirect_stdout=False)
            progress.add_task(self._what, total=self._total, completed=int(self._done))
            progress.start()
            self._progress = progress

    def end(self) -> None:
        """Take it away."""
        with self._lock:
            self._ended = True
            if self._progress is not None:
                self._progress.stop()
