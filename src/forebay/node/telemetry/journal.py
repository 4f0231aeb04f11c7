"""The lines that a node has for its operator, until somebody writes them down."""

from __future__ import annotations

from typing import Final, final

# As Python's logging counts.
INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40

Line = tuple[int, str, tuple[object, ...]]  # level, format string, and its arguments


@final
class Journal:
    """The lines noted for the log, in their order."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def info(self, words: str, *given: object) -> None:
        """Note a line for the log on normal operation."""
        self.lines.append((INFO, words, given))

    def warning(self, words: str, *given: object) -> None:
        """Note a line for the log that an operator may want to act on."""
        self.lines.append((WARNING, words, given))

    def error(self, words: str, *given: object) -> None:
        """Note a line for the log that an operator has to act on."""
        self.lines.append((ERROR, words, given))

    def take(self) -> list[Line]:
        """Return and clear the lines noted since the last call."""
        lines, self.lines = self.lines, []
        return lines
