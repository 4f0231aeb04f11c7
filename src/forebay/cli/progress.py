"""Progress bars: on a terminal alone, and only for what takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from forebay.cli.units import octets_said

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER_S: Final = 1.0
DRAWN_S: Final = 0.1  # between two redraws: drawing costs more than a message
OCTETS: Final = "octets"  # a count with this name is shown as sizes


def is_watched() -> bool:
    """Return whether standard error is a terminal, which shows progress bars. If not, a total is not worth its time."""
    return sys.stderr.isatty()


@contextmanager
def progress_bar(what: str, total: float | None, shown: bool = True) -> Iterator[ProgressBar]:
    """Show a progress bar if standard error is a terminal. Call the bar with the work done since the last call.

    total  amount of work; None if unknown
    """
    bar = ProgressBar(what, total)
    if not shown or not is_watched():
        yield bar
        return
    timer = threading.Timer(AFTER_S, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        bar.end()


class ProgressBar:
    """A progress bar: counts the work done, and is drawn from `show` on."""

    def __init__(self, what: str, total: float | None) -> None:
        self._what = what
        self._total = total
        self._done = 0.0
        self._began = time.monotonic()
        self._due = 0.0
        self._progress: Progress | None = None
        self._ended = False
        self._lock = threading.Lock()

    def __call__(self, done: float) -> None:
        """Add to the work done, and redraw the bar if it is due."""
        self._done += done
        if self._progress is not None and time.monotonic() >= self._due:
            with self._lock:
                self._draw()

    def expect(self, total: float) -> None:
        """Set the total work, as far as it is known by now."""
        self._total = total

    def show(self) -> None:
        """Draw the bar from now on, unless the work has ended."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        with self._lock:
            if self._ended:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counted]}"))
            rest = () if self._total is None else (TextColumn("left"), TimeRemainingColumn())
            console = Console(stderr=True)
            progress = Progress(
                *columns, TimeElapsedColumn(), *rest, console=console, transient=True, redirect_stdout=False
            )
            progress.add_task(self._what, total=self._total, counted=self.counted())
            progress.tasks[0].start_time = self._began  # both use the monotonic clock
            self._progress = progress
            self._draw()
            progress.start()

    def counted(self) -> str:
        """Return the count, such as "1,204 of 5,000", or the sizes. Returns "" if nothing is counted yet."""
        if self._total is None and not self._done:
            return ""
        done, total = (
            octets_said(int(number)) if self._what == OCTETS else f"{int(number):,}"
            for number in (self._done, self._total or 0)
        )
        return done if self._total is None else f"{done} of {total}"

    def end(self) -> None:
        """Draw the bar once more, and remove it from the terminal."""
        with self._lock:
            self._ended = True
            if self._progress is not None:
                self._draw()
                self._progress.stop()

    def _draw(self) -> None:
        """Redraw the bar with the work done so far. Call with the lock held."""
        assert self._progress is not None
        task = self._progress.task_ids[0]
        self._progress.update(task, completed=self._done, total=self._total, counted=self.counted())
        self._due = time.monotonic() + DRAWN_S
