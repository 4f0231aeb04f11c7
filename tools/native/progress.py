"""How far the build is: one line that moves on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from typing import Self

MOVE_EVERY_S = 0.5
NOTE_EVERY_S = 10


class Progress:
    """Files that are made while this is entered; with no files, only the time that something takes.

    doing  a word for it
    weight  of all files together; how much is left is reckoned from it
    """

    def __init__(self, doing: str, files: int = 0, weight: int = 0) -> None:
        self.doing = doing
        self.files = files
        self.weight = weight
        self.files_done = 0
        self.weight_done = 0
        self._begun = time.monotonic()
        self._moves = sys.stderr.isatty()
        self._width = 0
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._show()
        self._ticker.start()
        return self

    def __exit__(self, *failed: object) -> None:
        self._ended.set()
        self._ticker.join()
        self._show()
        if self._moves:
            print(file=sys.stderr, flush=True)

    def done(self, weight: int) -> None:
        """One more file is made."""
        self.files_done += 1
        self.weight_done += weight

    def text(self) -> str:
        """What the line says now."""
        spent_s = time.monotonic() - self._begun
        if not self.files:
            return f"{self.doing}: {spent_s:.0f} s"
        text = f"{self.doing}: {self.files_done} of {self.files} files, {spent_s:.0f} s"
        if 0 < self.weight_done < self.weight:
            text += f", about {spent_s * (self.weight - self.weight_done) / self.weight_done:.0f} s left"
        return text

    def _tick(self) -> None:
        while not self._ended.wait(MOVE_EVERY_S if self._moves else NOTE_EVERY_S):
            self._show()

    def _show(self) -> None:
        text = self.text()
        if self._moves:
            print(f"\r  {text.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(text)
        else:
            print(f"  {text}", file=sys.stderr, flush=True)
